"""Runs units on Spark executors, several groups' waves side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from compactor.rewrite.execute import attempt
from compactor.rewrite.failure import Failure
from compactor.rewrite.runner import Answer, Job, Tally
from compactor.rewrite.unit import Unit, UnitResult

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
        tally = Tally(jobs)
        parcels = tally.parcels(width)
        while wave := list(islice(parcels, width)):
            admitted = tally.admitted(wave)
            if not admitted:
                continue
            handed_out = [[task.unit for task in parcel] for parcel in admitted]
            found = self._context.parallelize(handed_out, len(handed_out)).map(_attempt_all).collect()
            for parcel, answers in zip(admitted, found, strict=True):
                for task, answer in zip(parcel, answers, strict=True):
                    tally.put(task, answer)
        return tally.answers()


def _attempt_all(units: Sequence[Unit]) -> list[UnitResult | Failure]:
    return [attempt(unit) for unit in units]
