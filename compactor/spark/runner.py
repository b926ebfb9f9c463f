"""Runs units on Spark executors, several groups' waves side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compactor.rewrite.runner import Answer, Job, Tally, attempt_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRunner:
    """One task a parcel of units, in waves of the cluster's width, so that ``check`` is asked between them.

    Plain RDDs: a unit is a small pickled value that returns a small value, and no row passes through Spark.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        width = max(1, self._context.defaultParallelism)
        tally = Tally(jobs, width)
        while wave := tally.take(width):
            handed_out = [[task.work for task in parcel] for parcel in wave]
            found = self._context.parallelize(handed_out, len(handed_out)).map(attempt_all).collect()
            for parcel, answers in zip(wave, found, strict=True):
                for task, made in zip(parcel, answers, strict=True):
                    tally.put(task, made)
        return tally.answers()
