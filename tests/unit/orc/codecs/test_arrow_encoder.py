"""Files of both encoders hold the same rows in the same class, and leave nothing if they are aborted."""

from __future__ import annotations

import errno
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest

from compactor.base.errors import StorageError
from compactor.orc.codecs import arrow_codec
from compactor.orc.codecs.arrow_codec import ArrowWriter
from compactor.orc.codecs.arrow_encoder import Encoder, ZlibEncoder
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import Tail, empty_tail, read_tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import LocalSource

TYPES = acid_types(parse_hive_type("struct<a:bigint,b:string>"))
SCHEMA = arrow_codec.schema(TYPES)
LIKE = empty_tail(TYPES, compression=Compression.ZLIB)


def _batch(first: int, count: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + count)
    one = np.ones(count, np.int64)
    row = pa.StructArray.from_arrays(
        [pa.array(numbers), pa.array([f"text {n}" for n in numbers])], fields=list(SCHEMA.field("row").type)
    )
    keys = [np.zeros(count, np.int32), one, np.full(count, 1 << 29, np.int32), numbers, one]
    return pa.RecordBatch.from_arrays([*map(pa.array, keys), row], schema=SCHEMA)


def _tail(path: Path) -> Tail:
    with LocalSource(path) as source:
        return read_tail(source)


@pytest.mark.parametrize("kind", [Encoder, ZlibEncoder])
def test_rows_and_class(tmp_path: Path, kind: type[Encoder | ZlibEncoder]) -> None:
    encoder = kind(tmp_path / "f", LIKE, SCHEMA, stripe_size=1 << 20)
    for first in range(0, 30_000, 10_000):
        encoder.write(_batch(first, 10_000))
    encoder.close()
    assert po.ORCFile(tmp_path / "f").read().column("rowId").to_pylist() == list(range(30_000))
    tail = _tail(tmp_path / "f")
    found = (tail.compression, tail.row_index_stride, tail.file_version, tail.rows)
    assert found == (Compression.ZLIB, 10_000, LIKE.file_version, 30_000)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_stripes_end_when_they_are_full(tmp_path: Path) -> None:
    """The uncompressed data in memory is bounded, however large the file becomes."""
    encoder = ZlibEncoder(tmp_path / "f", LIKE, SCHEMA, stripe_size=100_000)
    for first in range(0, 200_000, 10_000):
        encoder.write(_batch(first, 10_000))
        assert [path.name for path in tmp_path.iterdir()] == ["f"]
    encoder.close()
    assert po.ORCFile(tmp_path / "f").read().column("rowId").to_pylist() == list(range(200_000))
    rows = [stripe.rows for stripe in _tail(tmp_path / "f").stripes]
    assert len(rows) > 3
    assert len(set(rows[:-1])) == 1


def _rows(seed: int, count: int, *, has_null: bool = False) -> list[tuple[Any, ...]]:
    """Returns events with keys that are constant, rise with gaps or are random."""
    dice = random.Random(seed)
    row_id = 0
    rows = []
    for number in range(count):
        row_id += dice.choice([1] * 50 + [2, 3, 900])
        row = None if dice.random() < 0.1 else {"a": number, "b": dice.choice([None, f"text {number}"])}
        txn = None if has_null and not number else dice.randrange(1 << 40)
        rows.append((number // 7000, number // 300, dice.choice([1 << 29, 1 << 29 | 1 << 16]), row_id, txn, row))
    return rows


def _of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def test_every_row_group_begins_where_its_index_says(tmp_path: Path) -> None:
    """Applies to the keys encoded here and the columns encoded by Arrow, for a reader that starts in the middle."""
    rows = _rows(1, 24_000)
    encoder = ZlibEncoder(tmp_path / "f", replace(LIKE, row_index_stride=1000), SCHEMA, stripe_size=120_000)
    for start in range(0, len(rows), 1700):
        encoder.write(_of(rows[start : start + 1700]))
    encoder.close()
    assert len(_tail(tmp_path / "f").stripes) > 1
    with (tmp_path / "f").open("rb") as file:
        reader = pyorc.Reader(file, struct_repr=pyorc.StructRepr.DICT)
        assert [tuple(row.values()) for row in reader] == rows
        for place in range(0, len(rows), 500):
            reader.seek(place)
            assert tuple(next(reader).values()) == rows[place]


def test_a_null_key_begins_another_stripe(tmp_path: Path) -> None:
    """No file of Hive has a null key; if one occurs, Arrow encodes all columns of its stripe."""
    parts = [_rows(1, 900), _rows(2, 900, has_null=True), _rows(3, 900)]
    encoder = ZlibEncoder(tmp_path / "f", LIKE, SCHEMA, stripe_size=1 << 20)
    for part in parts:
        encoder.write(_of(part))
    encoder.close()
    assert [stripe.rows for stripe in _tail(tmp_path / "f").stripes] == [900, 900, 900]
    found = po.ORCFile(tmp_path / "f").read().to_pylist()
    assert [tuple(row.values()) for row in found] == [*parts[0], *parts[1], *parts[2]]


@pytest.mark.parametrize("kind", [Encoder, ZlibEncoder])
def test_an_aborted_file_leaves_nothing(tmp_path: Path, kind: type[Encoder | ZlibEncoder]) -> None:
    encoder = kind(tmp_path / "f", LIKE, SCHEMA, stripe_size=1 << 20)
    encoder.write(_batch(0, 100))
    encoder.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    encoder = ZlibEncoder(tmp_path / "f", LIKE, SCHEMA, stripe_size=1 << 20)
    encoder.write(_batch(0, 100_000))
    monkeypatch.setattr("compactor.orc.io.source.os.write", full)
    with pytest.raises(StorageError, match="No space left"):
        encoder.close()
    assert list(tmp_path.iterdir()) == []


def test_the_writer_takes_the_faster_way_for_what_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[type] = []
    for kind in (Encoder, ZlibEncoder):
        monkeypatch.setattr(arrow_codec, kind.__name__, lambda *a, kind=kind, **k: taken.append(kind) or kind(*a, **k))
    for name, rows in (("small", 1000), ("large", 100_000)):
        with ArrowWriter(tmp_path / name, like=LIKE, types=TYPES) as writer:
            writer.write(_batch(0, rows))
            writer.write(_batch(rows, rows))
        assert po.ORCFile(tmp_path / name).read().column(3).to_pylist() == list(range(2 * rows))
    assert taken == [Encoder, ZlibEncoder]
