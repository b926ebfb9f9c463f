"""Computes the checksum of a growing file while it is written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from isal import isal_zlib

from compactor.orc.io.source import Source

PIECE = 1024 * 1024  #: bytes that are read and added at a time: they stay in the processor's cache in between
_WAITING = 64  #: parts that may wait; then the writer waits, so that memory is bounded


class RunningChecksum:
    """The CRC-32 of parts that are added one after another.

    While the kernel copies ranges of files, a separate thread reads them again. Reading them from the page cache and adding
    them up takes as long as copying, and ISA-L releases the interpreter's lock. The thread starts with the first range. To
    abandon the checksum, ``close`` it before the sources.
    """

    def __init__(self) -> None:
        self._value = 0
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()
        self.is_closed = False

    def add(self, data: bytes) -> None:
        """Adds bytes in memory."""
        if self._thread is None:
            self._take(data)
        else:
            self._later(self._thread, self._take, data)

    def add_range(self, source: Source, offset: int, length: int) -> None:
        """Adds ``length`` bytes of ``source``, which must stay open until ``value`` or ``close``."""
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="checksum")
        self._later(self._thread, self._read, source, offset, length)

    def value(self) -> int:
        """Returns the checksum of all parts.

        Raises:
            BadFile: a source is shorter than its range.
        """
        while self._waiting:
            self._waiting.popleft().result()
        self.close()
        return self._value

    def close(self) -> None:
        """Releases the sources, even if they are not read completely."""
        self.is_closed = True
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def _later(self, thread: ThreadPoolExecutor, what: Callable[..., None], *arguments: Any) -> None:
        if len(self._waiting) == _WAITING:
            self._waiting.popleft().result()
        self._waiting.append(thread.submit(what, *arguments))

    def _take(self, data: bytes) -> None:
        self._value = isal_zlib.crc32(data, self._value)

    def _read(self, source: Source, offset: int, length: int) -> None:
        end = offset + length
        while offset < end and not self.is_closed:
            data = source.read(offset, min(PIECE, end - offset))
            self._take(data)
            offset += len(data)
