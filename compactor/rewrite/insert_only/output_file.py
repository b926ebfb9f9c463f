"""A finished file of an insert-only table, and the sink that measures the bytes written to it."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from isal import isal_zlib

from compactor.acid.row_figures import RowFigures
from compactor.orc.io.source import LocalSink
from compactor.storage.capabilities import TakenRange


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedFile:
    """``path`` is absolute, ``length`` in bytes. ``copied`` and ``encoded`` count stripes or row groups."""

    path: str
    rows: int
    length: int
    crc32: int | None  #: None if not every byte was seen here
    copied: int = 0
    encoded: int = 0
    bytes_copied: int = 0
    bytes_taken_over: int = 0
    ranges: tuple[TakenRange, ...] = ()  #: that the store takes over
    ending: str = ""  #: of the name, with its dot; readers choose a codec by it
    row_figures: RowFigures | None = None


class CountingSink:
    """A new local file that measures the length and checksum of its bytes.

    An exception in its block removes it.
    """

    def __init__(self, path: str) -> None:
        self._sink = LocalSink(path, stays=True)
        self.length = 0
        self.crc32 = 0

    def write(self, data: bytes) -> None:
        self._sink.write(data)
        self.length += len(data)
        self.crc32 = isal_zlib.crc32(data, self.crc32)

    def __enter__(self) -> CountingSink:
        self._sink.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.__exit__(kind, error, trace)
