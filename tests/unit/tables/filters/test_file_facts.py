from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from compactor.orc.format import messages
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import Tail, empty_tail
from compactor.orc.format.types import OrcType
from compactor.tables.filters.conditions import Column, Kind
from compactor.tables.filters.file_facts import read_facts
from compactor.tables.filters.outcomes import Facts
from tests.support.acid_files import TYPES

JAVA = empty_tail(TYPES)
KINDS = {
    "int": (Kind.NUMBER, pa.int64()),
    "decimal(10,2)": (Kind.NUMBER, pa.decimal128(10, 2)),
    "double": (Kind.FLOAT, pa.float64()),
    "string": (Kind.TEXT, pa.string()),
    "char(3)": (Kind.CHAR, pa.string()),
    "date": (Kind.DATE, pa.date32()),
    "timestamp": (Kind.TIMESTAMP, pa.timestamp("ns")),
}


def facts(stored: str, part: messages.Message, *, rows: int = 10, table: str = "", tail: Tail = JAVA) -> Facts:
    kind, arrow = KINDS[table or stored]
    of_file: OrcType = parse_hive_type(stored)[0]
    return read_facts(part, rows, Column(name="x", kind=kind, type=arrow), of_file, tail)


def statistics(values: int = 10, *, has_null: bool = False, **fields: object) -> messages.Message:
    """Returns statistics with one field, such as ``int_statistics=dict(minimum=1, maximum=2)``."""
    made = messages.ColumnStatistics(number_of_values=values, has_null=has_null)
    for field, numbers in fields.items():
        for name, value in numbers.items():  # type: ignore[attr-defined]
            setattr(getattr(made, field), name, value)
    return made


def bounds(found: Facts) -> tuple[object, object]:
    return found.low, found.high


def test_bounds_are_in_the_values_of_the_condition() -> None:
    assert bounds(facts("int", statistics(int_statistics={"minimum": 1, "maximum": 2}))) == (1, 2)
    decimals = statistics(decimal_statistics={"minimum": b"-1.5", "maximum": b"20"})
    assert bounds(facts("decimal(10,2)", decimals)) == (Decimal("-1.5"), Decimal(20))
    texts = statistics(string_statistics={"minimum": b"a", "upper_bound": b"b"})
    assert bounds(facts("string", texts)) == (b"a", b"b")
    times = statistics(timestamp_statistics={"minimum_utc": 1000, "maximum_utc": 2000})
    assert bounds(facts("timestamp", times)) == (999_000_000, 2_001_000_000)
    day = 86_400 * 10**9
    other = replace(JAVA, writer=1)
    assert bounds(facts("timestamp", times, tail=other)) == (10**9 - day, 2 * 10**9 + day)


def test_bounds_that_cannot_be_trusted_are_unknown() -> None:
    unknown = (None, None)
    assert bounds(facts("double", statistics(double_statistics={"minimum": float("nan"), "maximum": 1.0}))) == unknown
    assert bounds(facts("date", statistics(date_statistics={"minimum": -200_000, "maximum": 1}))) == unknown
    assert bounds(facts("char(3)", statistics(string_statistics={"minimum": b"a", "maximum": b"b"}))) == unknown
    old = replace(JAVA, writer_version=0)
    assert (
        bounds(facts("string", statistics(string_statistics={"minimum": b"a", "maximum": b"b"}), tail=old)) == unknown
    )
    times = statistics(timestamp_statistics={"minimum_utc": 1000, "maximum_utc": 2000})
    assert bounds(facts("timestamp", times, tail=old)) == unknown
    assert bounds(facts("decimal(10,2)", statistics(decimal_statistics={"minimum": b"x", "maximum": b"1"}))) == unknown
    assert (
        bounds(facts("decimal(10,2)", statistics(decimal_statistics={"minimum": b"NaN", "maximum": b"1"}))) == unknown
    )
    numbers = statistics(int_statistics={"minimum": 1, "maximum": 2})
    assert bounds(facts("int", numbers, table="string")) == unknown
    assert bounds(facts("int", statistics())) == unknown


def test_nulls() -> None:
    assert not facts("int", statistics()).has_null
    assert facts("int", statistics(9)).has_null
    assert facts("int", statistics(has_null=True)).has_null
    assert not facts("int", statistics(0, has_null=True)).has_value
    assert facts("int", statistics(0)).has_value  # a writer that counts nothing
