"""The active session of a thread: Spark looks for the data source of a write only there."""

from __future__ import annotations

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
