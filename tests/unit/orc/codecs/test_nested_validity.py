"""Arrow's ORC writer gets no value below a NULL, and whole arrays instead of slices."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest

from compactor.orc.codecs import arrow_codec
from compactor.orc.codecs.nested_validity import push_validity_down
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail

ROWS = 600
KINDS = (
    "struct<x:int,y:string>",
    "struct<z:array<int>>",
    "struct<s:struct<x:int,f:float,b:boolean>,d:decimal(9,2)>",
    "struct<m:map<string,struct<x:bigint>>>",
    "array<struct<x:int,y:string>>",
    "array<array<struct<x:smallint>>>",
    "map<string,struct<x:int>>",
    "map<int,array<struct<y:binary>>>",
    "array<map<string,double>>",
)


def hidden_values(kind: Any, length: int, chance: random.Random, *, is_key: bool = False) -> Any:
    """Returns an array whose NULLs hide values of their own: the child of a NULL struct, the elements of a NULL list."""
    mask = None if is_key else pa.array([chance.random() < 0.3 for _ in range(length)], pa.bool_())
    if pa.types.is_struct(kind):
        children = [hidden_values(field.type, length, chance) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        offsets = [0]
        for _ in range(length):
            offsets.append(offsets[-1] + chance.randrange(4))
        if pa.types.is_map(kind):
            keys = pa.array(range(offsets[-1]), pa.int64()).cast(kind.key_type)
            items = hidden_values(kind.item_type, offsets[-1], chance)
            return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind, mask=mask)
        elements = hidden_values(kind.value_type, offsets[-1], chance)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=kind, mask=mask)
    numbers = pa.array([chance.randrange(100) for _ in range(length)], pa.int64())
    if pa.types.is_binary(kind):
        values = numbers.cast(pa.string()).cast(kind)
    elif pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        values = numbers.cast(pa.int8()).cast(kind)
    else:
        values = numbers.cast(kind)
    return pa.compute.if_else(mask, pa.scalar(None, kind), values)


def arrays_below(array: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each struct or list below ``array`` with each of its children, as they lie in memory."""
    if pa.types.is_struct(array.type):
        children = [array.field(place) for place in range(array.type.num_fields)]
    elif pa.types.is_map(array.type):
        children = [array.keys, array.items]
    else:
        children = [array.values] if pa.types.is_list(array.type) else []
    for child in children:
        yield array, child
        yield from arrays_below(child)


def column_type(kind: str) -> Any:
    return arrow_codec.schema(parse_hive_type(f"struct<a:{kind}>")).field(0).type


@pytest.mark.parametrize("kind", KINDS)
def test_children_are_null_where_a_parent_is(kind: str) -> None:
    array = hidden_values(column_type(kind), ROWS, random.Random(kind)).slice(5, ROWS - 9)
    pushed = push_validity_down(array)
    assert pushed.to_pylist() == array.to_pylist()
    assert pushed.type == array.type
    for parent, child in arrays_below(pushed):
        assert child.offset == parent.offset == 0
        if pa.types.is_struct(parent.type):
            assert len(child) == len(parent)
            assert not any(value.is_valid for value in child.filter(parent.is_null()))
        else:
            assert len(child) == sum(len(value) for value in parent.to_pylist() if value is not None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [0, 2])
def test_a_slice_without_values_stays_one(kind: str, start: int) -> None:
    """All that it shows is NULL, or empty; what lies before it is not."""
    array = hidden_values(column_type(kind), 2, random.Random(kind)).slice(start, 0)
    hidden = pa.concat_arrays([hidden_values(array.type, 3, random.Random(kind)), pa.nulls(2, array.type)])
    for values in (array, hidden.slice(3)):
        assert push_validity_down(values).to_pylist() == values.to_pylist()


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZLIB], ids=lambda kind: kind.name)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_holds_the_values_that_the_array_shows(kind: str, compression: Compression, tmp_path: Path) -> None:
    """Also when the array is sliced, and when stripes are encoded in parts (zlib, above ``BUFFERED_BYTES``)."""
    types = parse_hive_type(f"struct<a:{kind}>")
    array = hidden_values(column_type(kind), ROWS, random.Random(kind)).slice(7)
    batch = pa.record_batch([array], schema=arrow_codec.schema(types))
    like = empty_tail(types, compression=compression)
    with arrow_codec.ArrowWriter(tmp_path / "f", like=like, types=types, stripe_size=2_000) as writer:
        writer._begin(arrow_codec.ZlibEncoder if compression is Compression.ZLIB else arrow_codec.Encoder)
        writer.write(batch)
    with open(tmp_path / "f", "rb") as file:
        rows = [row for (row,) in pyorc.Reader(file)]
    assert list(map(plain, rows)) == list(map(plain, array.to_pylist()))


def plain(value: Any) -> Any:
    """Returns a value without the libraries' types: structs as tuples, maps as lists of pairs."""
    if isinstance(value, dict):
        is_struct = all(isinstance(key, str) and key.isalpha() for key in value) and value
        parts = value.values() if is_struct else value.items()
        return [plain(part) for part in parts]
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value
