"""Spark's types for a scan's columns."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from compactor.base.errors import NotConforming, NotSupported
from compactor.tables.hive_columns import hive_columns


def spark_schema(schema: pa.Schema) -> StructType:
    """Returns the schema that Spark gives to the rows: a timestamp of Hive has no zone and is a ``timestamp_ntz``."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def as_spark_expects(batches: Iterator[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yields ``batches`` in the Arrow that Spark wants for its ``schema``; the names within nested types differ."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    for batch in batches:
        yield batch.cast(wanted)


def hive_types(table: str, schema: StructType, *, has_time_zone: bool) -> tuple[tuple[str, str], ...]:
    """Returns the columns of a query with Hive's types, for a table that is created with its rows.

    Args:
        has_time_zone: a time zone is given in which an instant becomes a timestamp of Hive, which has none.

    Raises:
        NotConforming: a column has no name of its own, but the text of its expression.
        NotSupported: a column is of a type that Hive has no equal of; or is an instant, and no time zone is given.
    """
    found: list[tuple[str, str]] = []
    for place, field in enumerate(to_arrow_schema(schema, timezone="UTC"), start=1):
        if re.fullmatch(r"[\w ]+", field.name) is None:
            raise NotConforming(
                f"{table}: column {place} of the query is called {field.name!r}; give it a name of letters, digits, _ and "
                "blanks: AS name"
            )
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            if not has_time_zone:
                raise NotSupported(
                    f"{table}: column {field.name} is an instant, a timestamp of Hive has no time zone; give time_zone, or "
                    "cast it to timestamp_ntz"
                )
            found.append((field.name, "timestamp"))
        else:
            found += hive_columns(table, pa.schema([field])).items()
    return tuple(found)
