from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import BadFile, StorageError
from compactor.orc.io.source import CHUNK, LocalSource
from compactor.rows.remote_source import LOCAL, RemoteSource, open_source
from compactor.storage.local import LocalStorage
from compactor.storage.protocol import StoredFile


class Far(LocalStorage):
    """A directory with files that are read only by ranges; every range is recorded."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def local_path(self, path: str) -> str | None:
        return None

    def descriptor(self, path: str) -> int | None:
        return None

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.asked.append((offset, length))
        return super().read_range(path, offset, length)


def test_a_local_file_is_opened_directly(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    with open_source(LOCAL, str(tmp_path / "f")) as source:
        assert isinstance(source, LocalSource)


def test_neighbouring_reads_are_one_request(tmp_path: Path) -> None:
    content = bytes(range(256)) * (CHUNK // 128)
    (tmp_path / "f").write_bytes(content)
    far = Far()
    with open_source(far, str(tmp_path / "f")) as source:
        assert source.length == len(content) == 2 * CHUNK
        assert [source.read(at, 10) for at in (0, 100, 50)] == [content[at : at + 10] for at in (0, 100, 50)]
        assert far.asked == [(0, CHUNK)]
        assert source.read(CHUNK - 5, 10) == content[CHUNK - 5 : CHUNK + 5]
        assert far.asked == [(0, CHUNK), (CHUNK, CHUNK)]
        assert source.read(7, CHUNK) == content[7 : 7 + CHUNK]
        assert far.asked[2:] == [(7, CHUNK)]
        assert (source.is_local, source.descriptor()) == (False, None)


class Tagged(Far):
    """The same in a store whose files may be taken over."""

    def status(self, path: str) -> StoredFile:
        return replace(super().status(path), tag="x")


def test_where_stripes_may_be_taken_over_little_more_is_read_than_is_asked_for(tmp_path: Path) -> None:
    content = bytes(range(256)) * (3 * CHUNK // 256)
    (tmp_path / "f").write_bytes(content)
    far, block = Tagged(), 64 * 1024
    with RemoteSource(far, str(tmp_path / "f")) as source:
        assert source.tag == "x"
        for at in (len(content) - 30, 10 * block + 5, 10 * block + 9):
            assert source.read(at, 30) == content[at : at + 30]
        assert far.asked == [(len(content) - block, block), (10 * block, block)]
        far.asked.clear()
        found = b"".join(source.read(at, 1000) for at in range(0, 2_000_000, 1000))
        assert found == content[:2_000_000]
        assert far.asked == [(0, block), (block, 8 * block), (9 * block, CHUNK)]
        far.asked.clear()
        assert source.read(6_000_000, 300_000) == content[6_000_000:6_300_000]
        assert far.asked == [(91 * block, 6 * block)]
    (tmp_path / "f").write_bytes(content[:CHUNK])
    far.asked.clear()
    with RemoteSource(far, str(tmp_path / "f")) as source:
        source.read(5, 5)
    assert far.asked == [(0, CHUNK)]


def test_a_file_that_is_too_short_or_gone(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    source = RemoteSource(Far(), str(tmp_path / "f"))
    with pytest.raises(BadFile, match="2 bytes at offset 3, expected 4"):
        source.read(3, 4)
    (tmp_path / "f").write_bytes(b"1")
    with pytest.raises(BadFile, match="it changed while it was read"):
        source.read(0, 5)
    with pytest.raises(BadFile, match="it is gone"):
        open_source(Far(), str(tmp_path / "gone"))


def test_a_store_that_does_not_answer_is_not_a_missing_file(tmp_path: Path) -> None:
    class Away(Far):
        def length(self, path: str) -> int:
            raise StorageError("away")

    with pytest.raises(StorageError, match="away"):
        open_source(Away(), str(tmp_path))
