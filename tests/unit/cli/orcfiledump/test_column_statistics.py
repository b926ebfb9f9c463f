from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from compactor.base.errors import BadFile
from compactor.cli.orcfiledump import column_statistics
from compactor.cli.orcfiledump.column_statistics import index_lines, statistics_text
from compactor.orc.format import messages
from compactor.orc.format.stripe_footer import BLOOM, BLOOM_UTF8, read_stripe_footer
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.types import OrcType, TypeKind
from compactor.orc.io.source import BytesSource
from tests.support.orcfiledump import GOLDEN
from tests.support.time_zone import time_zone

INT = OrcType(kind=TypeKind.INT)
LONG_DECIMAL, WIDE_DECIMAL = (OrcType(kind=TypeKind.DECIMAL, precision=digits, scale=4) for digits in (18, 38))
TIMESTAMP, INSTANT = OrcType(kind=TypeKind.TIMESTAMP), OrcType(kind=TypeKind.TIMESTAMP_INSTANT)


@pytest.fixture
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


@pytest.mark.usefixtures("elsewhere")
def test_a_file_that_does_not_say_whether_there_are_nulls_may_have_some() -> None:
    found = messages.ColumnStatistics(number_of_values=3, bytes_on_disk=7)
    assert statistics_text(found, INT, proleptic=False) == "count: 3 hasNull: true bytesOnDisk: 7"


@pytest.mark.usefixtures("elsewhere")
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


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "field", ["binary_statistics", "date_statistics", "decimal_statistics", "collection_statistics"]
)
def test_a_column_without_values_has_no_extremes(field: str) -> None:
    assert printed(count=0, **{field: {}}) == ""


@pytest.mark.usefixtures("elsewhere")
def test_sums_of_decimals_have_as_many_digits_as_java_keeps() -> None:
    found = {"minimum": b"1.50", "maximum": b"2.0", "sum": b"99999999999999.5"}
    assert printed(LONG_DECIMAL, decimal_statistics=found) == "min: 1.5 max: 2 sum: 99999999999999.5"
    found["sum"] = b"199999999999999.5"
    assert printed(LONG_DECIMAL, decimal_statistics=found) == "min: 1.5 max: 2"
    assert printed(WIDE_DECIMAL, decimal_statistics=found) == "min: 1.5 max: 2 sum: 199999999999999.5"
    assert printed(WIDE_DECIMAL, decimal_statistics={"minimum": b"?"}) == "min: null max: null"


@pytest.mark.usefixtures("elsewhere")
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


SOURCE = BytesSource((GOLDEN / "samples" / "blooms.orc").read_bytes())
TAIL = read_tail(SOURCE)
TEXT, NUMBER, TIME = 2, 1, 4  #: columns with filters
ENTRY = messages.BloomFilterIndex(bloom_filter=[{"num_hash_functions": 2, "bitset": [1, 3]}])


def lines(columns: list[int], tail: Tail = TAIL) -> list[str]:
    return list(index_lines(SOURCE, tail, 0, read_stripe_footer(SOURCE, TAIL, 0), columns))


def test_columns_come_in_the_order_in_which_they_are_asked_for() -> None:
    found = [line for line in lines([5, 1, 99]) if not line.startswith("     ")]
    assert found == [
        "    Row group indices for column 5:",
        "    Row group indices for column 1:",
        "    Bloom filters for column 1:",
        "    Row group indices for column 99: not found",
        "",
    ]


def given(monkeypatch: pytest.MonkeyPatch, *indexes: tuple[int, int, messages.Message]) -> None:
    monkeypatch.setattr(column_statistics, "read_indexes", lambda *_: iter(indexes))


def test_filters_over_utf_8_replace_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = messages.BloomFilterIndex(bloom_filter=[{"num_hash_functions": 1, "utf8bitset": b"\xff" * 8}])
    given(monkeypatch, (BLOOM_UTF8, NUMBER, newer), (BLOOM, NUMBER, ENTRY))
    text = " numHashFunctions: 1 bitCount: 64 popCount: 64 loadFactor: 1 expectedFpp: 1.0"
    assert lines([NUMBER])[-2:] == [f"      Entry 0:{text}", f"      Stripe level merge:{text}"]


@pytest.mark.parametrize(
    ("column", "version", "is_used"),
    [(TEXT, 2, False), (TEXT, 3, True), (TIME, 5, False), (TIME, 6, True), (NUMBER, 0, True)],
)
def test_filters_of_early_writers_are_not_used(
    column: int, version: int, is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, (BLOOM, column, ENTRY))
    found = lines([column], replace(TAIL, writer_version=version))
    text = " numHashFunctions: 2 bitCount: 128 popCount: 3 loadFactor: 0.0234 expectedFpp: 5.493164E-4"
    shown = [f"    Bloom filters for column {column}:", f"      Entry 0:{text}", f"      Stripe level merge:{text}"]
    assert found[2:] == (shown if is_used else [])


def test_filters_of_different_sizes_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"num_hash_functions": 2, "bitset": [1]}
    given(monkeypatch, (BLOOM, NUMBER, messages.BloomFilterIndex(bloom_filter=[ENTRY.bloom_filter[0], other])))
    with pytest.raises(BadFile, match="bloom filters of column 1 differ"):
        lines([NUMBER])


def test_an_entry_without_statistics_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    index = messages.RowIndex(entry=[{"positions": [1, 2]}])
    given(monkeypatch, (6, NUMBER, index))
    assert lines([NUMBER])[1] == "      Entry 0: no stats at  positions: 1,2"
