"""Reaches the driver's host from a program on another host, which reads the single row of a data source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_answer(spark: SparkSession, source: str, options: Mapping[str, str]) -> str:
    """Returns the text of the row. An error on the driver's host arrives as an error of Spark that contains its text."""
    [row] = spark.read.format(source).options(**options).load().collect()
    return str(row[0])
