"""Many files of which few are open at a time: a partition may have more deltas than a process may have files open, and
what a remote file keeps in memory is only worth it while it is read. Small ones are read at once and closed."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing
from typing import Protocol

from compactor.errors import BadFile
from compactor.orc.io.source import BytesSource, Source

LIMIT = 64  #: files open at a time
SMALL = 64 * 1024  #: bytes of a file that is read at once
KEPT = LIMIT * SMALL  #: bytes of small files that are held


class Closable(Source, Protocol):
    """A source that holds something until it is closed."""

    def close(self) -> None: ...


class FewOpen:
    """Opens files and closes the one that was not read for longest, to open it again when it is read. Small ones are held
    in memory instead, as long as all of them together have at most ``kept`` bytes.

    Leaving a ``with`` block closes all.
    """

    def __init__(self, limit: int = LIMIT, kept: int = KEPT) -> None:
        self._limit, self._kept = limit, kept
        self._open: OrderedDict[_Reopened, Closable] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, opener: Callable[[], Closable]) -> Source:
        """What ``opener`` opens; it is called again whenever the file is read after it was closed.

        Raises:
            BadFile, StorageError: as ``opener`` does.
        """
        first = opener()
        if first.length <= min(SMALL, self._kept):
            self._kept -= first.length
            with closing(first):
                return BytesSource(first.read(0, first.length), first.name)
        source = _Reopened(self, opener, first)
        with self._lock:
            self._keep(source, first)
        return source

    def read(self, source: _Reopened, offset: int, length: int) -> bytes:
        """See ``Source.read``; decoders read from threads of their own."""
        with self._lock:
            return self._opened(source).read(offset, length)

    def descriptor(self, source: _Reopened) -> int | None:
        """See ``Source.descriptor``; it stays open when the file is closed here."""
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

    def __enter__(self) -> FewOpen:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in self._open.values():
            opened.close()
        self._open.clear()


class _Reopened:
    def __init__(self, few: FewOpen, opener: Callable[[], Closable], first: Closable) -> None:
        self.name, self.length, self.is_local = first.name, first.length, first.is_local
        self._few, self._opener = few, opener
        self._identity = _identity(first)

    def read(self, offset: int, length: int) -> bytes:
        return self._few.read(self, offset, length)

    def descriptor(self) -> int | None:
        return self._few.descriptor(self)

    def reopened(self) -> Closable:
        """The file, opened again.

        Raises:
            BadFile: the file is gone, or another one has its name.
        """
        opened = self._opener()
        if _identity(opened) != self._identity:
            opened.close()
            raise BadFile(f"file {self.name}: it was replaced while it was read; list the directory again")
        return opened


def _identity(source: Source) -> tuple[int, ...]:
    descriptor = source.descriptor()
    if descriptor is None:
        return (source.length,)
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return status.st_ino, status.st_size, status.st_mtime_ns
