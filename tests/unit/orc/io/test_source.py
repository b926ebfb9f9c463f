"""Reading at any offset, and writing that is complete or leaves nothing."""

from __future__ import annotations

import io
import os
import random
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadFile, StorageError
from compactor.orc.io import source as source_module
from compactor.orc.io.source import (
    PART,
    BytesSource,
    LocalSink,
    LocalSource,
    SharedRange,
    SourceFile,
    begin_writeback,
    chunks,
    crc32,
    place_range,
    share_range,
)
from tests.support.reflinks import xfs

BLOCK = 4096
CONTENT = bytes(range(200))
STEPS = st.one_of(
    st.tuples(st.just("read"), st.integers(-1, 150)),
    st.tuples(st.just("from the start"), st.integers(0, 250)),
    st.tuples(st.just("on"), st.integers(0, 250)),
    st.tuples(st.just("from the end"), st.integers(-200, 10)),
)
WHENCE = {"from the start": io.SEEK_SET, "on": io.SEEK_CUR, "from the end": io.SEEK_END}


class _NoDescriptor(BytesSource):
    """A source like one on an object store: the kernel cannot copy from it."""


def test_local_reads_are_exact(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    with LocalSource(tmp_path / "f") as source:
        assert (source.length, source.read(3, 4), source.read(0, 10)) == (10, b"3456", b"0123456789")
        with pytest.raises(BadFile, match="2 bytes at offset 8, expected 5"):
            source.read(8, 5)


def test_a_disk_that_fails_is_no_bug(tmp_path: Path) -> None:
    """The kernel reads no bytes from a directory either."""
    with (
        LocalSource("bucket_00000", descriptor=os.open(tmp_path, os.O_RDONLY)) as source,
        pytest.raises(StorageError, match="file bucket_00000: cannot be read: Is a directory"),
    ):
        source.read(0, 10)


def test_a_file_that_is_gone_is_a_bad_file(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="gone"):
        LocalSource(tmp_path / "gone")


@pytest.mark.parametrize("kernel", [True, False])
def test_copies_by_the_kernel_and_in_python_are_equal(
    tmp_path: Path, kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(100_000)
    (tmp_path / "in").write_bytes(data)
    if not kernel:
        monkeypatch.delattr(os, "copy_file_range")
    with LocalSource(tmp_path / "in") as source, LocalSink(tmp_path / "out") as sink:
        sink.write(b"ab")
        sink.copy(source, 1000, 50_000)
        sink.copy(BytesSource(data), 5, 7)
        sink.write(b"cd")
        assert sink.tell() == 50_011
    assert (tmp_path / "out").read_bytes() == b"ab" + data[1000:51_000] + data[5:12] + b"cd"


@pytest.mark.parametrize(
    ("stays", "hinted"), [(True, [(0, PART + 5), (PART + 5, PART), (2 * PART + 5, PART)]), (False, [])]
)
def test_writeback_starts_early_for_a_file_that_stays(
    tmp_path: Path, stays: bool, hinted: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(source_module, "begin_writeback", lambda _, offset, length: found.append((offset, length)))
    (tmp_path / "in").write_bytes(bytes(3 * PART))
    with LocalSource(tmp_path / "in") as source, LocalSink(tmp_path / "out", stays=stays) as sink:
        sink.write(b"12345")
        sink.copy(source, 0, 3 * PART)
        sink.write(b"end")
    assert found == hinted
    assert (tmp_path / "out").stat().st_size == 3 * PART + 8


def test_a_copy_beyond_the_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"short")
    with LocalSource(tmp_path / "in") as source, pytest.raises(BadFile), LocalSink(tmp_path / "out") as sink:
        sink.copy(source, 2, 100)
    assert not (tmp_path / "out").exists()


def test_an_exception_leaves_no_file(tmp_path: Path) -> None:
    """PROTOCOL 3.4: a stream that failed is aborted, never published truncated."""

    def fail() -> None:
        with LocalSink(tmp_path / "out") as sink:
            sink.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not (tmp_path / "out").exists()


def test_a_forgotten_sink_leaves_no_file(tmp_path: Path) -> None:
    """PROTOCOL 3.4: garbage collection does not publish it either."""
    sink = LocalSink(tmp_path / "out")
    sink.write(b"half")
    del sink
    assert not (tmp_path / "out").exists()


def test_abort_after_close_keeps_the_file(tmp_path: Path) -> None:
    sink = LocalSink(tmp_path / "out")
    sink.write(b"whole")
    sink.close()
    sink.abort()
    assert (tmp_path / "out").read_bytes() == b"whole"


def test_an_existing_file_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"kept")
    with pytest.raises(StorageError):
        LocalSink(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"kept"


def test_ranges() -> None:
    source = BytesSource(b"0123456789" * 1000)
    assert b"".join(chunks(source, 5, 20)) == b"56789012345678901234"
    assert crc32(source, 5, 20) == zlib.crc32(b"56789012345678901234")
    assert crc32(source, 5, 0) == 0


def test_the_kernel_accepts_the_hint_only_for_files(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"written")
    descriptor = os.open(path, os.O_WRONLY)
    try:
        assert begin_writeback(descriptor, 0, 7)
    finally:
        os.close(descriptor)
    assert not begin_writeback(descriptor, 0, 7)


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


@given(st.lists(STEPS, max_size=10), st.integers(0, len(CONTENT)))
def test_a_remote_source_reads_and_closes_like_a_file(steps: list[tuple[str, int]], size: int) -> None:
    file, plain = SourceFile(BytesSource(CONTENT), size), io.BytesIO(CONTENT[:size])
    assert file.readable()
    assert file.seekable()
    for what, number in steps:
        if what == "read":
            assert file.read(number) == plain.read(number)
        elif what == "from the end" and number + size < 0:
            assert file.seek(number, io.SEEK_END) == plain.seek(0)
        else:
            assert file.seek(number, WHENCE[what]) == plain.seek(number, WHENCE[what])
        assert file.tell() == plain.tell()
