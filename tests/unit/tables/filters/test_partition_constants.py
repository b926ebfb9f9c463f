from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from compactor.base.errors import BadName
from compactor.metastore.catalog.values import Column, Partition, Table
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import find_columns
from compactor.tables.filters.partition_constants import may_have, parse_constants
from compactor.tables.schema import arrow_schema

KEYS = {
    "day": "date",
    "code": "char(4)",
    "n": "int",
    "p": "decimal(6,2)",
    "t": "timestamp",
    "ok": "boolean",
    "s": "string",
}
TABLE = Table(
    id=1,
    database="d",
    name="t",
    location="/t",
    partition_keys=tuple(Column(name=name, type=kind) for name, kind in KEYS.items()),
)
VALUES = ("2026-11-01", "ab", "7", "1.50", "2026-11-01 10:00:00", "true", "it's")


def partition(*values: str) -> Partition:
    return Partition(id=1, name="/".join(values), values=values, location="/t/x")


@pytest.mark.parametrize("timestamps", ["ns", "us", "parts"])
def test_values_are_of_their_columns_types(timestamps: str) -> None:
    found = parse_constants(TABLE, partition(*VALUES), arrow_schema(TABLE, timestamps=timestamps))
    plain = {name: scalar.as_py() for name, scalar in found.items() if name != "t"}
    assert plain == {"day": date(2026, 11, 1), "code": "ab  ", "n": 7, "p": Decimal("1.50"), "ok": True, "s": "it's"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("day = '2026-11-01'", True),
        ("day > '2026-11-01'", False),
        ("code = 'ab  '", True),
        ("n in (1, 7) and p = 1.5", True),
        ("not ok", False),
        ("t = '2026-11-01 10:00:00'", True),
        ("t < '2026-11-01 10:00:00'", False),
        ("s like 'it_s'", True),
        ("s not like 'it%'", False),
        ("n is null", False),
        ("amount > 10 and n = 8", False),
        ("amount > 10 or n = 8", True),
    ],
)
@pytest.mark.parametrize("timestamps", ["ns", "us", "parts"])
def test_partitions_are_left_out(text: str, wanted: bool, timestamps: str) -> None:
    schema = arrow_schema(TABLE, timestamps=timestamps)
    of_partition = parse_constants(TABLE, partition(*VALUES), schema)
    parts = ["t"] if timestamps == "parts" else []
    condition = bind(text, schema.append(pa.field("amount", pa.int64())), ["code"], parts)
    assert may_have(condition, of_partition, find_columns(condition)) is wanted


def test_the_default_partition_is_null() -> None:
    nulls = parse_constants(TABLE, partition(*["__HIVE_DEFAULT_PARTITION__"] * 7), arrow_schema(TABLE))
    condition = bind("n is null and not (s = 'x' and s is not null)", arrow_schema(TABLE))
    assert not any(scalar.is_valid for scalar in nulls.values())
    assert may_have(condition, nulls, find_columns(condition))


def test_a_value_of_another_type_is_named() -> None:
    values = ("someday", *VALUES[1:])
    with pytest.raises(BadName, match=r"d\.t: partition .* has 'someday' for day, which is not a date32"):
        parse_constants(TABLE, partition(*values), arrow_schema(TABLE))


@pytest.mark.parametrize(
    ("text", "seconds"), [("1500-03-01 12:00:00", -14_826_628_800), ("9999-12-31 00:00:00.5", 253_402_214_400)]
)
def test_a_timestamp_may_be_beyond_what_nanoseconds_reach(text: str, seconds: int) -> None:
    """SQL reads timestamps in parts, and refused every statement on a table with such a partition."""
    values = (*VALUES[:4], text, *VALUES[5:])
    found = parse_constants(TABLE, partition(*values), arrow_schema(TABLE, timestamps="parts"))
    assert found["t"].as_py() == {"seconds": seconds, "nanos": 500_000_000 if text.endswith(".5") else 0}
    with pytest.raises(BadName, match="scan with timestamps='parts', or rename"):
        parse_constants(TABLE, partition(*values), arrow_schema(TABLE, timestamps="ns"))
