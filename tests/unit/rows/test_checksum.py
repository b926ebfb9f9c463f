from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from compactor.rows.checksum import MODULUS, checksum

_STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
COLUMNS: list[tuple[Any, list[Any]]] = [
    (pa.int64(), [1, 2, None, 0]),
    (pa.int8(), [1, -1, None, 0]),
    (pa.bool_(), [True, False, None, True]),
    (pa.float32(), [1.5, -1.5, None, float("nan")]),
    (pa.float64(), [1.5, 0.0, None, float("inf")]),
    (pa.date32(), [1, -1, None, 0]),
    (pa.timestamp("ns"), [1, -1, None, 0]),
    (pa.decimal128(20, 3), [Decimal("1.500"), Decimal("-1"), None, Decimal(0)]),
    (pa.string(), ["a", "", None, "ab"]),
    (pa.binary(), [b"a", b"", None, b"ab"]),
    (pa.list_(pa.int32()), [[1, 2], [2, 1], None, []]),
    (pa.list_(pa.string()), [["a", "b"], ["ab"], None, ["a", None]]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [("a", 2)], None, [("a", 1), ("b", None)]]),
    (_STRUCT, [{"x": 1, "y": "a"}, {"x": 1, "y": None}, None, {"x": None, "y": "a"}]),
    (pa.list_(_STRUCT), [[{"x": 1, "y": "a"}], [{"x": 1, "y": "b"}], None, [None]]),
]


def build_rows(kind: Any, values: list[Any]) -> Any:
    return pa.StructArray.from_arrays([pa.array(values, kind)], names=["c"])


@pytest.mark.parametrize(
    ("kind", "values"), COLUMNS, ids=lambda part: str(part) if isinstance(part, pa.DataType) else ""
)
def test_order_does_not_matter_and_values_do(kind: Any, values: list[Any]) -> None:
    """PROTOCOL 4: a changed, lost or duplicate row is found."""
    many = values * 5
    whole = checksum(build_rows(kind, many))
    shuffled = random.Random(1).sample(many, len(many))
    assert checksum(build_rows(kind, shuffled)) == whole
    assert checksum(pa.concat_arrays([build_rows(kind, many), build_rows(kind, values)]).slice(0, len(many))) == whole
    parts = [build_rows(kind, many).slice(start, 7) for start in range(0, len(many), 7)]
    assert sum(map(checksum, parts)) % MODULUS == whole
    distinct = values[:3] if kind == pa.bool_() else values
    assert len({checksum(build_rows(kind, [value])) for value in values}) == len(distinct)
    assert checksum(build_rows(kind, many[1:])) != whole
    assert checksum(build_rows(kind, [*many, many[0]])) != whole
    assert checksum(build_rows(kind, [many[1], *many[1:]])) != whole


def test_columns_are_not_exchanged() -> None:
    names = ["a", "b"]
    left, right = pa.array([1, 2]), pa.array([2, 1])
    one = pa.StructArray.from_arrays([left, right], names=names)
    other = pa.StructArray.from_arrays([right, left], names=names)
    assert checksum(one) == checksum(other)  # the rows (1, 2) and (2, 1) in another order
    assert checksum(one.slice(0, 1)) != checksum(other.slice(0, 1))


def test_texts_that_are_not_utf8_count_by_their_bytes() -> None:
    """Files may hold such texts; Hive writes whatever it gets."""
    texts, data = pa.array([b"a", b"\xb3", None]), pa.array(["a", "b", None])
    raw = pa.Array.from_buffers(pa.string(), len(texts), texts.buffers())
    assert checksum(raw) == checksum(texts) != checksum(data) == checksum(data.cast(pa.binary()))


def test_no_rows() -> None:
    assert checksum(build_rows(pa.string(), [])) == 0
    assert checksum(build_rows(pa.list_(pa.int32()), [])) == 0
