"""Many files, few of them open at a time: a partition may have more deltas than a process may have open files, and the
memory for a remote file is justified only while it is read. Small files are read as a whole and closed."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from compactor.errors import BadFile
from compactor.orc.io.source import BytesSource, Source

LIMIT = 64  #: files open at a time
SMALL = 64 * 1024  #: bytes up to which a file is read as a whole
KEPT = LIMIT * SMALL  #: bytes of small files that are kept in memory


class Closable(Source, Protocol):
    """A source that holds resources until it is closed."""

    def close(self) -> None: ...


class FilePool:
    """Opens files, and closes the least recently read one, which is opened again when it is next read. Small files are
    kept in memory instead, as long as they have at most ``kept`` bytes in total.

    Leaving a ``with`` block closes all files.
    """

    def __init__(self, limit: int = LIMIT, kept: int = KEPT) -> None:
        self._limit, self._kept = limit, kept
        self._open: OrderedDict[_Reopened, Closable] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, opener: Callable[[], Closable]) -> Source:
        """Opens a file by ``opener``, which is called again whenever the file is read after it was closed.

        Raises:
            BadFile, StorageError: as ``opener`` does.
        """
        first = opener()
        length = first.length
        if length <= SMALL and length <= self._kept:
            self._kept -= length
            try:
                return BytesSource(first.read(0, length), first.name, first.limits)
            finally:
                first.close()
        source = _Reopened(self, opener, first)
        with self._lock:
            self._keep(source, first)
        return source

    def read(self, source: _Reopened, offset: int, length: int) -> bytes:
        """Reads a range; see ``Source.read``. Decoders call this from their own threads."""
        with self._lock:
            return self._opened(source).read(offset, length)

    def descriptor(self, source: _Reopened) -> int | None:
        """Returns a descriptor that stays open when the pool closes the file; see ``Source.descriptor``."""
        with self._lock:
            return self._opened(source).descriptor()

    def _opened(self, source: _Reopened) -> Closable:
        found = self._open.get(source)
        if found is None:
            found = source.reopened()
        self._keep(source, found)
        return found

    def _keep(self, source: _Reopened, opened: Closable) -> None:
        self._open[source] = opened
        self._open.move_to_end(source)
        while len(self._open) > self._limit:
            _, oldest = self._open.popitem(last=False)
            oldest.close()

    def __enter__(self) -> FilePool:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in self._open.values():
            opened.close()
        self._open.clear()


class _Reopened:
    def __init__(self, pool: FilePool, opener: Callable[[], Closable], first: Closable) -> None:
        self.name, self.length, self.is_local = first.name, first.length, first.is_local
        self.limits, self.tag = first.limits, first.tag
        self._pool, self._opener = pool, opener
        self._identity = _identity(first)

    def read(self, offset: int, length: int) -> bytes:
        return self._pool.read(self, offset, length)

    def descriptor(self) -> int | None:
        return self._pool.descriptor(self)

    def reopened(self) -> Closable:
        """Opens the file again.

        Raises:
            BadFile: the file is gone, or was replaced by another one.
        """
        opened = self._opener()
        if _identity(opened) != self._identity:
            opened.close()
            raise BadFile(f"file {self.name}: it was replaced while it was read; list the directory again")
        return opened


def _identity(source: Source) -> tuple[int | str | None, ...]:
    descriptor = source.descriptor()
    if descriptor is None:
        return source.length, source.tag
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return status.st_ino, status.st_size, status.st_mtime_ns
