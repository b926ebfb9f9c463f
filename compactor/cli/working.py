"""A worker of the command line: where its units run, and pass after pass until nobody wants one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from compactor.cli.stopping import Stop
from compactor.errors import CompactorError
from compactor.service.batch import WorkerPass, claimable, run_batch, run_entries
from compactor.service.site import Site
from compactor.service.worker import Fate, Options, Outcome

if TYPE_CHECKING:
    from compactor.rewrite.runner import Runner

_POLL_S = 1.0  #: between two looks at an empty queue
_WIDEST = 8  #: entries under way at once; each holds a transaction open


class Working:
    """Runs entries. Spark is started when there is something to do, and not before."""

    def __init__(
        self,
        *,
        site: Site,
        stop: Stop,
        say: Callable[[str], None] | None,
        master: str | None,
        full_verify: bool,
        pool: str | None,
    ) -> None:
        self._site = site
        self._stop = stop
        self._say = say
        self._master = master
        self._options = Options(full_verify=full_verify)
        self._pool = pool
        self._runner: Runner | None = None
        self._session: Any = None
        self._width = 1
        self._passes: list[WorkerPass] = []
        self._pass_failed = False

    @property
    def failed(self) -> bool:
        """Whether an entry failed, or the last pass itself did."""
        return self._pass_failed or any(done.failed for done in self._passes)

    def to_json(self) -> dict[str, object]:
        """Everything that was done, as one pass."""
        return WorkerPass(
            outcomes=tuple(o for done in self._passes for o in done.outcomes),
            repaired=tuple(r for done in self._passes for r in done.repaired),
            mine=all(done.mine for done in self._passes),
        ).to_json()

    def batch(self, batch_id: int) -> None:
        """A planned batch, if this is its first driver."""
        runner = self._runs()
        done = run_batch(self._site, batch_id, runner, self._options, parallel=self._width, progress=self._progress)
        self._passes.append(done)
        if not done.mine:
            self._tell(f"batch {batch_id} belongs to another driver; nothing is done here")

    def queue(self, *, once: bool, linger_s: float | None) -> None:
        """What waits in the queue: once, or until asked to stop or nothing came for ``linger_s``."""
        if not once:
            self._tell("worker: waits for requests")
        idle_since = time.monotonic()
        while not self._stop.asked:
            worked = self._pass(once)
            if once:
                break
            if worked:
                idle_since = time.monotonic()
            elif linger_s is not None and time.monotonic() - idle_since >= linger_s:
                break
            self._stop.wait(_POLL_S if linger_s is None else min(_POLL_S, linger_s))
        outcomes = [o for done in self._passes for o in done.outcomes]
        self._tell(f"worker: {len(outcomes)} entries, {sum(o.fate is Fate.FAILED for o in outcomes)} failed")

    def close(self) -> None:
        """Let go of Spark."""
        if self._session is not None:
            self._session.stop()

    def _pass(self, once: bool) -> bool:
        """Whether there was something to do. One who runs on tells an error of the pass and outlives it."""
        try:
            ids = claimable(self._site, self._pool)
            if ids:
                self._entries(ids)
        except CompactorError as error:
            if once:
                raise
            click.echo(f"compactor: the pass failed, the next one follows: {error}", err=True)
            self._pass_failed = True
            return False
        self._pass_failed = False
        return bool(ids)

    def _entries(self, ids: Sequence[int]) -> None:
        """In groups as wide as the runner, so that a wish to stop is met after the entries under way."""
        runner = self._runs()
        for start in range(0, len(ids), self._width):
            if self._stop.asked:
                return
            group = ids[start : start + self._width]
            self._passes.append(
                run_entries(self._site, group, runner, self._options, parallel=self._width, progress=self._progress)
            )

    def _runs(self) -> Runner:
        if self._runner is None:
            self._runner = self._in_process() if self._master is None else self._spark(self._master)
        return self._runner

    def _in_process(self) -> Runner:
        from compactor.rewrite.runner import InProcessRunner

        return InProcessRunner(threads=os.cpu_count() or 1)

    def _spark(self, master: str) -> Runner:
        from compactor.spark.runner import SparkRunner
        from compactor.spark.session import session

        self._session = session(f"compactor-{self._site.name}", master=master)
        self._width = min(_WIDEST, max(1, self._session.sparkContext.defaultParallelism))
        return SparkRunner(self._session)

    def _progress(self, outcome: Outcome) -> None:
        entry = outcome.entry
        what = f"{entry.entity}: compaction {entry.id} {entry.type.label.lower()} {outcome.fate.name.lower()}"
        message = f": {outcome.message}" if outcome.message else ""
        output = f" -> {', '.join(outcome.output)}" if outcome.output else ""
        self._tell(f"{what} in {outcome.seconds:.2f} s{output}{message}")

    def _tell(self, text: str) -> None:
        if self._say is not None:
            self._say(text)
