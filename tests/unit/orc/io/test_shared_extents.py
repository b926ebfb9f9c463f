"""Ranges in the place where their blocks can be shared, and sharing them on a file system that can."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from compactor.orc.io.shared_extents import SharedRange, place_range, share_range
from compactor.orc.io.source import LocalSink, LocalSource
from tests.support.reflinks import xfs

BLOCK = 4096


@pytest.mark.parametrize(
    ("position", "offset", "length", "wanted"),
    [
        (3, 3, 100_000, SharedRange(start=3, head=4093, tail=(100_003) % BLOCK)),
        (0, 0, 8192, SharedRange(start=0, head=0, tail=0)),
        (5, 3, 10_000, SharedRange(start=4099, head=4093, tail=10_003 % BLOCK)),
        (10_000, 4096, 4096, SharedRange(start=12_288, head=0, tail=0)),
    ],
)
def test_a_range_begins_where_it_does_within_a_block_of_its_source(
    position: int, offset: int, length: int, wanted: SharedRange
) -> None:
    assert place_range(position, offset, length, BLOCK) == wanted
    assert wanted.start % BLOCK == offset % BLOCK
    assert 0 <= wanted.start - position < BLOCK


def test_a_range_within_one_block_is_not_shared(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(BLOCK))
    with _descriptors(tmp_path / "in", tmp_path / "out") as (source, target):
        assert share_range(source, target, 0, 1, 200) is None


def test_a_file_system_that_cannot_share_is_left_as_it_was(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(1 << 20)
    memory = Path("/dev/shm") / f"compactor-{os.getpid()}"
    memory.write_bytes(data)
    try:
        with (
            _descriptors(memory, tmp_path / "out") as (source, target),
            pytest.raises(OSError, match=r"cross-device|not supported|Inappropriate"),
        ):
            share_range(source, target, 0, 0, len(data))
        assert (tmp_path / "out").stat().st_size == 0
        with LocalSource(memory) as source_file, LocalSink(tmp_path / "sink", shares=1) as sink:
            assert sink.take_over(source_file, 0, len(data)) is None
            assert sink.tell() == 0
            sink.copy(source_file, 0, len(data))
        assert (tmp_path / "sink").read_bytes() == data
    finally:
        memory.unlink()


@pytest.mark.whole
def test_a_shared_range_has_the_bytes_of_its_source_and_takes_no_room(tmp_path: Path) -> None:
    size = 64 << 20
    data = random.Random(2).randbytes(size)
    with xfs(tmp_path, 400 << 20) as root:
        (root / "in").write_bytes(data)
        os.sync()
        free = os.statvfs(root).f_bfree
        with LocalSource(root / "in") as source, LocalSink(root / "out", shares=1 << 20) as sink:
            sink.write(b"ORC")
            first = sink.take_over(source, 1000, 30 << 20)
            second = sink.take_over(source, 40_000_001, 20 << 20)
            assert sink.take_over(source, 0, 1000) is None  # too short
            sink.write(b"end")
            length = sink.tell()
        os.sync()
        assert (first, second is not None and second - 1000 - (30 << 20) < BLOCK) == (1000, True)
        made = (root / "out").read_bytes()
        assert len(made) == length
        assert (made[:3], made[-3:]) == (b"ORC", b"end")
        assert first is not None
        assert made[first : first + (30 << 20)] == data[1000 : 1000 + (30 << 20)]
        assert second is not None
        assert made[second : second + (20 << 20)] == data[40_000_001 : 40_000_001 + (20 << 20)]
        assert (free - os.statvfs(root).f_bfree) * BLOCK < 1 << 20


@contextmanager
def _descriptors(source: Path, target: Path) -> Iterator[tuple[int, int]]:
    with source.open("rb") as read, closing(target.open("wb")) as written:
        yield read.fileno(), written.fileno()
