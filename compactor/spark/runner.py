"""Runs units on Spark executors, several groups' jobs side by side."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from compactor.rewrite.run.execute import Made, Work, attempt_all
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.runner import Answer, Job, Tally, keep_busy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MOST_GROUPS = 8
_MOST_JOBS = 32  #: of Spark under way at once of a group, each of which takes a thread here


class SparkRunner:
    """One task a parcel of units. What is large is a job of Spark by itself, so that no core waits for the longest of
    several; the rest shares jobs, since one costs more than a tiny unit.

    Plain RDDs: a unit is a small pickled value that returns a small value, and no row passes through Spark.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    @property
    def application(self) -> str:
        """See ``Runner``."""
        return str(self._context.applicationId)

    @property
    def width(self) -> int:
        """How many tasks the cluster works on at once, as far as is known now."""
        return max(1, int(self._context.defaultParallelism))

    @property
    def groups(self) -> int:
        """How many groups of entries are best under way at once; each entry of them holds a transaction open."""
        return min(_MOST_GROUPS, self.width)

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        width = self.width
        tally = Tally(jobs, width)
        most = 2 * width  # so that a core that is done finds the next task waiting for it
        name = f"compactor-{uuid.uuid4().hex}"
        told = (name, f"{len(jobs)} entries")
        begun: list[Future[list[Made | Failure]]] = []

        with ThreadPoolExecutor(_MOST_JOBS, "job", initializer=self._context.setJobGroup, initargs=told) as threads:

            def begin(parcels: list[list[Work]]) -> Future[list[Made | Failure]]:
                begun.append(threads.submit(self._answers, parcels))
                return begun[-1]

            try:
                keep_busy(tally, most, begin, together=width, large=-(-most // _MOST_JOBS))
            except BaseException:
                self._cancel(name, begun)
                raise
        return tally.answers()

    def _answers(self, parcels: list[list[Work]]) -> list[Made | Failure]:
        found = self._context.parallelize(parcels, len(parcels)).map(attempt_all).collect()
        return list(chain.from_iterable(found))

    def _cancel(self, name: str, begun: Sequence[Future[list[Made | Failure]]]) -> None:
        """Nothing of ours is to go on once nobody waits for it; a thread may yet be about to begin its job."""
        from py4j.protocol import Py4JError

        left = [future for future in begun if not future.cancel()]
        while wait(left, timeout=0.1).not_done:
            with suppress(Py4JError, OSError):  # Spark itself may be what is gone
                self._context.cancelJobGroup(name)
