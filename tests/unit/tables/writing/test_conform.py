from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import NotConforming, NotSupported
from compactor.tables.schema import PARTS
from compactor.tables.writing.conform import Door

_EXACT = Context(prec=100)
_BERLIN = datetime(2026, 1, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))


def conformed(type_: str, array: pa.Array, **options: Any) -> pa.ChunkedArray:
    door = Door(table="db.t", columns=(("c", type_),), **options)
    return door.conform(pa.table({"c": array})).column(0)


def test_files_for_hive_3_1_hold_the_ten_days_that_the_julian_calendar_leaves_out() -> None:
    days = [date(1582, 10, 5), date(1582, 10, 14)]
    times = [datetime(1582, 10, 5), datetime(1582, 10, 14, 23, 59, 59)]
    assert conformed("date", pa.array(days), is_gregorian=True).to_pylist() == days
    assert conformed("timestamp", pa.array(times), is_gregorian=True).to_pylist() == times
    nested = pa.array([[{"d": day}] for day in days])
    assert conformed("array<struct<d:date>>", nested, is_gregorian=True).to_pylist() == nested.to_pylist()
    with pytest.raises(NotConforming, match="expected: a year from 1 to 9999"):
        conformed("date", pa.array([-800_000], pa.date32()), is_gregorian=True)


def test_columns_are_matched_by_name_in_any_case_and_a_missing_one_is_null() -> None:
    """PROTOCOL 14.3: matched by position, two columns of one type were exchanged unseen."""
    door = Door(table="db.t", columns=(("a", "int"), ("b", "int"), ("c", "string")))
    rows = door.conform(pa.table({"B": [2], "A": [1]}))
    assert rows.column_names == ["a", "b", "c"]
    assert rows.to_pylist() == [{"a": 1, "b": 2, "c": None}]
    assert rows.schema.types == [pa.int32(), pa.int32(), pa.string()]


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a", "d"], "has no column 'd'; its columns are a"), (["a", "A"], "column a is given twice")],
)
def test_a_column_that_is_unknown_or_there_twice_is_refused(names: list[str], message: str) -> None:
    rows = pa.table([pa.array([1])] * 2, names=names)
    with pytest.raises(NotConforming, match=message):
        Door(table="db.t", columns=(("a", "int"),)).conform(rows)


@pytest.mark.parametrize(
    ("type_", "array", "expected"),
    [
        ("tinyint", pa.array([-128, None]), [-128, None]),
        ("bigint", pa.array([7], pa.uint8()), [7]),
        ("float", pa.array([0.1, float("inf")]), [0.10000000149011612, float("inf")]),
        ("double", pa.array([3], pa.int32()), [3.0]),
        ("decimal(10,2)", pa.array([Decimal("1.5"), Decimal("2.000")]), [Decimal("1.50"), Decimal("2.00")]),
        ("decimal(10,2)", pa.array([7]), [Decimal("7.00")]),
        ("string", pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        ("string", pa.array(["a"], pa.large_string()), ["a"]),
        ("string", pa.array(["a"], pa.string_view()), ["a"]),
        ("binary", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        ("varchar(3)", pa.array(["abcdef", "äöüß", None]), ["abc", "äöü", None]),
        ("char(3)", pa.array(["abcdef", "ä", ""]), ["abc", "ä  ", "   "]),
        ("date", pa.array([date(2026, 1, 2)], pa.date64()), [date(2026, 1, 2)]),
        ("timestamp", pa.array([datetime(2026, 1, 2)], pa.timestamp("s")), [datetime(2026, 1, 2)]),
        ("timestamp", pa.array([datetime(1, 1, 1)]), [datetime(1, 1, 1)]),
        ("array<timestamp>", pa.array([[datetime(1, 1, 1)], None]), [[datetime(1, 1, 1)], None]),
        ("boolean", pa.array([True, None]), [True, None]),
        ("int", pa.nulls(2), [None, None]),
        ("array<smallint>", pa.array([[1, None], None, []]), [[1, None], None, []]),
        ("map<string,int>", pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), [[("a", 1)], None]),
        ("struct<a:int,b:string>", pa.array([{"B": "x", "a": None}, None]), [{"a": None, "b": "x"}, None]),
        (
            "array<struct<k:char(2)>>",
            pa.array([[{"k": "a"}], [{"k": "abc"}, None]]),
            [[{"k": "a "}], [{"k": "ab"}, None]],
        ),
    ],
    ids=str,
)
def test_values_become_those_of_the_column(type_: str, array: pa.Array, expected: list[object]) -> None:
    assert conformed(type_, array).to_pylist() == expected


def test_slices_of_nested_arrays_keep_their_own_values() -> None:
    lists = pa.array([[1], [2, 3], None, [4]])[1:]
    assert conformed("array<int>", lists).to_pylist() == [[2, 3], None, [4]]
    maps = _maps([("a", 1)], [("b", 2)], None)[1:]
    assert conformed("map<string,int>", maps).to_pylist() == [[("b", 2)], None]
    structs = pa.array([{"a": 1}, {"a": 2}, None])[1:]
    assert conformed("struct<a:int>", structs).to_pylist() == [{"a": 2}, None]
    several = [[("a", 1), ("b", 2)], [("b", 3), ("a", 4)], [("a", 5), ("a", 6)]]
    assert conformed("map<varchar(1),int>", _maps(*several)).to_pylist() == several


_DEEP = pa.array(
    [{"m": [("a", [1, 2])]}, None, {"m": [("a", []), ("b", [3, 300])]}],
    pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.int64())))]),
)


def _maps(*maps: list[tuple[str, int]] | None) -> pa.Array:
    return pa.array(maps, pa.map_(pa.string(), pa.int32()))


@pytest.mark.parametrize(
    ("type_", "array", "message"),
    [
        ("tinyint", pa.array([1, 300]), "column c: .*300.*int8"),
        ("int", pa.array([1.0]), "column c: is given as double; expected: int32"),
        ("float", pa.array([1e300]), "1e\\+300: it is larger than any float"),
        ("decimal(4,2)", pa.array([100]), "column c: "),
        ("double", pa.array([2**53 + 1]), "column c: .*9007199254740993"),
        ("decimal(4,2)", pa.array([Decimal("1.005")]), "column c: row 0: 1.005: "),
        ("decimal(4,2)", pa.array([*map(Decimal, "1234"), Decimal("100.00"), None]), "column c: row 4: 100.00: "),
        ("string", pa.array([1]), "is given as int64; expected: string"),
        ("timestamp", pa.array([_BERLIN]), "time zone Europe/Berlin.*time_zone="),
        ("timestamp", pa.array([1]), "is given as int64"),
        (
            "timestamp",
            pa.array([253_402_300_800], pa.timestamp("s")),
            "10000-01-01 00:00:00: expected: a year from 1 to 9999",
        ),
        ("array<timestamp>", pa.array([[-(10**14)]], pa.list_(pa.timestamp("ms"))), "expected: a year from 1 to 9999"),
        ("date", pa.array([date(1582, 10, 10)]), "1582-10-10: Hive's calendar goes from 1582-10-04 to 1582-10-15"),
        ("date", pa.array([-800_000], pa.date32()), "expected: a year from 1 to 9999"),
        ("timestamp", pa.array([datetime(1582, 10, 14, 23)]), "1582-10-14 23:00:00: Hive's calendar goes from"),
        ("timestamp", pa.array([-1], pa.timestamp("ms")), "1969-12-31 23:59:59: readers of files would show"),
        ("array<int>", pa.array([1]), "expected: a list"),
        ("array<tinyint>", pa.array([[300]]), r"column c\.element: .*300"),
        ("map<string,int>", pa.array([[1]]), "expected: a map"),
        ("struct<a:int>", pa.array([{"z": 1}]), "has no field 'z'; its fields are a"),
        ("struct<a:int>", pa.array([{"a": 1, "A": 2}]), "field a is given twice"),
        (
            "array<struct<a:int,b:int>>",
            pa.array([[{"B": 1}]]),
            r"column c\.element\.a: is missing; its struct has the fields b",
        ),
        ("array<tinyint>", pa.array([[1], None, [], [2, 300]]), r"column c\.element: row 3: 300: a int8 cannot"),
        ("struct<m:map<string,array<tinyint>>>", _DEEP, r"column c\.m\.value\.element: row 2: 300: "),
        (
            "map<char(2),int>",
            _maps([("b", 1)], None, [("abc", 1), ("b", 2), ("abd", 3)]),
            "c.key: row 2: 'ab[cd]': another key of the map is 'ab', too, once it is cut",
        ),
        ("map<char(2),int>", _maps([("", 1), (" ", 2)]), "c.key: row 0: ' ?': another key of the map is '  ', too"),
        (
            "array<map<varchar(1),int>>",
            pa.array([[[("aa", 1), ("ab", 2)]]], pa.list_(pa.map_(pa.large_string(), pa.int32()))),
            r"c\.element\.key: row 0: 'a[ab]': another key of the map is 'a'",
        ),
    ],
)
def test_what_would_be_lost_is_refused_by_column_and_value(type_: str, array: pa.Array, message: str) -> None:
    with pytest.raises(NotConforming, match=message):
        conformed(type_, array)


def test_a_zoned_timestamp_becomes_wall_clock_time_of_the_zone_that_is_asked_for() -> None:
    """PROTOCOL 14.3: a timestamp of Berlin became UTC wall-clock time."""
    array, noon = pa.array([_BERLIN, None]), 1_767_268_800
    found = conformed("timestamp", array, time_zone="Europe/Berlin").to_pylist()
    assert found == [{"seconds": noon, "nanos": 0}, None]
    found = conformed("timestamp", array, time_zone="UTC").to_pylist()
    assert found == [{"seconds": noon - 3600, "nanos": 0}, None]


@pytest.mark.parametrize(
    ("zone", "value", "seconds"),
    [("Asia/Tokyo", 2**63 - 1, 9_223_372_036 + 9 * 3600), ("America/New_York", 1 - 2**63, -9_223_372_037 - 17_762)],
)
def test_the_wall_clock_time_of_a_zone_may_be_beyond_the_given_unit(zone: str, value: int, seconds: int) -> None:
    """PROTOCOL 14.3: Arrow's local time wraps around: the last day of nanoseconds, in 2262, became one of 1677."""
    found = conformed("timestamp", pa.array([value], pa.timestamp("ns", "UTC")), time_zone=zone).to_pylist()
    assert found == [{"seconds": seconds, "nanos": value % 10**9}]


def test_a_time_zone_that_does_not_exist_is_named() -> None:
    with pytest.raises(NotConforming, match=r"column c: time_zone='Nowhere/X': .*'Europe/Berlin'"):
        conformed("timestamp", pa.array([_BERLIN]), time_zone="Nowhere/X")


# As a decimal(38,10) Arrow makes it 4650928448601668034595970762.1945210880.
_WRAPPED = Decimal("12345678901234567890123456789012345678")


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("decimal(38,10)", pa.array([Decimal(1), _WRAPPED])),
        ("decimal(38,10)", pa.array([_WRAPPED], pa.decimal256(76, 0))),
        ("decimal(38,32)", pa.array([None, -3261245974487])),
        ("array<decimal(38,10)>", pa.array([[_WRAPPED]])),
        ("struct<d:decimal(38,32)>", pa.array([{"d": 4156449}])),
    ],
)
def test_a_number_whose_digits_leave_128_bits_is_refused(type_: str, array: pa.Array) -> None:
    """PROTOCOL 14.3: Arrow drops the upper bits, and what is left may be a number of the type."""
    with pytest.raises(
        NotConforming, match=r"column c.*(12345678901234567890123456789012345678|3261245974487|4156449): "
    ):
        conformed(type_, array)


@given(st.integers(1, 38), st.integers(0, 38), st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_a_decimal_is_the_same_number_or_refused(precision: int, scale: int, digits: int, given_scale: int) -> None:
    scale, value = min(scale, precision), Decimal(digits).scaleb(-given_scale, _EXACT)
    fits = _EXACT.quantize(value, Decimal(1).scaleb(-scale)) == value and abs(value) < 10 ** (precision - scale)
    try:
        found = conformed(f"decimal({precision},{scale})", pa.array([value], pa.decimal128(38, given_scale)))
    except NotConforming:
        assert not fits
    else:
        assert fits
        assert found.to_pylist() == [value]


@pytest.mark.parametrize("type_", ["uniontype<int,string>", "timestamp with local time zone", "array<uniontype<int>>"])
def test_types_that_are_not_written_are_refused(type_: str) -> None:
    with pytest.raises(NotSupported, match="column c is a "):
        conformed(type_, pa.nulls(1))


_VALUES = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(2**70), 2**70)), min_size=1),
    st.lists(st.one_of(st.none(), st.floats()), min_size=1),
    st.lists(st.one_of(st.none(), st.text()), min_size=1),
    st.lists(st.one_of(st.none(), st.lists(st.integers(-9, 9))), min_size=1),
    st.lists(st.one_of(st.none(), st.datetimes()), min_size=1),
    st.lists(st.one_of(st.none(), st.decimals(allow_nan=False, allow_infinity=False, places=3)), min_size=1),
)


@given(
    _VALUES,
    st.sampled_from(
        [
            "tinyint",
            "bigint",
            "float",
            "double",
            "decimal(9,1)",
            "string",
            "char(2)",
            "date",
            "timestamp",
            "array<tinyint>",
        ]
    ),
)
def test_only_typed_errors_leave(values: list[Any], type_: str) -> None:
    try:
        array = pa.array(values)
    except (pa.ArrowInvalid, OverflowError):
        return
    with suppress(NotConforming):
        assert len(conformed(type_, array)) == len(values)


def test_timestamps_in_parts_are_those_of_a_scan() -> None:
    good = pa.array([{"seconds": 32503680000, "nanos": 999_999_999}, None], PARTS)
    assert conformed("timestamp", good).to_pylist() == good.to_pylist()
    for bad in ({"seconds": 1, "nanos": 10**9}, {"seconds": 1, "nanos": -1}, {"seconds": None, "nanos": 1}):
        with pytest.raises(NotConforming, match="nanos from 0 to 999999999"):
            conformed("timestamp", pa.array([bad], PARTS))


@pytest.mark.parametrize("type_", ["char(3)", "varchar(3)"])
def test_a_text_that_is_no_utf_8_is_not_cut(type_: str) -> None:
    """Hive's strings may hold any bytes, and a column may be set to one of them."""
    texts = pa.Array.from_buffers(pa.string(), 1, pa.array([b"ab\xff\xfe"]).buffers())
    with pytest.raises(NotConforming, match="column c: Invalid UTF8"):
        conformed(type_, texts)


def test_a_union_in_a_struct_that_is_null_is_refused() -> None:
    """Arrow ends the process when it flattens one."""
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, None]), pa.array([None, "a"])])
    array = pa.StructArray.from_arrays([union], names=["u"], mask=pa.array([True, False]))
    with pytest.raises(NotConforming, match=r"column c\.u: is given as .*union<.*>; we do not write unions"):
        conformed("struct<u:int>", array)
    nested = pa.ListArray.from_arrays([0, 2], array)
    with pytest.raises(NotConforming, match=r"column c\.element\.u: is given as .*union"):
        conformed("array<struct<u:int>>", nested)


def test_what_lies_below_a_null_struct_need_not_fit() -> None:
    """Arrow keeps values below a NULL; no reader shows them, so they are no reason to refuse the rows."""
    children = [pa.array([300, 7]), pa.array([[-9], [8]])]
    struct = pa.StructArray.from_arrays(children, names=["x", "l"], mask=pa.array([True, False]))
    rows = conformed("struct<x:tinyint,l:array<tinyint>>", pa.chunked_array([struct]))
    assert rows.to_pylist() == [None, {"x": 7, "l": [8]}]
    with pytest.raises(NotConforming, match=r"c\.x: .*300"):
        conformed("struct<x:tinyint,l:array<tinyint>>", pa.StructArray.from_arrays(children, names=["x", "l"]))


def assigned(type_: str, array: pa.Array) -> list[Any]:
    door = Door(table="db.t", columns=(("c", type_),), is_assignment=True)
    return list(door.conform(pa.table({"c": array}), lambda row: f"ROW__ID {row}").column(0).to_pylist())


@pytest.mark.parametrize(
    ("type_", "array", "values"),
    [
        ("int", pa.array([" 12", "-3.0", None]), [12, -3, None]),
        ("tinyint", pa.array([Decimal("7.00"), None]), [7, None]),
        ("bigint", pa.array([4.0]), [4]),
        ("decimal(5,2)", pa.array([0.1, 2.0]), [Decimal("0.10"), Decimal("2.00")]),
        ("decimal(5,2)", pa.array(["1e2", "-.5"]), [Decimal("100.00"), Decimal("-0.50")]),
        ("double", pa.array(["1.5", "NaN"]), [1.5, pytest.approx(float("nan"), nan_ok=True)]),
        ("double", pa.array([Decimal("1.25")]), [1.25]),
        ("string", pa.array([True, None]), ["true", None]),
        ("varchar(4)", pa.array([date(2026, 1, 2)]), ["2026"]),
        ("string", pa.array([Decimal("1.50")]), ["1.50"]),
        ("boolean", pa.array(["TRUE", " false"]), [True, False]),
        ("date", pa.array(["2026-02-28", None]), [date(2026, 2, 28), None]),
        ("timestamp", pa.array(["2026-02-28 01:02:03.5"]), [{"seconds": 1772240523, "nanos": 500_000_000}]),
        ("timestamp", pa.array([date(1970, 1, 2)]), [datetime(1970, 1, 2)]),
        ("binary", pa.array(["\u00e4"]), [b"\xc3\xa4"]),
        ("array<int>", pa.array([["1"], None]), [[1], None]),
    ],
)
def test_an_assignment_of_sql_takes_values_that_are_equal_to_one_of_the_column(
    type_: str, array: pa.Array, values: list[Any]
) -> None:
    """PROTOCOL 14.3."""
    assert assigned(type_, array) == values


@pytest.mark.parametrize(
    ("type_", "array", "message"),
    [
        (
            "array<int>",
            pa.array([["1"], ["2", "much", "3"]]),
            r"c\.element: ROW__ID 1: 'much': it is not a value of type",
        ),
        ("int", pa.array(["1", "2.5"]), "column c: ROW__ID 1: '2.5': "),
        ("int", pa.array(["3000000000"]), "ROW__ID 0: 3000000000: a int32 cannot hold it"),
        ("bigint", pa.array(["1e30"]), "ROW__ID 0: 1000000000000000019884624838656|ROW__ID 0: 10{30}"),
        ("int", pa.array([1.0, float("nan")]), "ROW__ID 1: nan: "),
        (
            "map<string,tinyint>",
            pa.array([[("k", 300)]], pa.map_(pa.string(), pa.int32())),
            r"c\.value: ROW__ID 0: 300",
        ),
        ("array<date>", pa.array([["2026-02-28", "2026-02-30"]]), r"c\.element: ROW__ID 0: '2026-02-30'"),
        ("decimal(4,2)", pa.array([1.005]), "ROW__ID 0: 1.005: "),
        ("boolean", pa.array(["1"]), "'1': it is not a value"),
        ("double", pa.array(["1_0"]), "'1_0'"),
        ("double", pa.array(["Infinity", "-1e400"]), "ROW__ID 1: '-1e400'"),
        ("int", pa.array([True]), "is given as bool; expected: int32"),
        ("string", pa.array([1.5]), "is given as double; expected: string"),
    ],
)
def test_other_values_of_an_assignment_are_refused_by_path_row_and_value(
    type_: str, array: pa.Array, message: str
) -> None:
    with pytest.raises(NotConforming, match=message):
        assigned(type_, array)
