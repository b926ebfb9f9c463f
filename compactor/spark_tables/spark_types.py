"""Converts between the types of Arrow, Spark and Hive."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from compactor.base.errors import NotConforming, NotSupported
from compactor.tables.schema import hive_columns


def to_spark_schema(schema: pa.Schema) -> StructType:
    """Returns Spark's schema for rows of a table.

    Hive's timestamps have no zone and become ``timestamp_ntz``.
    """
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def cast_for_spark(batches: Iterator[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yields ``batches`` in the Arrow schema that Spark expects; only names inside nested types differ."""
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    for batch in batches:
        yield batch.cast(arrow_schema)


def to_hive_columns(table: str, schema: StructType, *, has_time_zone: bool) -> tuple[tuple[str, str], ...]:
    """Returns the columns of a query with Hive's types, for a table that is created with the query's rows.

    Args:
        has_time_zone: the write has a time zone in which instants become timestamps of Hive, which have no zone.

    Raises:
        NotConforming: a column has no name, only the text of its expression.
        NotSupported: Hive has no such type, or a column is an instant and the write has no time zone.
    """
    columns: list[tuple[str, str]] = []
    for place, field in enumerate(to_arrow_schema(schema, timezone="UTC"), start=1):
        if re.fullmatch(r"[\w ]+", field.name) is None:
            raise NotConforming(
                f"{table}: column {place} of the query is called {field.name!r}; give it a name of letters, digits, _ and "
                "blanks: AS name"
            )
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            if not has_time_zone:
                raise NotSupported(
                    f"{table}: column {field.name} is an instant, but a timestamp of Hive has no time zone; set time_zone, "
                    "or cast the column to timestamp_ntz"
                )
            columns.append((field.name, "timestamp"))
        else:
            columns += hive_columns(table, pa.schema([field])).items()
    return tuple(columns)
