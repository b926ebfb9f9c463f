"""The worker of the command line: it chooses where units run, and runs passes until a stop signal."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from compactor.base.errors import CompactorError
from compactor.base.printable import count_text
from compactor.base.stop_signals import Stop
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import MAX_GROUP_SIZE, WorkerPass, count_concurrent_groups, run_batch, run_without_repair
from compactor.cli.output import say
from compactor.site.lost_workers import repair
from compactor.site.run_as import entries_of_other_users, must_be_ours, must_run_as
from compactor.site.site import Site
from compactor.storage.executor_tokens import ExecutorTokens
from compactor.worker.ending import Outcome, Result
from compactor.worker.under_way import Options

if TYPE_CHECKING:
    from compactor.rewrite.run.runner import ProcessRunner, Runner

_POLL_S = 1.0  #: between two checks of an empty queue


class CliWorker:
    """Compacts entries, and starts Spark only once there is work.

    ``report`` gets the results: once for a batch or a single pass, group by group for a worker that keeps running.
    """

    def __init__(
        self,
        *,
        site: Site,
        stop: Stop,
        say: Callable[[str], None],
        report: Callable[[WorkerPass], None],
        master: str | None,
        full_verify: bool,
        pools: frozenset[str] | None,
    ) -> None:
        self._site = site
        self._stop = stop
        self._say = say
        self._report = report
        self._master = master
        self._options = Options(full_verify=full_verify, stops=lambda: stop.is_requested)
        self._pools = pools
        self._runner: Runner | None = None
        self._session: Any = None
        self._tokens: ExecutorTokens | None = None
        self._processes: ProcessRunner | None = None
        self._width = 1
        self.failed = False  #: true if the last pass or one of its entries failed
        self.worked = 0
        self.failures = 0
        self._others: frozenset[int] = frozenset()  #: entries of other users that were reported
        must_be_ours(site)

    def run_batch(self, batch_id: int) -> None:
        """Runs a planned batch if this is its first driver.

        Raises:
            Refused: one of its entries must be compacted as another user.
        """
        must_run_as(self._site, batch_id)
        runner = self._start_runner()
        done = run_batch(
            self._site, batch_id, runner, self._options, parallel=self._width, progress=self._report_progress
        )
        self.failed = bool(done.failed)
        self._report(done)
        if not done.mine:
            self._say(f"batch {batch_id} belongs to another driver; there is nothing to do here")

    def run_once(self) -> None:
        """Compacts every entry that can be claimed now."""
        groups = list(self._run_groups())
        self.failed = any(done.failed for done in groups)
        self._report(
            WorkerPass(
                outcomes=tuple(o for done in groups for o in done.outcomes),
                repaired=tuple(r for done in groups for r in done.repaired),
            )
        )
        self._say(f"worker: {count_text(self.worked, 'entry', 'entries')}, {self.failures} failed")

    def run_until_stopped(self, linger_s: float | None) -> None:
        """Compacts entries as they come, until a stop signal or ``linger_s`` without work.

        A failed pass, for example while the database is down, is reported, and the next one follows.
        """
        self._say("worker: waiting for requests")
        idle_since = time.monotonic()
        while not self._stop.is_requested:
            if self._run_pass():
                idle_since = time.monotonic()
            elif linger_s is not None and time.monotonic() - idle_since >= linger_s:
                break
            self._stop.wait(_POLL_S if linger_s is None else min(_POLL_S, linger_s))
        self._say(f"worker: {count_text(self.worked, 'entry', 'entries')}, {self.failures} failed")

    def close(self) -> None:
        """Stops Spark, or the processes that replace it, and cancels the executors' tokens."""
        if self._processes is not None:
            self._processes.close()
        if self._session is not None:
            self._session.stop()
        if self._tokens is not None:
            self._tokens.cancel()

    def _run_pass(self) -> bool:
        """Runs one pass; returns true if an entry progressed, rather than only waited for a lock."""
        progressed = False
        self.failed = False
        try:
            for done in self._run_groups():
                self._report(done)
                self.failed = self.failed or bool(done.failed)
                progressed = progressed or any(o.result is not Result.WAITING for o in done.outcomes)
        except CompactorError as error:
            say(f"compactor: the pass failed, the next one follows: {error}", err=True)
            self.failed = True
        return progressed

    def _run_groups(self) -> Iterator[WorkerPass]:
        """Compacts the queue in parts; a stop takes effect after the running entries.

        Repairs leftovers of dead workers even if the queue is empty: no other worker may come (PROTOCOL 6).
        """
        if repaired := repair(self._site):
            yield WorkerPass(repaired=repaired)
        ids = self._keep_own(list_claimable_ids(self._site, self._pools))
        if not ids:
            return
        runner = self._start_runner()
        part = self._width * MAX_GROUP_SIZE
        for start in range(0, len(ids), part):
            if self._stop.is_requested:
                return
            yield run_without_repair(
                self._site,
                ids[start : start + part],
                runner,
                self._options,
                parallel=self._width,
                progress=self._report_progress,
                may_begin=lambda: not self._stop.is_requested,
            )

    def _keep_own(self, ids: list[int]) -> list[int]:
        """Keeps the entries that this process's user may compact, and reports each other entry once."""
        others = entries_of_other_users(self._site, ids)
        for number in others.keys() - self._others:
            self._say(f"{others[number]}; it stays in the queue")
        self._others = frozenset(others)
        return [number for number in ids if number not in others]

    def _start_runner(self) -> Runner:
        if self._runner is None:
            self._runner = self._start_processes() if self._master is None else self._start_spark(self._master)
        return self._runner

    def _start_processes(self) -> Runner:
        from compactor.rewrite.run.runner import ProcessRunner

        settings = self._site.settings
        self._width = count_concurrent_groups(settings)
        width = settings.integer("compactor.unit.processes") or os.cpu_count() or 1
        self._processes = ProcessRunner(width, settings.integer("compactor.unit.memory"))
        return self._processes

    def _start_spark(self, master: str) -> Runner:
        from compactor.launch.spark_runner import SparkRunner
        from compactor.launch.spark_session import start_session
        from compactor.site.spark_secrets import check_keytabs

        check_keytabs(self._site.settings.spark_conf)
        interrupt = signal.getsignal(signal.SIGINT)
        self._session = start_session(
            f"compactor-{self._site.name}",
            master=master,
            conf=self._site.settings.public_spark_conf | self._site.settings.secret_spark_conf,
        )
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)  # pyspark's own handler cancels running jobs
        self._tokens = ExecutorTokens()
        runner = SparkRunner(self._session, self._tokens)
        runner.start()
        self._width = runner.groups
        return runner

    def _report_progress(self, outcome: Outcome) -> None:
        entry = outcome.entry
        what = f"{entry.entity}: compaction {entry.id} {entry.type.label.lower()} {outcome.result.name.lower()}"
        message = f": {outcome.message}" if outcome.message else ""
        output = f" -> {', '.join(outcome.output)}" if outcome.output else ""
        self.worked += 1
        self.failures += outcome.result is Result.FAILED
        self._say(f"{what} in {outcome.seconds:.2f} s{output}{message}")
