"""Runs the demo: load and measure tables, let the scheduler work, request compactions by hand, measure and check again."""

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
    # The cleaner should run because of events: an earlier timed run would leave them no work.
    "AIRFLOW__COMPACTOR__CLEANER_INTERVAL": "300",
    "AIRFLOW__COMPACTOR__HOUSEKEEPER_INTERVAL": "120",
}
#: Tables that the initiator must find in addition to ``tables.list_due``.
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
            NotAsPromised: rows changed, or an obsolete directory still exists.
            CompactorError: a step failed.
        """
        start = time.monotonic()
        with self._running() as (servers, site, watch):
            before = self._load(servers, site, watch)
            damage = scenes.Damage.truncate(site, self._place.folder)
            with scenes.leave_open(site), scenes.keep_writing(self._place):
                self._await_scheduled(watch)
                self._show_blocker(site, watch)
            watch.report("the report ends, and the cleaner may continue")
            damage.mend()
            self._request_by_hand(watch)
        with self._place.site() as site:
            after = _measure_all(site)
            assert site.state is not None
            [copied] = site.state.runs.latest(site.name, 1, entity=scenes.CLICKS)
            written = {str(scenes.LIVE): scenes.count_written(site)}
        seconds = time.monotonic() - start
        report.write(self._place.report, before, after, seconds)
        self._console.print(report.compare(before, after))
        self._console.print(report.describe_copy(copied))
        complaints = [*report.find_complaints(before, after, written), *report.find_decoded(copied)]
        if complaints:
            raise NotAsPromised("; ".join(complaints))
        self._console.print(
            f"Every row and ROW__ID is unchanged, and every row that was written during the demo exists. {seconds:.0f} s. "
            f"Figures: {self._place.report}"
        )

    def up(self) -> None:
        """Runs the same tables and Airflow's UI until Ctrl-C: an open report, a truncated file, continuous writes."""
        with self._running() as (servers, site, watch), ExitStack() as stack:
            self._load(servers, site, watch)
            damage = scenes.Damage.truncate(site, self._place.folder)
            stack.enter_context(scenes.leave_open(site))
            stack.enter_context(scenes.keep_writing(self._place))
            watch.prepare()
            watch.trigger("compact_table", {"table": str(scenes.DAMAGED), "type": "major", "wait": True})
            for line in (
                f"{scenes.CLICKS} only grows, so its stripes are copied. A report on it stays open: see Blocked.",
                f"{scenes.LIVE} is written every few seconds.",
                f"{scenes.DAMAGED} fails, because a file is truncated. The remedy, followed by Retry in History:",
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
        """Prepares a new folder and the servers, and stops all of them at the end of the block."""
        with self._place.lock():
            self._place.make()
            more = _AIRFLOW | {"AIRFLOW__COMPACTOR__CONFIG": str(self._place.config)}
            servers = AirflowServers(self._place.airflow, self._root / "dags", more, port=self._port)
            try:
                with self._place.site() as site:
                    yield servers, site, SchedulerWatch(servers, site, self._console, [scenes.DAMAGED])
            finally:
                self._console.print("Stopping Airflow.")
                with _ignore_interrupts():
                    servers.stop()

    def _load(self, servers: AirflowServers, site: Site, watch: SchedulerWatch) -> list[TableFigures]:
        """Writes and measures the tables while Airflow starts with paused DAGs."""
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
                before = _measure_all(site)
                for table in before:
                    watch.report(
                        f"{table.table}: {table.directories} directories, {table.files} files, {table.rows:,} rows"
                    )
            except BaseException:
                servers.stop()  # otherwise the thread would keep waiting for an API that nobody needs
                raise
            starting.result()
        watch.report(f"Airflow answers at {servers.url}")
        return before

    def _await_scheduled(self, watch: SchedulerWatch) -> None:
        """Waits for the scheduler's own passes, and for a request by hand that must fail."""
        watch.prepare()
        watch.report(f"compact_table is triggered for {scenes.DAMAGED}, one of whose files is truncated")
        watch.trigger("compact_table", {"table": str(scenes.DAMAGED), "type": "major", "wait": True})
        due = [*tables.list_due(self._months), *_ALSO_DUE]
        watch.wait("the initiator's requests are compacted", lambda: watch.are_merged(due), 900)
        watch.wait(
            f"the request of {scenes.DAMAGED} fails", lambda: watch.find_failure(scenes.DAMAGED) is not None, 900
        )
        watch.wait("the housekeeper has run", lambda: watch.has_succeeded("acid_housekeeper"), 900)

    def _show_blocker(self, site: Site, watch: SchedulerWatch) -> None:
        failure = watch.find_failure(scenes.DAMAGED)
        watch.report(f"{scenes.DAMAGED} has failed, as it should, and is unchanged: {failure.error if failure else ''}")
        for blocking in blocking_transactions(site):
            watch.report(
                f"nothing is removed yet: {blocking.blocker} may still read {blocking.bytes_waiting:,} bytes of "
                f"{len(blocking.entries)} compactions"
            )

    def _request_by_hand(self, watch: SchedulerWatch) -> None:
        """Requests compactions as in the form: of tables far below their thresholds, and of the repaired one."""
        by_hand = (*tables.BY_HAND, scenes.DAMAGED)
        for entity in by_hand:
            name = f"{entity.database}.{entity.table}"
            why = "whose file is put back" if entity == scenes.DAMAGED else "whose thresholds a table property raised"
            watch.report(f"compact_table is triggered for {name}, {why}")
            watch.trigger("compact_table", {"table": name, "type": "major", "wait": True})
        # The fixtures have compactions in their history, so only the end of the runs shows that ours are done.
        watch.wait("compact_table ended", partial(watch.has_succeeded, "compact_table", "", len(by_hand)), 900)
        every = (*by_hand, *tables.list_due(self._months), *_ALSO_DUE)
        watch.wait("all of them are cleaned", lambda: watch.are_compacted(every), 900)
        # Not earlier: a timed run of the cleaner before an event would leave the event no work.
        for dag in ("compaction_worker", "compaction_cleaner"):
            watch.wait(f"{dag} has run because of an event", partial(watch.has_succeeded, dag, "asset_triggered"), 900)


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
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


def _measure_all(site: Site) -> list[TableFigures]:
    others = ((entity.database, entity.table) for entity in (*_ALSO_DUE, scenes.DAMAGED))
    return [measure(site, database, name) for database, name in (*tables.TABLES, *others)]
