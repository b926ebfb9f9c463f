"""Runs units on Spark executors, several groups' jobs side by side."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from compactor.rewrite.run.execute import TaskInput, TaskResult, attempt_tasks
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.runner import keep_busy
from compactor.rewrite.run.task_queue import Job, JobAnswer, TaskQueue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MAX_GROUPS = 8
_MAX_JOBS = 32  #: Spark jobs under way at once for one group; each takes a thread here


class SparkRunner:
    """Runs each parcel of units as one Spark task. A large unit is a Spark job by itself, so that no core waits for the
    longest of several; the others share jobs, since a job costs more than a tiny unit.

    Uses plain RDDs: a unit is a small pickled value that returns a small value, and no row passes through Spark.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    @property
    def application(self) -> str:
        """See ``Runner``."""
        return str(self._context.applicationId)

    @property
    def width(self) -> int:
        """The number of tasks that the cluster works on at once, as far as is known now."""
        return max(1, int(self._context.defaultParallelism))

    @property
    def groups(self) -> int:
        """The best number of groups of entries under way at once; each entry holds a transaction open."""
        return min(_MAX_GROUPS, self.width)

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        width = self.width
        queue = TaskQueue(jobs, width)
        parcels_under_way = 2 * width  # so that a core that is done finds the next task waiting for it
        name = f"compactor-{uuid.uuid4().hex}"
        group = (name, f"{len(jobs)} entries")
        begun: list[Future[list[TaskResult | Failure]]] = []

        with ThreadPoolExecutor(_MAX_JOBS, "job", initializer=self._context.setJobGroup, initargs=group) as threads:

            def begin(parcels: list[list[TaskInput]]) -> Future[list[TaskResult | Failure]]:
                begun.append(threads.submit(self._answers, parcels))
                return begun[-1]

            try:
                keep_busy(queue, parcels_under_way, begin, together=width, large=-(-parcels_under_way // _MAX_JOBS))
            except BaseException:
                self._cancel(name, begun)
                raise
        return queue.answers()

    def _answers(self, parcels: list[list[TaskInput]]) -> list[TaskResult | Failure]:
        found = self._context.parallelize(parcels, len(parcels)).map(attempt_tasks).collect()
        return list(chain.from_iterable(found))

    def _cancel(self, name: str, begun: Sequence[Future[list[TaskResult | Failure]]]) -> None:
        """Cancels our jobs until none is left: nobody waits for them any longer, and a thread may be about to begin one."""
        from py4j.protocol import Py4JError

        left = [future for future in begun if not future.cancel()]
        while wait(left, timeout=0.1).not_done:
            with suppress(Py4JError, OSError):  # Spark itself may be gone
                self._context.cancelJobGroup(name)
