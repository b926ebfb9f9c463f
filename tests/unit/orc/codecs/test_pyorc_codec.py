from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import NotLossless, NotSupported
from compactor.orc.codecs import arrow_codec, pyorc_codec
from compactor.orc.codecs.pyorc_codec import TIMESTAMP, raw_type
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail, read_tail
from compactor.orc.io.source import BytesSource, LocalSource

#: The type of a column, and values as in this codec's batches; in a new file fields are named by their position.
VALUES: list[tuple[str, list[Any]]] = [
    ("timestamp", [{"seconds": -2, "nanos": 999_999_999}, None, {"seconds": 253402300799, "nanos": 1}]),
    ("timestamp with local time zone", [{"seconds": 0, "nanos": 0}]),
    ("date", [date(1, 1, 1), None, date(9999, 12, 31)]),
    ("decimal(38,5)", [Decimal("-123456789012345678901234567890123.45678"), Decimal("0.00001"), None]),
    ("map<int,array<string>>", [[(1, ["x", None]), (2, None)], [], None]),
    ("struct<f0:int,f1:struct<>>", [{"f0": 1, "f1": {}}, None]),
    ("array<timestamp>", [[None, {"seconds": -62135596800, "nanos": 5}], []]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[kind for kind, _ in VALUES])
def test_values_come_back_as_they_went(tmp_path: Path, kind: str, values: list[Any]) -> None:
    types = parse_hive_type(f"struct<a:{kind}>")
    schema = pyorc_codec.schema(types)
    batch = pa.record_batch([pa.array(values, schema.field(0).type)], schema=schema)
    with pyorc_codec.writer(tmp_path / "f", like=empty_tail(types), types=types) as writer:
        writer.write(batch.slice(0, 1))
        writer.write(batch.slice(1))
    source = BytesSource((tmp_path / "f").read_bytes())
    found = pa.concat_arrays([b.column(0) for b in pyorc_codec.read_batches(source, read_tail(source))])
    assert found.to_pylist() == values


def test_a_timestamp_is_a_pair_at_any_depth() -> None:
    types = parse_hive_type("struct<a:map<timestamp,struct<T:array<timestamp>>>>")
    assert raw_type(types, 1) == pa.map_(TIMESTAMP, pa.struct([("T", pa.list_(TIMESTAMP))]))
    assert raw_type(parse_hive_type("struct<a:bigint>"), 1) == pa.int64()


def test_values_of_unions_are_incomplete(tmp_path: Path) -> None:
    types = parse_hive_type("struct<a:uniontype<int,string>>")
    with pytest.raises(NotLossless):
        raw_type(types)
    with pytest.raises(NotLossless):
        pyorc_codec.writer(tmp_path / "f", like=empty_tail(types), types=types)
    assert not (tmp_path / "f").exists()


def test_a_compression_without_encoder_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    types = parse_hive_type("struct<a:int>")
    assert Compression.LZO not in pyorc_codec.COMPRESSIONS
    with pytest.raises(NotSupported, match="compression LZO"):
        pyorc_codec.writer(tmp_path / "f", like=empty_tail(types, compression=Compression.LZO), types=types)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_on_the_way_leaves_no_file(tmp_path: Path) -> None:
    types = parse_hive_type("struct<a:int>")
    with pytest.raises(RuntimeError), pyorc_codec.writer(tmp_path / "f", like=empty_tail(types), types=types):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_fraction_in_the_last_second_before_1970_is_refused(tmp_path: Path) -> None:
    """Files of other time zones can hold it, a stripe in UTC cannot: readers would show it a second later."""
    types = parse_hive_type("struct<t:timestamp>")
    schema = pyorc_codec.schema(types)
    row = pa.record_batch([pa.array([{"seconds": -1, "nanos": 500_000_000}], schema.field(0).type)], schema=schema)
    with (
        pytest.raises(NotLossless, match="without moving by a second"),
        pyorc_codec.writer(tmp_path / "file", like=empty_tail(types), types=types) as writer,
    ):
        writer.write(row)
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("kind", ["map<double,int>", "array<struct<f0:map<double,int>>>"])
def test_a_map_with_two_keys_that_are_equal_in_python_is_refused(tmp_path: Path, kind: str) -> None:
    """Java's maps can hold both 0.0 and -0.0, and other writers may write any key twice."""
    types = parse_hive_type(f"struct<a:{kind}>")

    def rows(*keys: float) -> pa.RecordBatch:
        found: Any = [(key, place) for place, key in enumerate(keys)]
        found = [{"f0": found}] if kind.startswith("array") else found
        schema = pyorc_codec.schema(types)
        return pa.record_batch([pa.array([found, None] * 200, schema.field(0).type)], schema=schema)

    def write(path: Path, batch: pa.RecordBatch) -> Path:
        with arrow_codec.writer(path, like=empty_tail(types), types=types) as writer:
            writer.write(batch)
        return path

    def read(path: Path) -> int:
        with LocalSource(path) as source:
            return sum(batch.num_rows for batch in pyorc_codec.read_batches(source, read_tail(source)))

    assert read(write(tmp_path / "sound", rows(0.0, 1.0))) == 400
    with pytest.raises(NotLossless, match="200 of 600 entries of maps have a key that occurs twice"):
        read(write(tmp_path / "twice", rows(0.0, -0.0, 1.0)))
    with (
        pytest.raises(NotLossless, match="a map that has a key twice"),
        pyorc_codec.writer(tmp_path / "file", like=empty_tail(types), types=types) as writer,
    ):
        writer.write(rows(0.0, -0.0))


def test_a_map_below_a_null_may_have_a_key_twice(tmp_path: Path) -> None:
    """Arrow allows any value below a struct that is NULL."""
    types = parse_hive_type("struct<s:struct<m:map<int,int>>>")
    twice = pa.array([[(1, 1), (1, 2)], [(3, 4)]], pa.map_(pa.int32(), pa.int32()))
    structs = pa.StructArray.from_arrays([twice], ["m"], mask=pa.array([True, False]))
    batch = pa.record_batch([structs.cast(pyorc_codec.schema(types).field(0).type)], schema=pyorc_codec.schema(types))
    with pyorc_codec.writer(tmp_path / "file", like=empty_tail(types), types=types) as writer:
        writer.write(batch)
    with LocalSource(tmp_path / "file") as source:
        (read,) = pyorc_codec.read_batches(source, read_tail(source))
    assert read.column(0).to_pylist() == [None, {"f0": [(3, 4)]}]


@pytest.mark.parametrize("kind", ["map<array<int>,int>", "array<map<struct<x:map<int,int>>,int>>"])
def test_a_map_whose_keys_python_cannot_hash_is_refused(tmp_path: Path, kind: str) -> None:
    types = parse_hive_type(f"struct<a:int,m:{kind}>")
    with pytest.raises(NotLossless, match="a map whose keys hold arrays or maps"):
        pyorc_codec.writer(tmp_path / "file", like=empty_tail(types), types=types)
    batch = pa.record_batch(
        [[1], pa.nulls(1, arrow_codec.schema(types).field(1).type)], schema=arrow_codec.schema(types)
    )
    with arrow_codec.writer(tmp_path / "file", like=empty_tail(types), types=types) as writer:
        writer.write(batch)
    with LocalSource(tmp_path / "file") as source, pytest.raises(NotLossless, match="a map whose keys hold"):
        list(pyorc_codec.read_batches(source, read_tail(source)))
