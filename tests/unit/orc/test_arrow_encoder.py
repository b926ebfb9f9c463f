"""Both ways to a file hold the same rows in the same class, and leave nothing when they are given up."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.errors import StorageError
from compactor.orc import arrow_codec, arrow_encoder
from compactor.orc.arrow_codec import ArrowWriter
from compactor.orc.arrow_encoder import Encoder, ZlibEncoder
from compactor.orc.compression import Compression
from compactor.orc.source import LocalSource
from compactor.orc.tail import Tail, empty_tail, read_tail
from compactor.orc.types import acid_types, parse_hive_type

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


def test_a_part_ends_with_a_stripe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies on the disk uncompressed is bounded, however large the file becomes."""
    monkeypatch.setattr(arrow_encoder, "PLAIN_BYTES", 500_000)
    encoder = ZlibEncoder(tmp_path / "f", LIKE, SCHEMA, stripe_size=100_000)
    most = 0
    for first in range(0, 200_000, 10_000):
        encoder.write(_batch(first, 10_000))
        plain = tmp_path / "f.plain"
        most = max(most, plain.stat().st_size if plain.exists() else 0)
    encoder.close()
    assert 0 < most < 1_000_000
    assert po.ORCFile(tmp_path / "f").read().column("rowId").to_pylist() == list(range(200_000))
    assert len(_tail(tmp_path / "f").stripes) > 3


@pytest.mark.parametrize("kind", [Encoder, ZlibEncoder])
def test_given_up_nothing_is_left(tmp_path: Path, kind: type[Encoder | ZlibEncoder]) -> None:
    encoder = kind(tmp_path / "f", LIKE, SCHEMA, stripe_size=1 << 20)
    encoder.write(_batch(0, 100))
    encoder.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    encoder = ZlibEncoder(tmp_path / "f", LIKE, SCHEMA, stripe_size=1 << 20)
    encoder.write(_batch(0, 100_000))
    monkeypatch.setattr("compactor.orc.source.os.write", full)
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
