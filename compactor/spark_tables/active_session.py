"""The active session of a thread, in which alone Spark looks for a data source that is written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_remote(spark: SparkSession) -> bool:
    """Returns true for a session of Spark Connect, whose DataFrames are loaded again for each action."""
    return not hasattr(spark, "_jsparkSession")


def activate(spark: SparkSession) -> None:
    """Makes ``spark`` the active session of this thread: threads that Python starts begin without one, and a write in them
    would find no ``hive_acid``."""
    spark.createDataFrame([], "nothing int")  # does so, in every kind of session, and no other public method does
