"""Rows come in the types, and in the Arrow, that Spark wants."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from compactor.base.errors import NotConforming, NotSupported
from compactor.spark_tables.spark_types import cast_for_spark, to_hive_columns, to_spark_schema


def test_a_timestamp_without_zone_stays_without() -> None:
    found = to_spark_schema(pa.schema([("t", pa.timestamp("us")), ("z", pa.timestamp("us", "UTC"))]))
    assert found.simpleString() == "struct<t:timestamp_ntz,z:timestamp>"


def test_names_within_nested_types_become_sparks() -> None:
    rows = pa.record_batch(
        {
            "l": pa.array([[1], None], pa.list_(pa.field("item", pa.int32()))),
            "m": pa.array([[("k", [1])], None], pa.map_(pa.string(), pa.list_(pa.int64()))),
            "s": pa.array([{"x": [1]}, None], pa.struct([pa.field("x", pa.list_(pa.int8()))])),
        }
    )
    schema = to_spark_schema(rows.schema)
    [found] = cast_for_spark(iter([rows]), schema)
    assert found.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert found.to_pylist() == rows.to_pylist()


def test_columns_of_a_query_have_types_of_hive() -> None:
    schema = StructType(
        [
            StructField("a", IntegerType()),
            StructField("b c", DecimalType(5, 2)),
            StructField("d", ArrayType(StructType([StructField("x", StringType())]))),
            StructField("t", TimestampNTZType()),
            StructField("z", TimestampType()),
        ]
    )
    assert to_hive_columns("db.t", schema, has_time_zone=True) == (
        ("a", "int"),
        ("b c", "decimal(5,2)"),
        ("d", "array<struct<x:string>>"),
        ("t", "timestamp"),
        ("z", "timestamp"),
    )
    with pytest.raises(NotSupported, match="column z is an instant"):
        to_hive_columns("db.t", schema, has_time_zone=False)


@pytest.mark.parametrize(
    ("name", "kind", "error", "said"),
    [
        ("(a + 1)", IntegerType(), NotConforming, r"column 1 of the query is called '\(a \+ 1\)'; give it a name"),
        ("a", NullType(), NotSupported, "column a is a null"),
        ("a", DayTimeIntervalType(), NotSupported, "column a is a duration"),
    ],
)
def test_columns_that_hive_cannot_have_are_refused(
    name: str, kind: DataType, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        to_hive_columns("db.t", StructType([StructField(name, kind)]), has_time_zone=True)
