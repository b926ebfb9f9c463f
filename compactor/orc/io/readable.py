"""The seekable file objects that decoders read from."""

from __future__ import annotations

import io
from abc import abstractmethod

from compactor.orc.io.source import Source


class Readable(io.RawIOBase):
    """A file of a known size; subclasses provide its bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size  #: in bytes
        self._place = 0

    @abstractmethod
    def part(self, start: int, end: int) -> bytes:
        """Returns the bytes from ``start`` to before ``end``, both within the file."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        remaining = max(0, self.size - self._place)
        count = remaining if size is None or size < 0 else min(size, remaining)
        data = self.part(self._place, self._place + count)
        self._place += count
        return data


class SourceFile(Readable):
    """The first ``size`` bytes of a source."""

    def __init__(self, source: Source, size: int) -> None:
        super().__init__(size)
        self._source = source

    def part(self, start: int, end: int) -> bytes:
        return self._source.read(start, end - start)
