"""The demo itself: load, measure, let the scheduler work, ask for one more by hand, measure again, judge."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console

from compactor.demo import report, tables
from compactor.demo.demo_folder import DemoPaths
from compactor.demo.measure import measure
from compactor.demo.report import TableFigures
from compactor.demo.scheduler_watch import Story
from compactor.demo.servers import AirflowServers
from compactor.errors import CompactorError
from compactor.service.site import Site

#: Airflow's section [compactor] for the demo: short intervals, one Spark application at a time.
_AIRFLOW = {
    "AIRFLOW__COMPACTOR__POOL": "compaction",
    "AIRFLOW__COMPACTOR__POLL_SECONDS": "4",
    # By events, unless something holds the cleaner back: a timed run that came first would leave it nothing to be told of.
    "AIRFLOW__COMPACTOR__CLEANER_INTERVAL": "300",
    "AIRFLOW__COMPACTOR__HOUSEKEEPER_INTERVAL": "120",
}


class NotAsPromised(CompactorError):
    """The demo came to its end, and what it found there is wrong."""


class Demo:
    """One run in ``folder``, with the DAGs of the checkout ``root`` and the first ``months`` of flights."""

    def __init__(
        self, root: Path, folder: Path, console: Console, *, months: int = 12, port: int | None = None
    ) -> None:
        self._root = root
        self._place = DemoPaths(folder=folder)
        self._console = console
        self._months = months
        self._port = port

    def run(self) -> None:
        """To the end.

        Raises:
            NotAsPromised: rows changed, or a directory stayed that should be gone.
            CompactorError: something failed on the way.
        """
        start = time.monotonic()
        with self._running() as (servers, site, story):
            before = self._load(servers, site, story)
            self._scheduled(story)
            self._by_hand(story)
        with self._place.site() as site:
            after = _measured(site)
        seconds = time.monotonic() - start
        report.write(self._place.report, before, after, seconds)
        self._console.print(report.comparison(before, after))
        wrong = report.complaints(before, after)
        if wrong:
            raise NotAsPromised("; ".join(wrong))
        self._console.print(f"Every row and ROW__ID is as before. {seconds:.0f} s. Figures: {self._place.report}")

    def up(self) -> None:
        """Until Ctrl-C: the same tables and Airflow's UI."""
        with self._running() as (servers, site, story):
            self._load(servers, site, story)
            story.prepare()
            self._console.print(
                f"Airflow runs at [bold]{servers.url}[/bold], log in as [bold]{servers.user}[/bold] with password "
                f"[bold]{servers.password}[/bold]. Ctrl-C stops it.",
                highlight=False,
            )
            while True:
                servers.check()
                time.sleep(1)

    @contextmanager
    def _running(self) -> Iterator[tuple[AirflowServers, Site, Story]]:
        """A fresh place with servers that are starting; all of them are gone when the block ends, however it does."""
        with self._place.taken():
            self._place.make()
            more = _AIRFLOW | {"AIRFLOW__COMPACTOR__CONFIG": str(self._place.config)}
            servers = AirflowServers(self._place.airflow, self._root / "dags", more, port=self._port)
            try:
                with self._place.site() as site:
                    yield servers, site, Story(servers, site, self._console)
            finally:
                self._console.print("Stopping Airflow.")
                with _undisturbed():
                    servers.stop()

    def _load(self, servers: AirflowServers, site: Site, story: Story) -> list[TableFigures]:
        """Write the tables and measure them while Airflow starts; its DAGs are paused until then."""
        story.tell("Airflow starts: api-server, dag-processor, scheduler, triggerer")
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(servers.start, 900)
            try:
                tables.load(site, self._root / "tests" / "fixtures", self._place.warehouse, self._months, story.tell)
                before = _measured(site)
                for one in before:
                    story.tell(f"{one.table}: {one.directories} directories, {one.files} files, {one.rows:,} rows")
            except BaseException:
                servers.stop()  # or the thread would go on waiting for an API that nobody needs any more
                raise
            starting.result()
        story.tell(f"Airflow answers at {servers.url}")
        return before

    def _scheduled(self, story: Story) -> None:
        """What the scheduler does by itself: find, compact, clean, keep house."""
        story.prepare()
        due = tables.due(self._months)
        story.wait("the initiator's requests are compacted and cleaned", lambda: story.compacted(due), 900)
        story.wait("the housekeeper has run", lambda: story.succeeded("acid_housekeeper"), 900)

    def _by_hand(self, story: Story) -> None:
        """What somebody asks for in the form, though the tables' thresholds are far away."""
        for entity in tables.BY_HAND:
            name = f"{entity.database}.{entity.table}"
            story.tell(f"compact_table is triggered for {name}, whose thresholds a table property raised")
            story.trigger("compact_table", {"table": name, "type": "major", "wait": True})
        # Its tables came with compactions in their history, so only the end of the runs says that ours are done.
        story.wait("compact_table ended", partial(story.succeeded, "compact_table", "", len(tables.BY_HAND)), 900)
        story.wait("the requests by hand are cleaned", lambda: story.compacted(tables.BY_HAND), 900)
        # Only now: a cleaner by the clock that is faster than one announcement leaves nothing to be told of by it.
        for dag in ("compaction_worker", "compaction_cleaner"):
            story.wait(f"{dag} has run because of an event", partial(story.succeeded, dag, "asset_triggered"), 900)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not keep us from ending what we started; that takes seconds and has an end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _measured(site: Site) -> list[TableFigures]:
    return [measure(site, database, name) for database, name in tables.TABLES]
