"""Reading more files than may be open."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from compactor.base.errors import BadFile
from compactor.orc.io.file_pool import SMALL, FilePool
from compactor.orc.io.source import BytesSource, LocalSource
from tests.support.patience import PATIENCE


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _files(tmp_path: Path, count: int) -> list[Path]:
    paths = [tmp_path / f"{number}" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(b"%03d" % number * 10)
    return paths


def test_all_files_are_read_and_few_are_open(tmp_path: Path) -> None:
    before = _open_files()
    with FilePool(limit=3, kept=0) as few:
        sources = [few.open(partial(LocalSource, path)) for path in _files(tmp_path, 20)]
        for _ in range(2):
            for number, source in enumerate(sources):
                assert (source.read(3, 3), source.length, source.is_local) == (b"%03d" % number, 30, True)
                assert _open_files() <= before + 3
        with pytest.raises(BadFile, match="/7: "):
            sources[7].read(28, 3)
    assert _open_files() == before


def test_a_descriptor_outlives_a_file_closed_for_another(tmp_path: Path) -> None:
    before = _open_files()
    with FilePool(limit=1, kept=0) as few:
        first, second = (few.open(partial(LocalSource, path)) for path in _files(tmp_path, 2))
        descriptor = first.descriptor()
        assert descriptor is not None
        assert second.read(0, 3) == b"001"
        assert os.pread(descriptor, 3, 0) == b"000"
        os.close(descriptor)
    assert _open_files() == before


def test_the_most_recently_read_file_stays_open(tmp_path: Path) -> None:
    with FilePool(limit=2, kept=0) as few:
        first, second, third = (few.open(partial(LocalSource, path)) for path in _files(tmp_path, 3))
        second.read(0, 1)
        first.read(0, 1)
        for path in tmp_path.iterdir():
            path.unlink()
        assert (first.read(0, 3), second.read(0, 3)) == (b"000", b"001")
        with pytest.raises(BadFile, match="/2: it is gone"):
            third.read(0, 3)


def test_a_replaced_file_is_noticed(tmp_path: Path) -> None:
    with FilePool(limit=1, kept=0) as few:
        first, second = (few.open(partial(LocalSource, path)) for path in _files(tmp_path, 2))
        (tmp_path / "new").write_bytes(b"x" * 30)
        (tmp_path / "new").rename(tmp_path / "0")
        with pytest.raises(BadFile, match="/0: it was replaced"):
            first.read(0, 3)
        assert second.read(0, 3) == b"001"


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    with FilePool() as few, pytest.raises(BadFile, match="it is gone"):
        few.open(lambda: LocalSource(tmp_path / "none"))


class _Remote(BytesSource):
    def close(self) -> None:
        """Holds no resources."""


def test_a_remote_file_is_known_by_its_length(tmp_path: Path) -> None:
    contents = iter([b"abc", b"abd", b"abcd"])
    with FilePool(limit=1, kept=0) as few:
        source = few.open(lambda: _Remote(next(contents), "far"))
        few.open(partial(LocalSource, _files(tmp_path, 1)[0]))
        assert source.read(0, 3) == b"abd"
        few.open(partial(LocalSource, tmp_path / "0"))
        with pytest.raises(BadFile, match="far: it was replaced"):
            source.read(0, 3)


def test_a_file_with_another_tag_is_another_file(tmp_path: Path) -> None:
    tags = iter(["first", "first", "second"])

    def opened() -> _Remote:
        made = _Remote(b"abc", "far")
        made.tag = next(tags)  # type: ignore[assignment]
        return made

    with FilePool(limit=1, kept=0) as few:
        source = few.open(opened)
        assert source.tag == "first"
        few.open(partial(LocalSource, _files(tmp_path, 1)[0]))
        assert source.read(0, 3) == b"abc"
        few.open(partial(LocalSource, tmp_path / "0"))
        with pytest.raises(BadFile, match="far: it was replaced"):
            source.read(0, 3)


def test_small_files_are_kept_while_there_is_room(tmp_path: Path) -> None:
    before = _open_files()
    with FilePool(kept=60) as few:
        first, second, third = (few.open(partial(LocalSource, path)) for path in _files(tmp_path, 3))
        assert _open_files() == before + 1
        for path in tmp_path.iterdir():
            path.write_bytes(b"new")
        assert (first.read(3, 3), first.length, first.name) == (b"000", 30, str(tmp_path / "0"))
        assert second.read(0, 30) == b"001" * 10
        with pytest.raises(BadFile, match="/1: 2 bytes at offset 28, expected 3"):
            second.read(28, 3)
        with pytest.raises(BadFile, match="/2: 3 bytes"):
            third.read(0, 30)


def test_a_file_that_is_not_small_is_read_by_ranges(tmp_path: Path) -> None:
    before = _open_files()
    (tmp_path / "large").write_bytes(bytes(SMALL + 1))
    with FilePool() as few:
        few.open(partial(LocalSource, tmp_path / "large"))
        assert _open_files() == before + 1
    assert _open_files() == before


def test_files_are_read_at_once_and_the_one_being_read_stays_open(tmp_path: Path) -> None:
    """A far store answers several readers together; a file that is closed while it is read would answer with another's
    bytes."""
    both = threading.Barrier(2)

    class Slow(LocalSource):
        def read(self, offset: int, length: int) -> bytes:
            both.wait(PATIENCE)
            return super().read(offset, length)

    paths = _files(tmp_path, 2)
    with FilePool(limit=1, kept=0) as few, ThreadPoolExecutor(2) as pool:
        sources = list(pool.map(lambda path: few.open(partial(Slow, path)), paths))
        assert list(pool.map(lambda source: source.read(0, 3), sources)) == [b"000", b"001"]
