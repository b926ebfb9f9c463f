from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from compactor.acid.row_figures import ColumnFigures
from compactor.orc.footer_figures import raw_data_size, row_figures
from compactor.orc.format import messages
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import FIRST_GREGORIAN_DAY, Tail, empty_tail
from compactor.orc.format.types import acid_types

ROWS = 4


def tail_of(type: str, count: int = 3, **statistics: Any) -> Tail:
    """The tail of a file of four rows and one column, with these statistics of ``count`` values."""
    types = parse_hive_type(f"struct<a:{type}>")
    found = [messages.ColumnStatistics(number_of_values=ROWS)]
    found += [messages.ColumnStatistics(number_of_values=count, **statistics)]
    found += [messages.ColumnStatistics()] * (len(types) - 2)
    return replace(empty_tail(types), statistics=found, rows=ROWS)


def column(tail: Tail) -> ColumnFigures:
    found = row_figures(tail)
    assert found is not None
    [only] = found.columns
    return only


@pytest.mark.parametrize(
    ("type", "statistics", "low", "high"),
    [
        ("tinyint", {"int_statistics": {"minimum": -3, "maximum": 5}}, -3, 5),
        ("bigint", {"int_statistics": {"minimum": -(2**63), "maximum": 2**63 - 1}}, -(2**63), 2**63 - 1),
        ("double", {"double_statistics": {"minimum": -1.5, "maximum": 2.5, "sum": 1.0}}, -1.5, 2.5),
        ("float", {"double_statistics": {"minimum": 0.1, "maximum": 0.2, "sum": 0.3}}, 0.1, 0.2),
        (
            "decimal(10,2)",
            {"decimal_statistics": {"minimum": b"-1.50", "maximum": b"12.5"}},
            Decimal("-1.5"),
            Decimal("12.5"),
        ),
        ("date", {"date_statistics": {"minimum": -3, "maximum": 18262}}, -3, 18262),
        ("date", {"date_statistics": {"minimum": FIRST_GREGORIAN_DAY, "maximum": 0}}, FIRST_GREGORIAN_DAY, 0),
    ],
)
def test_extremes_that_are_values(type: str, statistics: dict[str, Any], low: object, high: object) -> None:
    assert column(tail_of(type, **statistics)) == ColumnFigures(name="a", type=type, values=3, low=low, high=high)


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("type", "statistics"),
    [
        ("int", {}),
        ("int", {"int_statistics": {"minimum": 1}}),
        ("double", {"double_statistics": {"minimum": 1.0, "maximum": 2.0}}),  # without a sum nobody knows of NaN
        ("double", {"double_statistics": {"minimum": 1.0, "maximum": 2.0, "sum": NAN}}),
        ("double", {"double_statistics": {"minimum": -INFINITE, "maximum": 1.0, "sum": 0.0}}),
        ("double", {"double_statistics": {"minimum": NAN, "maximum": 2.0, "sum": 2.0}}),
        ("double", {"double_statistics": {"minimum": 1.0, "maximum": INFINITE, "sum": INFINITE}}),
        ("decimal(10,2)", {"decimal_statistics": {"minimum": b"1.5"}}),
        ("decimal(10,2)", {"decimal_statistics": {"minimum": b"1.5", "maximum": b"NaN"}}),
        ("decimal(10,2)", {"decimal_statistics": {"minimum": b"1.5", "maximum": b"1E+400000"}}),
        ("date", {"date_statistics": {"minimum": FIRST_GREGORIAN_DAY - 1, "maximum": 0}}),
        ("date", {"date_statistics": {"maximum": 0}}),
        ("string", {"string_statistics": {"minimum": b"a", "maximum": b"b", "sum": 3}}),
        ("char(5)", {"string_statistics": {"minimum": b"a", "maximum": b"b", "sum": 3}}),
        ("binary", {"binary_statistics": {"sum": 3}}),
        ("timestamp", {"timestamp_statistics": {"minimum_utc": 1, "maximum_utc": 2}}),
    ],
)
def test_extremes_that_may_be_none_of_the_values(type: str, statistics: dict[str, Any]) -> None:
    assert column(tail_of(type, **statistics)) == ColumnFigures(name="a", type=type, values=3)


@pytest.mark.parametrize("count", [ROWS + 1, 2**64 - 1])
def test_more_values_than_rows_cannot_be(count: int) -> None:
    assert row_figures(tail_of("int", count)) is None


def test_more_true_values_than_values_cannot_be() -> None:
    assert row_figures(tail_of("boolean", 3, bucket_statistics={"count": [2**64 - 1]})) is None


def test_true_values_are_counted() -> None:
    assert column(tail_of("boolean", bucket_statistics={"count": [2]})).trues == 2
    assert column(tail_of("boolean")).trues is None
    assert column(tail_of("boolean", 0)).trues == 0


def test_a_column_of_nulls_has_no_extremes() -> None:
    stale = {"int_statistics": {"minimum": 0, "maximum": 0}}
    assert column(tail_of("int", 0, **stale)) == ColumnFigures(name="a", type="int", values=0)


def test_the_row_of_events_is_meant() -> None:
    types = acid_types(parse_hive_type("struct<A:int,b:array<int>>"))
    found = [messages.ColumnStatistics(number_of_values=2) for _ in types]
    found[7].int_statistics.minimum, found[7].int_statistics.maximum = 1, 2
    figures = row_figures(replace(empty_tail(types), statistics=found, rows=2))
    assert figures is not None
    assert (figures.rows, figures.raw_size) == (2, 0)
    assert [(c.name, c.type, c.low) for c in figures.columns] == [("a", "int", 1), ("b", "", None)]


def test_without_statistics_of_all_rows_nothing_is_known() -> None:
    tail = tail_of("int")
    assert row_figures(replace(tail, statistics=())) is None
    assert row_figures(replace(tail, rows=ROWS + 1)) is None


def test_other_files_have_the_size_of_their_rows_in_java() -> None:
    found = row_figures(tail_of("bigint", int_statistics={"minimum": 0, "maximum": 0}))
    assert found is not None
    assert found.raw_size == 4 * ROWS + 8 * 3


@pytest.mark.parametrize(
    ("column", "size"),
    [
        ("int", 4),
        ("boolean", 4),
        ("bigint", 8),
        ("double", 8),
        ("float", 4),
        ("date", 56),
        ("timestamp", 40),
        ("decimal(10,2)", 112),
        ("array<int>", 4),
    ],
)
def test_a_value_takes_what_its_object_takes(column: str, size: int) -> None:
    types = parse_hive_type(f"struct<a:{column}>")
    statistics = [messages.ColumnStatistics(number_of_values=count) for count in (0, 3, 0)][: len(types)]
    assert raw_data_size(replace(empty_tail(types), statistics=statistics)) == 3 * size


def test_texts_take_their_average_length_and_bytes_what_they_are() -> None:
    types = parse_hive_type("struct<a:string,b:char(3),c:binary,d:int>")
    statistics = [
        messages.ColumnStatistics(),
        messages.ColumnStatistics(number_of_values=2, string_statistics={"sum": 7}),
        messages.ColumnStatistics(),  # one empty text, as Java has it
        messages.ColumnStatistics(number_of_values=2, binary_statistics={"sum": 5}),
    ]
    assert raw_data_size(replace(empty_tail(types), statistics=statistics)) == 2 * (84 + 3) + 84 + 5
