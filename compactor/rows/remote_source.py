"""Data files in any store: a local one is opened by its store, which follows no link.

A remote one is read in ranges.
"""

from __future__ import annotations

from collections import OrderedDict
from types import TracebackType

from compactor.base.errors import BadFile, FileGone, StorageError
from compactor.orc.io.source import CHUNK, LocalSource
from compactor.storage.local import LocalStorage
from compactor.storage.protocol import Storage

LOCAL: Storage = LocalStorage()
_KEPT = 4 * CHUNK  #: bytes kept per file, since decoders switch between the streams of a stripe
_BLOCKS = 32  #: the most blocks per file
#: Bytes of the first block of a large file whose stripes may be taken over, since then only footers and indexes are read. If
#: blocks are read in order, each is larger than the one before.
_FIRST = 64 * 1024
_GROWTH = 8


class RemoteSource:
    """A file that is read in blocks, which are kept for a while. Its length and tag are requested once.

    Raises:
        BadFile: the file is gone, or shorter than it was.
        StorageError: the store doesn't answer.
    """

    is_local = False

    def __init__(self, storage: Storage, path: str) -> None:
        self.name = path
        self.limits = storage.options.files
        self._storage = storage
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        try:
            status = storage.status(path)
        except StorageError as error:
            if storage.exists(path):
                raise
            raise FileGone(f"file {path}: it is gone; list the directory again") from error
        self.length, self.tag = status.length, status.tag
        self._first = CHUNK if self.tag is None or self.length <= CHUNK else _FIRST

    def read(self, offset: int, length: int) -> bytes:
        if offset + length > self.length:
            raise BadFile(
                f"file {self.name}: {max(0, self.length - offset)} bytes at offset {offset}, expected {length}; the file is "
                "shorter than it claims, restore it or move it away"
            )
        if length >= CHUNK:
            return self._fetch(offset, length)
        parts = []
        while length > 0:
            start, block = self._block(offset, length)
            part = block[offset - start : offset - start + length]
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def _block(self, offset: int, length: int) -> tuple[int, bytes]:
        """Returns the start and content of the block that holds ``offset``.

        A new block has ``length`` bytes from ``offset`` on, and more after a block that was read to its end.
        """
        for start, block in self._blocks.items():
            if start <= offset < start + len(block):
                self._blocks.move_to_end(start)
                return start, block
        start = offset // self._first * self._first
        before = next((len(block) for at, block in self._blocks.items() if at + len(block) == start), 0)
        needed = -(-(offset - start + length) // self._first) * self._first
        size = max(needed, min(CHUNK, _GROWTH * before))
        block = self._fetch(start, min(size, self.length - start))
        self._blocks[start] = block
        while len(self._blocks) > _BLOCKS or sum(map(len, self._blocks.values())) > _KEPT:
            self._blocks.popitem(last=False)
        return start, block

    def _fetch(self, offset: int, length: int) -> bytes:
        data = self._storage.read_range(self.name, offset, length)
        if len(data) != length:
            raise BadFile(
                f"file {self.name}: {len(data)} bytes at offset {offset}, expected {length}; it changed while it was read"
            )
        return data

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


def open_source(storage: Storage, path: str) -> LocalSource | RemoteSource:
    """Opens the file at ``path``, within the limits of the store's options; the caller closes it.

    Raises:
        BadFile: the file is gone.
        UnsafeDirectory: it is not a regular file, or a link is in its path.
    """
    descriptor = storage.descriptor(path)
    return RemoteSource(storage, path) if descriptor is None else LocalSource(path, descriptor, storage.options.files)
