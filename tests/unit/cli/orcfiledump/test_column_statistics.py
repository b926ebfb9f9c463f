from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compactor.cli.orcfiledump.column_statistics import statistics_text
from compactor.orc.format import messages
from compactor.orc.format.types import OrcType, TypeKind
from tests.support.time_zone import time_zone

INT = OrcType(kind=TypeKind.INT)
LONG_DECIMAL, WIDE_DECIMAL = (OrcType(kind=TypeKind.DECIMAL, precision=digits, scale=4) for digits in (18, 38))
TIMESTAMP, INSTANT = OrcType(kind=TypeKind.TIMESTAMP), OrcType(kind=TypeKind.TIMESTAMP_INSTANT)


@pytest.fixture(autouse=True)
def elsewhere() -> Iterator[None]:
    with time_zone("Asia/Tokyo"):
        yield


def printed(column: OrcType = INT, count: int = 2, **fields: Any) -> str:
    """Returns the text of statistics that say nothing about NULL, without its beginning."""
    found = messages.ColumnStatistics(number_of_values=count, has_null=False, **fields)
    text = statistics_text(found, column, proleptic=False)
    start = f"count: {count} hasNull: false"
    assert text.startswith(start)
    return text[len(start) :].lstrip()


def test_a_file_that_does_not_say_whether_there_are_nulls_may_have_some() -> None:
    found = messages.ColumnStatistics(number_of_values=3, bytes_on_disk=7)
    assert statistics_text(found, INT, proleptic=False) == "count: 3 hasNull: true bytesOnDisk: 7"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"int_statistics": {"minimum": -1, "maximum": 2, "sum": 1}}, "min: -1 max: 2 sum: 1"),
        ({"int_statistics": {"minimum": -1, "maximum": 2}}, "min: -1 max: 2"),
        ({"int_statistics": {"sum": 0}}, "sum: 0"),
        ({"int_statistics": {"minimum": 1}}, "min: 1 max: -9223372036854775808"),
        ({"bucket_statistics": {"count": [1]}}, "true: 1"),
        ({"bucket_statistics": {}}, "true: 0"),
        ({"double_statistics": {"minimum": 1, "maximum": 1e9, "sum": 1e9}}, "min: 1.0 max: 1.0E9 sum: 1.0E9"),
        ({"double_statistics": {}}, "sum: 0.0"),
        ({"string_statistics": {"minimum": b"a", "maximum": b"\xff", "sum": 3}}, "min: a max: \ufffd sum: 3"),
        ({"string_statistics": {"lower_bound": b"a", "upper_bound": b"b", "sum": 3}}, "lower: a upper: b sum: 3"),
        ({"string_statistics": {"sum": 3}}, ""),
        ({"binary_statistics": {"sum": 3}}, "sum: 3"),
        ({"date_statistics": {"minimum": 0, "maximum": 1}}, "min: Hybrid AD 1970-01-01 max: Hybrid AD 1970-01-02"),
        (
            {"collection_statistics": {"min_children": 0, "max_children": 2, "total_children": 2}},
            "minChildren: 0 maxChildren: 2 totalChildren: 2",
        ),
        ({"collection_statistics": {}}, "minChildren: 9223372036854775807 maxChildren: 0"),
    ],
)
def test_each_kind_of_statistics(fields: dict[str, Any], text: str) -> None:
    assert printed(**fields) == text


@pytest.mark.parametrize(
    "field", ["binary_statistics", "date_statistics", "decimal_statistics", "collection_statistics"]
)
def test_a_column_without_values_has_no_extremes(field: str) -> None:
    assert printed(count=0, **{field: {}}) == ""


def test_sums_of_decimals_have_as_many_digits_as_java_keeps() -> None:
    found = {"minimum": b"1.50", "maximum": b"2.0", "sum": b"99999999999999.5"}
    assert printed(LONG_DECIMAL, decimal_statistics=found) == "min: 1.5 max: 2 sum: 99999999999999.5"
    found["sum"] = b"199999999999999.5"
    assert printed(LONG_DECIMAL, decimal_statistics=found) == "min: 1.5 max: 2"
    assert printed(WIDE_DECIMAL, decimal_statistics=found) == "min: 1.5 max: 2 sum: 199999999999999.5"
    assert printed(WIDE_DECIMAL, decimal_statistics={"minimum": b"?"}) == "min: null max: null"


def test_timestamps_are_what_the_writers_clock_showed_and_instants_what_ours_shows() -> None:
    found = {"minimum_utc": 1, "maximum_utc": 1000, "minimum_nanos": 3}
    hour = "1970-01-01 0{}:00:0"
    text = f"min: {hour}0.001000002 max: {hour}1.000999999"
    assert printed(TIMESTAMP, timestamp_statistics=found) == text.replace("{}", "0")
    assert printed(INSTANT, timestamp_statistics=found) == text.replace("{}", "9")
    oldest = {"minimum": 1, "maximum": 1000, "minimum_nanos": 3}
    assert printed(TIMESTAMP, timestamp_statistics=oldest) == text.replace("{}", "9")
    assert printed(TIMESTAMP, timestamp_statistics={"minimum": 1}) == ""
    assert printed(TIMESTAMP, timestamp_statistics={"minimum": 2, "maximum": 1}) == ""
