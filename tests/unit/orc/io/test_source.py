"""Reading at any offset, and writing that is complete or leaves nothing."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from compactor.base.errors import BadFile, StorageError
from compactor.orc.io import source as source_module
from compactor.orc.io.source import PART, BytesSource, LocalSink, LocalSource, begin_writeback, chunks, crc32


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
