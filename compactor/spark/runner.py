"""Runs units on Spark executors, several groups' waves side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compactor.rewrite.execute import attempt_all
from compactor.rewrite.runner import Answer, Job, Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MOST_GROUPS = 8


class SparkRunner:
    """One task a parcel of units, in waves of the cluster's width, so that ``check`` is asked between them.

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
        while wave := tally.take(width):
            handed_out = [[task.work for task in parcel] for parcel in wave]
            found = self._context.parallelize(handed_out, len(handed_out)).map(attempt_all).collect()
            for parcel, answers in zip(wave, found, strict=True):
                for task, made in zip(parcel, answers, strict=True):
                    tally.put(task, made)
        return tally.answers()
