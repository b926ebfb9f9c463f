"""Rows come in the types, and in the Arrow, that Spark wants."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from compactor.spark_tables.spark_types import as_spark_expects, spark_schema


def test_a_timestamp_without_zone_stays_without() -> None:
    found = spark_schema(pa.schema([("t", pa.timestamp("us")), ("z", pa.timestamp("us", "UTC"))]))
    assert found.simpleString() == "struct<t:timestamp_ntz,z:timestamp>"


def test_names_within_nested_types_become_sparks() -> None:
    rows = pa.record_batch(
        {
            "l": pa.array([[1], None], pa.list_(pa.field("item", pa.int32()))),
            "m": pa.array([[("k", [1])], None], pa.map_(pa.string(), pa.list_(pa.int64()))),
            "s": pa.array([{"x": [1]}, None], pa.struct([pa.field("x", pa.list_(pa.int8()))])),
        }
    )
    schema = spark_schema(rows.schema)
    [found] = as_spark_expects(iter([rows]), schema)
    assert found.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert found.to_pylist() == rows.to_pylist()
