"""Spark's types for a scan's columns."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema) -> StructType:
    """Returns the schema that Spark gives to the rows: a timestamp of Hive has no zone and is a ``timestamp_ntz``."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def as_spark_expects(batches: Iterator[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yields ``batches`` in the Arrow that Spark wants for its ``schema``; the names within nested types differ."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    for batch in batches:
        yield batch.cast(wanted)
