"""Asks the driver's host from a program that may be elsewhere: it reads the one row of a data source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def asked(spark: SparkSession, source: str, options: Mapping[str, str]) -> str:
    """Returns the text of the row. What the driver's host raises comes as what Spark makes of it, with its text."""
    [row] = spark.read.format(source).options(**options).load().collect()
    return str(row[0])
