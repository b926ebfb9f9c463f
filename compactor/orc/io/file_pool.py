"""Keeps few of many files open at a time. Small files are read as a whole and closed.

A partition may have more deltas than a process may have open files, and a remote file deserves memory only while it is
read.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from compactor.base.errors import BadFile
from compactor.orc.io.source import BytesSource, Source

LIMIT = 64  #: files open at a time
SMALL = 64 * 1024  #: bytes up to which a file is read as a whole
KEPT = LIMIT * SMALL  #: bytes of small files that are kept in memory


class Closable(Source, Protocol):
    """A source that holds resources until it is closed."""

    def close(self) -> None: ...


class FilePool:
    """Opens files, and closes the least recently read one, which opens again at its next read.

    Small files stay in memory instead, as long as they have at most ``kept`` bytes in total. Leaving a ``with`` block closes
    all files.
    """

    def __init__(self, limit: int = LIMIT, kept: int = KEPT) -> None:
        self._limit, self._kept = limit, kept
        self._open: OrderedDict[_PooledSource, Closable] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, opener: Callable[[], Closable]) -> Source:
        """Opens a file by ``opener``, which is called again when the file is read after it was closed.

        Several threads may open files at once.

        Raises:
            BadFile, StorageError: as ``opener`` does.
        """
        first = opener()
        if self._reserve(first.length):
            try:
                return BytesSource(first.read(0, first.length), first.name, first.limits)
            finally:
                first.close()
        source = _PooledSource(self, opener, first)
        with source.lock:
            self._add(source, first)
        return source

    def _reserve(self, length: int) -> bool:
        """Reserves memory for a file of this length; returns false if it is too long or memory is used up."""
        with self._lock:
            is_kept = length <= SMALL and length <= self._kept
            self._kept -= length if is_kept else 0
        return is_kept

    def ensure_open(self, source: _PooledSource) -> Closable:
        """Returns the open file of ``source``. The caller holds its lock until it has read."""
        with self._lock:
            opened = self._open.get(source)
            if opened is not None:
                self._open.move_to_end(source)
                return opened
        opened = source.reopen()
        self._add(source, opened)
        return opened

    def _add(self, source: _PooledSource, opened: Closable) -> None:
        with self._lock:
            self._open[source] = opened
            too_many = len(self._open) - self._limit
            for other in list(islice(self._open, too_many)) if too_many > 0 else ():
                if other.lock.acquire(blocking=False):  # otherwise it is being read, and stays open for a moment
                    self._open.pop(other).close()
                    other.lock.release()

    def __enter__(self) -> FilePool:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in self._open.values():
            opened.close()
        self._open.clear()


class _PooledSource:
    def __init__(self, pool: FilePool, opener: Callable[[], Closable], first: Closable) -> None:
        self.name, self.length, self.is_local = first.name, first.length, first.is_local
        self.limits, self.tag = first.limits, first.tag
        self.lock = threading.Lock()  #: held while reading; decoders read from their own threads
        self._pool, self._opener = pool, opener
        self._identity = _identity(first)

    def read(self, offset: int, length: int) -> bytes:
        with self.lock:
            return self._pool.ensure_open(self).read(offset, length)

    def descriptor(self) -> int | None:
        """Returns a descriptor that stays open when the pool closes the file; see ``Source.descriptor``."""
        with self.lock:
            return self._pool.ensure_open(self).descriptor()

    def reopen(self) -> Closable:
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
