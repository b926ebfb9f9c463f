"""Runs units on Spark executors, several groups' jobs side by side."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from compactor.base.errors import CompactorError
from compactor.launch.spark_executor import attempt_parcel
from compactor.rewrite.run.execute import TaskInput, TaskResult, unit_of, with_stores
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.runner import keep_busy
from compactor.rewrite.run.task_queue import Job, JobAnswer, TaskQueue
from compactor.storage.executor_tokens import ExecutorTokens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MAX_GROUPS = 8
_MAX_JOBS = 32  #: Spark jobs under way at once for one group; each takes a thread here


class SparkRunner:
    """Runs each parcel of units as one Spark task.

    A large unit gets its own Spark job, so that no core waits for the longest of several units. Small units share jobs,
    because a job costs more than a tiny unit. Only small pickled values pass through Spark, as plain RDDs, and no rows.
    """

    def __init__(self, session: SparkSession, tokens: ExecutorTokens | None = None) -> None:
        """Passes ``tokens`` of clusters with Kerberos to executors. The caller cancels them."""
        self._context = session.sparkContext
        self._tokens = tokens or ExecutorTokens()

    @property
    def application(self) -> str:
        """See ``Runner``."""
        return str(self._context.applicationId)

    @property
    def width(self) -> int:
        """The number of tasks that the cluster runs at once, as far as Spark knows now."""
        return max(1, int(self._context.defaultParallelism))

    @property
    def groups(self) -> int:
        """The best number of groups of entries that run at once. Each entry keeps a transaction open."""
        return min(_MAX_GROUPS, self.width)

    def start(self) -> Future[None]:
        """Begins to start the Python of every executor while the driver looks for its first entries.

        A start takes as long as dozens of tiny units.

        Returns:
            A future that is done once all have started. Its error, if any, need not be read: the first units raise it too.
        """
        started: Future[None] = Future()

        def begin() -> None:
            try:
                self._run_parcels([[] for _ in range(self.width)])
            except Exception as error:  # noqa: BLE001 - stored in the future
                started.set_exception(error)
            else:
                started.set_result(None)

        threading.Thread(target=begin, name="start executors", daemon=True).start()
        return started

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        width = self.width
        queue = TaskQueue(jobs, width)
        parcels_under_way = 2 * width  # so that a core finds its next task waiting
        name = f"compactor-{uuid.uuid4().hex}"
        group = (name, f"{len(jobs)} entries")
        begun: list[Future[list[TaskResult | Failure]]] = []

        with ThreadPoolExecutor(_MAX_JOBS, "job", initializer=self._context.setJobGroup, initargs=group) as threads:

            def begin(parcels: list[list[TaskInput]]) -> Future[list[TaskResult | Failure]]:
                begun.append(threads.submit(self._run_parcels, parcels))
                return begun[-1]

            try:
                keep_busy(
                    queue,
                    parcels_under_way,
                    begin,
                    together=width,
                    large=-(-parcels_under_way // _MAX_JOBS),
                    abandon=lambda: self._cancel(name, begun),
                )
            except BaseException:
                self._cancel(name, begun)
                raise
        return queue.answers()

    def _run_parcels(self, parcels: list[list[TaskInput]]) -> list[TaskResult | Failure]:
        ready = [[self._add_tokens(task) for task in parcel] for parcel in parcels]
        sent = [[task for task in parcel if not isinstance(task, Failure)] for parcel in ready]
        results = chain.from_iterable(self._context.parallelize(sent, len(sent)).map(attempt_parcel).collect())
        return [task if isinstance(task, Failure) else next(results) for task in chain.from_iterable(ready)]

    def _add_tokens(self, task: TaskInput) -> TaskInput | Failure:
        """Returns the task with the tokens that an executor needs for its table.

        The driver's own log-in stays here.
        """
        unit = unit_of(task)
        try:
            stores = self._tokens.standing_in(unit.stores, unit.location)
        except CompactorError as error:
            return Failure.from_error(error)
        return task if stores is unit.stores else with_stores(task, stores)

    def _cancel(self, name: str, begun: Sequence[Future[list[TaskResult | Failure]]]) -> None:
        """Cancels our jobs until all have ended. It repeats that, because a thread may just begin another job."""
        from py4j.protocol import Py4JError

        running = [future for future in begun if not future.cancel()]
        while wait(running, timeout=0.1).not_done:
            with suppress(Py4JError, OSError):  # Spark itself may be gone
                self._context.cancelJobGroup(name)
