"""Merged statistics of parts must equal those that a writer makes for the whole."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyorc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.orc.format import messages, statistics
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.statistics import mend_statistics, merge, text_statistics_for_orc_1_5
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.types import OrcType, TypeKind
from compactor.orc.io.source import BytesSource, LocalSource

NAN = float("nan")

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "tinyint": st.integers(-128, 127),
    "double": st.integers(-(2**40), 2**40).map(float),
    "string": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    "char(9)": st.text("abcé", min_size=9, max_size=9),
    "boolean": st.booleans(),
    "binary": st.binary(max_size=8),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "decimal(20,5)": st.decimals(min_value=-(10**14), max_value=10**14, places=5),
    "array<int>": st.lists(st.integers(0, 9), max_size=3),
    "map<int,int>": st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=3),
    "struct<x:int>": st.tuples(st.integers(0, 9)),
}


def _statistics(kind: str, values: list[Any]) -> tuple[messages.Message, ...]:
    file = io.BytesIO()
    with pyorc.Writer(file, f"struct<c:{kind}>") as writer:
        writer.writerows((value,) for value in values)
    return read_tail(BytesSource(file.getvalue())).statistics


@pytest.mark.parametrize("kind", _VALUES)
@given(data=st.data())
def test_merged_statistics_equal_those_of_a_writer_of_all_rows(kind: str, data: st.DataObject) -> None:
    # The C++ writer counts a NULL list or map as a value without children, so there are none in here.
    part = st.lists(_VALUES[kind] if "<int" in kind else st.none() | _VALUES[kind], max_size=6)
    first, second = data.draw(part), data.draw(part)
    types = parse_hive_type(f"struct<c:{kind}>")
    whole = _statistics(kind, first + second)
    wanted = [mend_statistics(part, item.kind) for part, item in zip(whole, types, strict=True)]
    parts = zip(_statistics(kind, first), _statistics(kind, second), strict=True)
    for number, (a, b) in enumerate(parts):
        merged = merge([a, b], types[number])
        assert merged.number_of_values == wanted[number].number_of_values
        assert merged.has_null == wanted[number].has_null
        for field, value in wanted[number].ListFields():
            if field.message_type and field.name != "decimal_statistics" and wanted[number].number_of_values:
                assert _known(getattr(merged, field.name)) == _known(value), field.name
            elif field.name == "decimal_statistics" and value.HasField("minimum"):
                for name in ("minimum", "maximum", "sum"):
                    merged_text = getattr(merged.decimal_statistics, name)
                    assert Decimal(merged_text.decode()) == Decimal(getattr(value, name).decode())


def _known(message: messages.Message) -> dict[str, Any]:
    """Returns the meaningful fields: a writer may also write defaults, and an overflow leaves an odd sum."""
    known = {field.name: list(value) if field.name == "count" else value for field, value in message.ListFields()}
    return {name: value for name, value in known.items() if value not in (0, b"", [0]) and name != "sum"}


def _column(**fields: Any) -> messages.Message:
    return messages.ColumnStatistics(**fields)


def test_a_sum_that_overflows_is_absent() -> None:
    part = _column(number_of_values=1, has_null=False, int_statistics={"minimum": 1, "maximum": 2**62, "sum": 2**62})
    merged = merge([part, part], OrcType(kind=TypeKind.LONG))
    assert not merged.int_statistics.HasField("sum")
    assert (merged.int_statistics.minimum, merged.int_statistics.maximum) == (1, 2**62)
    assert merge([part], OrcType(kind=TypeKind.LONG)).int_statistics.sum == 2**62


def test_the_whole_does_not_know_more_than_each_part() -> None:
    known = _column(number_of_values=3, has_null=False, int_statistics={"minimum": 1, "maximum": 2, "sum": 4})
    unknown = _column(number_of_values=3, has_null=False)
    merged = merge([known, unknown], OrcType(kind=TypeKind.LONG))
    assert merged.number_of_values == 6
    assert not merged.HasField("int_statistics")


def test_a_part_with_only_nulls_changes_only_has_null() -> None:
    known = _column(number_of_values=3, has_null=False, int_statistics={"minimum": 1, "maximum": 2, "sum": 4})
    merged = merge([known, _column(number_of_values=0, has_null=True)], OrcType(kind=TypeKind.LONG))
    assert (merged.has_null, merged.int_statistics) == (True, known.int_statistics)


def test_has_null_is_known_only_if_each_part_records_it() -> None:
    silent, no, yes = _column(), _column(has_null=False), _column(has_null=True)
    column = OrcType(kind=TypeKind.LONG)
    assert not merge([silent, no], column).HasField("has_null")
    assert merge([silent, yes, no], column).has_null
    assert merge([no, no], column).HasField("has_null")


@pytest.mark.parametrize(
    ("texts", "mended"),
    [
        ({"minimum": b"a", "maximum": b"z"}, {"minimum": b"a", "maximum": b"z"}),
        ({"minimum": b"a", "upper_bound": b"z"}, {"minimum": b"a", "maximum": b"z"}),
        ({"lower_bound": b"a", "upper_bound": b"z"}, {"minimum": b"a", "maximum": b"z"}),
        ({"minimum": b"a", "upper_bound": "z\ufffd".encode()}, None),
        ({"minimum": b"a"}, None),
        ({}, None),
    ],
)
def test_orc_1_5_gets_both_bounds_of_texts_or_none(texts: dict[str, bytes], mended: dict[str, bytes] | None) -> None:
    written = _column(number_of_values=2, has_null=True, string_statistics={**texts, "sum": 9})
    expected = _column(number_of_values=2, has_null=True)
    if mended is not None:
        expected = _column(number_of_values=2, has_null=True, string_statistics={**mended, "sum": 9})
    assert text_statistics_for_orc_1_5(written) == expected


def test_orc_1_5_gets_statistics_of_nulls_alone_as_they_are() -> None:
    for part in (_column(number_of_values=0, string_statistics={"sum": 0}), _column(number_of_values=3)):
        assert text_statistics_for_orc_1_5(part) is part


def test_bounds_of_long_texts_stay_bounds() -> None:
    exact = _column(number_of_values=1, string_statistics={"minimum": b"b", "maximum": b"y", "sum": 2})
    bound = _column(number_of_values=1, string_statistics={"lower_bound": b"a", "upper_bound": b"z", "sum": 2000})
    merged = merge([exact, bound], OrcType(kind=TypeKind.STRING)).string_statistics
    assert (merged.lower_bound, merged.upper_bound, merged.sum) == (b"a", b"z", 2002)
    assert not merged.HasField("minimum")
    assert not merged.HasField("maximum")


@pytest.mark.parametrize("bounds", [{"minimum": NAN, "maximum": NAN}, {"minimum": 1, "maximum": 2}, {}], ids=str)
def test_statistics_of_floats_with_nan_count_values(bounds: dict[str, float]) -> None:
    """PROTOCOL 2.7: ORC Java takes absent bounds for those of an empty range."""
    nan = _column(number_of_values=1, has_null=False, double_statistics={**bounds, "sum": NAN})
    one = _column(number_of_values=1, has_null=False, double_statistics={"minimum": 1, "maximum": 1, "sum": 1})
    assert merge([nan, one], OrcType(kind=TypeKind.DOUBLE)) == _column(number_of_values=2, has_null=False)
    assert mend_statistics(nan, TypeKind.DOUBLE) == _column(number_of_values=1, has_null=False)


@pytest.mark.parametrize(
    ("stored", "mended"),
    [((0.0, 0.0), (-0.0, 0.0)), ((-0.0, -0.0), (-0.0, 0.0)), ((-0.0, 2.0), (-0.0, 2.0)), ((-1.0, -0.0), (-1.0, 0.0))],
)
def test_bounds_of_floats_hold_for_either_zero(stored: tuple[float, float], mended: tuple[float, float]) -> None:
    """PROTOCOL 2.7: ORC Java compares bits."""
    part = _column(number_of_values=2, double_statistics={"minimum": stored[0], "maximum": stored[1], "sum": 0})
    for whole in (mend_statistics(part, TypeKind.DOUBLE), merge([part], OrcType(kind=TypeKind.FLOAT))):
        bounds = whole.double_statistics
        assert repr((bounds.minimum, bounds.maximum)) == repr(mended)


def test_floats_without_values_have_no_bounds() -> None:
    empty = _column(number_of_values=0, double_statistics={"sum": 0})
    assert mend_statistics(empty, TypeKind.DOUBLE) == empty
    whole = _column(number_of_values=3, double_statistics={"minimum": -1, "maximum": 1, "sum": 0})
    assert mend_statistics(whole, TypeKind.DOUBLE) is whole


@pytest.mark.parametrize("nanos", [0, 2, 456_001])
def test_a_maximum_holds_for_readers_that_know_no_digits_below_a_millisecond(nanos: int) -> None:
    """PROTOCOL 2.7: ORC Java 1.5 does not read the nanoseconds. They are stored plus one, and 0 is "not kept"."""
    part = _column(
        number_of_values=1, timestamp_statistics={"minimum_utc": 5, "maximum_utc": 7, "maximum_nanos": nanos}
    )
    bounds = mend_statistics(part, TypeKind.TIMESTAMP).timestamp_statistics
    assert (bounds.minimum_utc, bounds.maximum_utc, bounds.maximum_nanos) == (5, 8, 1)


def test_a_maximum_of_whole_milliseconds_stays() -> None:
    part = _column(number_of_values=1, timestamp_statistics={"minimum_utc": 5, "maximum_utc": 7, "maximum_nanos": 1})
    assert mend_statistics(part, TypeKind.TIMESTAMP_INSTANT) is part


def test_nothing_is_said_of_times_before_the_gregorian_calendar() -> None:
    """PROTOCOL 2.7: ORC Java moves their bounds to another calendar, and not the values."""
    old = {"minimum_utc": -14_831_769_600_000, "maximum_utc": 7, "maximum_nanos": 1}
    part = _column(number_of_values=2, has_null=False, timestamp_statistics=old)
    assert mend_statistics(part, TypeKind.TIMESTAMP) == _column(number_of_values=2, has_null=False)


@pytest.mark.parametrize(("first", "is_known"), [(-141_428, False), (-141_427, True), (0, True)])
def test_nothing_is_said_of_days_before_the_gregorian_calendar(first: int, is_known: bool) -> None:
    """PROTOCOL 2.7: ORC Java 1.5 moves their bounds to another calendar, and not the literals."""
    part = _column(number_of_values=2, has_null=False, date_statistics={"minimum": first, "maximum": 7})
    mended = part if is_known else _column(number_of_values=2, has_null=False)
    assert mend_statistics(part, TypeKind.DATE) == mended
    assert merge([part], OrcType(kind=TypeKind.DATE)) == mended


def test_dates_without_values_keep_their_statistics() -> None:
    empty = _column(number_of_values=0, date_statistics={})
    assert mend_statistics(empty, TypeKind.DATE) is empty


def test_merged_nanoseconds_below_a_millisecond_are_widest_where_unknown() -> None:
    """By the specification nanoseconds are stored plus one; without them a minimum is .000000, a maximum .999999."""
    fine = {"minimum_utc": 5, "maximum_utc": 5, "minimum_nanos": 100, "maximum_nanos": 200}
    parts = [
        _column(number_of_values=1, timestamp_statistics=fine),
        _column(number_of_values=1, timestamp_statistics={"minimum_utc": 5, "maximum_utc": 5}),
    ]
    merged = merge(parts, OrcType(kind=TypeKind.TIMESTAMP)).timestamp_statistics
    assert (merged.minimum_utc, merged.minimum_nanos, merged.maximum_utc, merged.maximum_nanos) == (5, 0, 6, 1)


def test_without_parts_there_are_no_rows() -> None:
    merged = merge([], OrcType(kind=TypeKind.STRING))
    assert (merged.number_of_values, merged.has_null, merged.string_statistics.sum) == (0, False, 0)
    assert merged.HasField("string_statistics")


def test_a_damaged_decimal_says_nothing() -> None:
    part = _column(number_of_values=1, decimal_statistics={"minimum": b"one", "maximum": b"2", "sum": b"2"})
    merged = merge([part], OrcType(kind=TypeKind.DECIMAL, precision=10))
    assert not merged.decimal_statistics.HasField("minimum")


def test_stripes_of_real_files_merge_to_their_file_statistics(
    real_files: list[Path], opened: Callable[[Path], tuple[LocalSource, Tail]]
) -> None:
    for path in real_files:
        _, tail = opened(path)
        if tail.stripe_statistics is None or not tail.complete_statistics or not tail.stripes:
            continue
        for number, column in enumerate(tail.types):
            merged = merge([part[number] for part in tail.stripe_statistics], column)
            of_file = mend_statistics(tail.statistics[number], column.kind)
            assert merged.number_of_values == of_file.number_of_values, path
            has_null = of_file.has_null, of_file.HasField("has_null")
            assert (merged.has_null, merged.HasField("has_null")) == has_null, path
            for field in ("int_statistics", "string_statistics", "date_statistics", "bucket_statistics"):
                if of_file.HasField(field) and of_file.number_of_values:
                    assert _known(getattr(merged, field)) == _known(getattr(of_file, field)), (path, number, field)


@pytest.mark.parametrize("sums", [(b"1E+300000000", b"1"), (b"1E+999999999999999999",) * 2, (b"9" * 300, b"1")])
def test_sums_of_decimals_that_no_column_has_are_left_out(sums: tuple[bytes, bytes]) -> None:
    """Added exactly, they would have hundreds of millions of digits."""
    parts = [messages.ColumnStatistics(number_of_values=1) for _ in sums]
    for part, text in zip(parts, sums, strict=True):
        part.decimal_statistics.sum = text
    assert not statistics.merge(parts, OrcType(kind=TypeKind.DECIMAL)).decimal_statistics.HasField("sum")
