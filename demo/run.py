"""Runs the demo: load, measure, let the scheduler work, request one more by hand, measure again, check."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console

from compactor.base.errors import CompactorError
from compactor.cleaner.blockers import blocking_transactions
from compactor.site.site import Site
from demo import merge, report, scenes, tables
from demo.demo_folder import DemoPaths
from demo.measure import measure
from demo.report import TableFigures
from demo.scheduler_watch import SchedulerWatch
from demo.servers import AirflowServers

#: Airflow's section [compactor] for the demo: short intervals, one Spark application at a time.
_AIRFLOW = {
    "AIRFLOW__COMPACTOR__POOL": "compaction",
    "AIRFLOW__COMPACTOR__POLL_SECONDS": "4",
    # The cleaner should run on events unless something delays it: a timed run that came first would leave no event's work.
    "AIRFLOW__COMPACTOR__CLEANER_INTERVAL": "300",
    "AIRFLOW__COMPACTOR__HOUSEKEEPER_INTERVAL": "120",
}
#: What the initiator must find besides ``tables.due``.
_ALSO_DUE = (scenes.CLICKS, scenes.LIVE, merge.ORDERS)


class NotAsPromised(CompactorError):
    """The demo finished with a wrong result."""


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
        """Runs the demo to its end.

        Raises:
            NotAsPromised: rows changed, or a directory that should be gone is still there.
            CompactorError: a step failed.
        """
        start = time.monotonic()
        with self._running() as (servers, site, watch):
            before = self._load(servers, site, watch)
            damage = scenes.Damage.done(site, self._place.folder)
            with scenes.left_open(site), scenes.writes(self._place):
                self._scheduled(watch)
                self._show_blocker(site, watch)
            watch.report("the report ends, and the cleaner may go on")
            damage.mend()
            self._by_hand(watch)
        with self._place.site() as site:
            after = _measured(site)
            assert site.state is not None
            [copied] = site.state.runs.latest(site.name, 1, entity=scenes.CLICKS)
            written = {str(scenes.LIVE): scenes.written(site)}
        seconds = time.monotonic() - start
        report.write(self._place.report, before, after, seconds)
        self._console.print(report.comparison(before, after))
        self._console.print(report.copying(copied))
        wrong = [*report.complaints(before, after, written), *report.decoded(copied)]
        if wrong:
            raise NotAsPromised("; ".join(wrong))
        self._console.print(
            f"Every row and ROW__ID is as before, and every row that was written meanwhile is there. {seconds:.0f} s. "
            f"Figures: {self._place.report}"
        )

    def up(self) -> None:
        """Keeps the same tables and Airflow's UI running until Ctrl-C: with a report that is left open, a file that is cut
        short, and writes that go on."""
        with self._running() as (servers, site, watch), ExitStack() as stack:
            self._load(servers, site, watch)
            damage = scenes.Damage.done(site, self._place.folder)
            stack.enter_context(scenes.left_open(site))
            stack.enter_context(scenes.writes(self._place))
            watch.prepare()
            watch.trigger("compact_table", {"table": str(scenes.DAMAGED), "type": "major", "wait": True})
            for line in (
                f"{scenes.CLICKS} only grows, and is copied. A report on it is left open: see Blocked.",
                f"{scenes.LIVE} is written every few seconds.",
                f"{scenes.DAMAGED} fails, since a file is cut short. The remedy, and then Retry in History:",
                f"  cp {damage.kept} {damage.file}",
            ):
                self._console.print(line, highlight=False, soft_wrap=True)
            self._console.print(
                f"Airflow runs at [bold]{servers.url}[/bold], log in as [bold]{servers.user}[/bold] with password "
                f"[bold]{servers.password}[/bold]. Ctrl-C stops it.",
                highlight=False,
            )
            while True:
                servers.check()
                time.sleep(1)

    @contextmanager
    def _running(self) -> Iterator[tuple[AirflowServers, Site, SchedulerWatch]]:
        """Prepares a fresh folder and the servers, which are all stopped when the block ends in any way."""
        with self._place.taken():
            self._place.make()
            more = _AIRFLOW | {"AIRFLOW__COMPACTOR__CONFIG": str(self._place.config)}
            servers = AirflowServers(self._place.airflow, self._root / "dags", more, port=self._port)
            try:
                with self._place.site() as site:
                    yield servers, site, SchedulerWatch(servers, site, self._console, [scenes.DAMAGED])
            finally:
                self._console.print("Stopping Airflow.")
                with _undisturbed():
                    servers.stop()

    def _load(self, servers: AirflowServers, site: Site, watch: SchedulerWatch) -> list[TableFigures]:
        """Writes the tables and measures them while Airflow starts; its DAGs are paused until then."""
        watch.report("Airflow starts: api-server, dag-processor, scheduler, triggerer")
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(servers.start, 900)
            try:
                tables.load(site, self._root / "tests" / "fixtures", self._place.warehouse, self._months, watch.report)
                watch.report(f"{scenes.CLICKS}, which only grows, {scenes.DAMAGED} and {scenes.LIVE} are written")
                scenes.load(site)
                merge.load(site)
                watch.report(f"a MERGE in SQL on Spark changes {merge.ORDERS}:\n{merge.STATEMENT.strip()}")
                watch.report(f"{merge.ORDERS}: {merge.run(self._place)}")
                before = _measured(site)
                for one in before:
                    watch.report(f"{one.table}: {one.directories} directories, {one.files} files, {one.rows:,} rows")
            except BaseException:
                servers.stop()  # or the thread would keep waiting for an API that is no longer needed
                raise
            starting.result()
        watch.report(f"Airflow answers at {servers.url}")
        return before

    def _scheduled(self, watch: SchedulerWatch) -> None:
        """Waits for the scheduler's own work, find, compact, keep house, and for a request by hand that has to fail."""
        watch.prepare()
        watch.report(f"compact_table is triggered for {scenes.DAMAGED}, one file of which was cut short")
        watch.trigger("compact_table", {"table": str(scenes.DAMAGED), "type": "major", "wait": True})
        due = [*tables.due(self._months), *_ALSO_DUE]
        watch.wait("the initiator's requests are compacted", lambda: watch.merged(due), 900)
        watch.wait(f"the request of {scenes.DAMAGED} fails", lambda: watch.failed(scenes.DAMAGED) is not None, 900)
        watch.wait("the housekeeper has run", lambda: watch.succeeded("acid_housekeeper"), 900)

    def _show_blocker(self, site: Site, watch: SchedulerWatch) -> None:
        failed = watch.failed(scenes.DAMAGED)
        watch.report(f"{scenes.DAMAGED} has failed, as it should, and is as it was: {failed.error if failed else ''}")
        for one in blocking_transactions(site):
            watch.report(
                f"nothing is removed yet: {one.blocker} may still read {one.bytes_waiting:,} bytes of "
                f"{len(one.entries)} compactions"
            )

    def _by_hand(self, watch: SchedulerWatch) -> None:
        """Requests compactions as in the form: of tables far below their thresholds, and of the one that is mended."""
        by_hand = (*tables.BY_HAND, scenes.DAMAGED)
        for entity in by_hand:
            name = f"{entity.database}.{entity.table}"
            why = "whose file is put back" if entity == scenes.DAMAGED else "whose thresholds a table property raised"
            watch.report(f"compact_table is triggered for {name}, {why}")
            watch.trigger("compact_table", {"table": name, "type": "major", "wait": True})
        # Its tables came with compactions in their history, so only the end of the runs shows that ours are done.
        watch.wait("compact_table ended", partial(watch.succeeded, "compact_table", "", len(by_hand)), 900)
        every = (*by_hand, *tables.due(self._months), *_ALSO_DUE)
        watch.wait("all of them are cleaned", lambda: watch.compacted(every), 900)
        # Not earlier: a timed run of the cleaner before an announcement leaves that event no work.
        for dag in ("compaction_worker", "compaction_cleaner"):
            watch.wait(f"{dag} has run because of an event", partial(watch.succeeded, dag, "asset_triggered"), 900)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignores a second Ctrl-C while our processes are stopped, which takes seconds."""
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
    others = ((one.database, one.table) for one in (*_ALSO_DUE, scenes.DAMAGED))
    return [measure(site, database, name) for database, name in (*tables.TABLES, *others)]
