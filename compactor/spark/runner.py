"""Runs units on Spark executors, several entries' waves side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from compactor.rewrite.execute import attempt
from compactor.rewrite.failure import Failure, raised
from compactor.rewrite.unit import Unit, UnitResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRunner:
    """One task a unit, in waves of the cluster's width, so that ``check`` is asked between them.

    Plain RDDs: a unit is a small pickled value that returns a small value, and no row passes through Spark.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    def run(self, units: Sequence[Unit], check: Callable[[], None]) -> list[UnitResult]:
        width = max(1, self._context.defaultParallelism)
        results: list[UnitResult] = []
        for start in range(0, len(units), width):
            check()
            wave = list(units[start : start + width])
            for answer in self._context.parallelize(wave, len(wave)).map(attempt).collect():
                results.append(raised(answer) if isinstance(answer, Failure) else answer)
        return results
