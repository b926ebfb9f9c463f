"""A program's session: is it remote, which one is active, and how it reaches the driver's host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_remote(spark: SparkSession) -> bool:
    """Returns true for a session of Spark Connect, whose DataFrames are loaded again for each action."""
    return not hasattr(spark, "_jsparkSession")


def activate(spark: SparkSession) -> None:
    """Makes ``spark`` the active session of this thread.

    A thread that Python starts has no active session, so a write in it would not find ``hive_acid``.
    """
    spark.createDataFrame([], "nothing int")  # the only public method that activates every kind of session


def read_answer(spark: SparkSession, source: str, options: Mapping[str, str]) -> str:
    """Returns the text of the row.

    An error on the driver's host arrives as an error of Spark that contains its text.
    """
    [row] = spark.read.format(source).options(**options).load().collect()
    return str(row[0])
