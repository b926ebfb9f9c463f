"""Data files in any store: a local one is opened by its store, which follows no link; a remote one is read in ranges."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from compactor.acid.listing import FileStatus
from compactor.errors import BadFile, FileGone, StorageError
from compactor.orc.io.source import CHUNK, LocalSource
from compactor.storage.file_identity import content_tag
from compactor.storage.local import LocalStorage
from compactor.storage.protocol import Storage

LOCAL: Storage = LocalStorage()
_KEPT = 4 * CHUNK  #: bytes kept per file, since decoders switch between the streams of a stripe
_BLOCKS = 32  #: in which they are, at most
#: Bytes of the first block of a large file of which stripes may be taken over: then only footers and indexes are read. Where
#: one block after the other is read, each is larger than the one before.
_FIRST = 64 * 1024
_GROWTH = 8


class RemoteSource:
    """A file that is read by ranges, in blocks that are kept for a while.

    Args:
        listed: the file with its tag as it was listed, if it must still be that one. Where the store compares tags, its
            length is not requested again.

    Raises:
        FileGone: the file is gone, or is another one than was listed.
        BadFile: it is shorter than it was.
        StorageError: the store doesn't answer.
    """

    is_local = False

    def __init__(self, storage: Storage, path: str, listed: FileStatus | None = None) -> None:
        self.name = path
        self.limits = storage.options.files
        self._storage = storage
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._expected = None if listed is None else listed.tag
        if listed is not None and storage.capabilities(path).compares_tags:
            status = listed
        else:
            with self._noticing_its_end():
                status = storage.status(path)
            must_be_as_listed(path, listed, status)
        self.length, self.tag = status.length, status.tag
        takes_over = storage.taking_over(os.path.dirname(path)) is not None
        self._first = _FIRST if takes_over and self.tag is not None and self.length > CHUNK else CHUNK

    def read(self, offset: int, length: int) -> bytes:
        if offset + length > self.length:
            raise BadFile(
                f"file {self.name}: {max(0, self.length - offset)} bytes at offset {offset}, {length} wanted; the file is "
                "shorter than it says, restore it or move it away"
            )
        if length >= CHUNK:
            return self._fetched(offset, length)
        parts = []
        while length > 0:
            start, block = self._block(offset, length)
            part = block[offset - start : offset - start + length]
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def _block(self, offset: int, wanted: int) -> tuple[int, bytes]:
        """Returns the block that holds ``offset``, and where it starts. It has ``wanted`` bytes from there on if it is new,
        and more after a block that was read to its end."""
        for start, block in self._blocks.items():
            if start <= offset < start + len(block):
                self._blocks.move_to_end(start)
                return start, block
        start = offset // self._first * self._first
        before = next((len(block) for at, block in self._blocks.items() if at + len(block) == start), 0)
        needed = -(-(offset - start + wanted) // self._first) * self._first
        size = max(needed, min(CHUNK, _GROWTH * before))
        block = self._fetched(start, min(size, self.length - start))
        self._blocks[start] = block
        while len(self._blocks) > _BLOCKS or sum(map(len, self._blocks.values())) > _KEPT:
            self._blocks.popitem(last=False)
        return start, block

    def _fetched(self, offset: int, length: int) -> bytes:
        with self._noticing_its_end():
            data = self._storage.read_range(self.name, offset, length, self._expected)
        if len(data) != length:
            raise BadFile(
                f"file {self.name}: {len(data)} bytes at offset {offset}, {length} wanted; it changed while it was read"
            )
        return data

    @contextmanager
    def _noticing_its_end(self) -> Iterator[None]:
        """Raises FileGone where a request fails since the file is not there."""
        try:
            yield
        except StorageError as error:
            if self._storage.exists(self.name):
                raise
            raise FileGone(f"file {self.name}: it is gone; list the directory again") from error

    def descriptor(self) -> int | None:
        return None

    def close(self) -> None:
        self._blocks.clear()

    def __enter__(self) -> RemoteSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_source(storage: Storage, path: str, listed: FileStatus | None = None) -> LocalSource | RemoteSource:
    """Opens the file at ``path``, within the limits of the store's options; the caller closes it.

    Args:
        listed: see ``RemoteSource``.

    Raises:
        FileGone: the file is gone, or is another one than was listed.
        UnsafeDirectory: it is no regular file, or a link is in its path.
    """
    descriptor = storage.descriptor(path)
    if descriptor is None:
        return RemoteSource(storage, path, listed)
    source = LocalSource(path, descriptor, storage.options.files)
    try:
        found = os.fstat(descriptor)
        must_be_as_listed(path, listed, FileStatus(path, found.st_size, content_tag(found)))
    except BaseException:
        source.close()
        raise
    return source


def must_be_as_listed(path: str, listed: FileStatus | None, found: FileStatus) -> None:
    """Refuses a file that took the place of one that was listed, whatever its length.

    Raises:
        FileGone: it did.
    """
    if listed is not None and (found.length, found.tag) != (listed.length, listed.tag):
        raise FileGone(
            f"file {path}: it is another one than was listed ({found.length} bytes, tag {found.tag}; listed: "
            f"{listed.length} bytes, tag {listed.tag}); list the directory again"
        )
