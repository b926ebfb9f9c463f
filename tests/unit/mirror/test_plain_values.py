"""Values of nested columns as a data file holds them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from compactor.base.errors import NotSupported
from compactor.mirror.plain_values import PlainValues
from compactor.orc.format.hive_types import parse_hive_type
from compactor.tables.schema import PARTS


def _values(kind: str, *, cuts: bool = False) -> PlainValues:
    return PlainValues(table="d.t", path="/f", types=parse_hive_type(f"struct<a:{kind}>"), cuts=cuts, is_near=True)


def test_other_columns_are_not_touched() -> None:
    array = pa.array(["a  ", None])
    assert _values("string").convert(array, 1, "a") is array
    assert _values("varchar(5)").convert(array, 1, "a") is array


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("char(3)", "a  ", "a"),
        ("char(3)", "\ta ", "\ta"),
        ("array<char(3)>", ["a  ", None, "  "], ["a", None, ""]),
        ("map<char(3),char(3)>", [("k  ", "v  ")], [("k", "v")]),
        ("struct<x:char(3),y:string>", {"x": "x  ", "y": "y  "}, {"x": "x", "y": "y  "}),
        ("array<struct<x:array<char(2)>>>", [{"x": ["a ", "b"]}, None], [{"x": ["a", "b"]}, None]),
    ],
)
def test_chars_lose_blanks_at_any_depth(kind: str, value: object, shown: object) -> None:
    types = {
        "char(3)": pa.string(),
        "array<char(3)>": pa.list_(pa.string()),
        "map<char(3),char(3)>": pa.map_(pa.string(), pa.string()),
        "struct<x:char(3),y:string>": pa.struct({"x": pa.string(), "y": pa.string()}),
        "array<struct<x:array<char(2)>>>": pa.list_(pa.struct({"x": pa.list_(pa.string())})),
    }
    array = pa.array([None, value, None, value], types[kind])
    assert _values(kind).convert(array, 1, "a").to_pylist() == [None, shown, None, shown]
    assert _values(kind).convert(array.slice(1, 2), 1, "a").to_pylist() == [shown, None]


def test_digits_are_cut_and_counted_at_any_depth() -> None:
    values = _values("array<timestamp>", cuts=True)
    array = pa.array([[{"seconds": -5, "nanos": 1}, None], [{"seconds": 5, "nanos": 2000}], None], pa.list_(PARTS))
    assert values.convert(array, 1, "a").to_pylist() == [
        [{"seconds": -5, "nanos": 0}, None],
        [{"seconds": 5, "nanos": 2000}],
        None,
    ]
    assert values.cut == 1


def test_refusals_name_the_value() -> None:
    array = pa.array([None, {"seconds": 0, "nanos": 1_001}], PARTS)
    with pytest.raises(NotSupported, match=r"d\.t: column a holds 1970-01-01 00:00:00\.000001001 in file /f"):
        _values("timestamp with local time zone").convert(array, 1, "a")
    array = pa.array([{"seconds": -(10**11), "nanos": 0}], PARTS)
    with pytest.raises(NotSupported, match=r"d\.t: column a holds -1199-02-15 14:13:20 in file /f"):
        _values("timestamp", cuts=True).convert(array, 1, "a")
