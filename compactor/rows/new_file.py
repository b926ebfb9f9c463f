"""Writes a new file, except for ranges that its file system or store takes over from other files.

Ranges of an object store are holes in the local file until it is uploaded. ``NewFile.reading`` reads them from their source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from compactor.acid.bucket import RowId
from compactor.acid.names import ACID_VERSION
from compactor.orc.assembler import WrittenFile
from compactor.orc.format.acid_metadata import user_metadata
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import LocalSink, LocalSource, Source, crc32
from compactor.orc.last_keys import last_key
from compactor.settings.file_limits import UNLIMITED
from compactor.storage.capabilities import TakenRange, TakingOver, pieces
from compactor.storage.protocol import Storage

_HEAD = 16  #: bytes at the start of a file that a range may bring along if its source starts alike: ORC's magic
_WHOLE = 1.1  #: the most bytes of a whole file per byte of the range; the others are its tail, and stay as padding
_END = 1024  #: bytes at the end of a range that are compared later; a stripe ends with its footer, which was read


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFileTarget:
    """The local path of a new file for the directory ``home`` of a store.

    If this process must see all bytes (``sees_all``), nothing is taken over.
    """

    storage: Storage
    home: str
    path: str
    sees_all: bool = False

    def sink(self) -> NewFile:
        """Creates the file."""
        terms = None if self.sees_all else self.storage.taking_over(self.home)
        if self.storage.local_path(self.home) is None:
            return NewFile(self.path, terms=terms, place=_place(self.home))
        return NewFile(self.path, shares=None if terms is None else terms.smallest)


class NewFile(LocalSink):
    """A sink for a file whose store takes over ``ranges``.

    Leaving a ``with`` block closes it, an exception aborts it.

    Args:
        shares: see ``LocalSink``.
        terms: of the file's store; None if it takes nothing over.
        place: the scheme and bucket of that store.
    """

    def __init__(
        self, path: str, *, shares: int | None = None, terms: TakingOver | None = None, place: str = ""
    ) -> None:
        super().__init__(path, stays=True, shares=shares)
        self.path = path
        self.ranges: list[TakenRange] = []
        self._sources: dict[str, Source] = {}
        self._head = b""
        self._terms, self._place = terms, place

    def take_over(self, source: Source, offset: int, length: int, *, whole: bool = False) -> int | None:
        terms, tag = self._terms, source.tag
        if terms is None or tag is None or _place(source.name) != self._place:
            return super().take_over(source, offset, length, whole=whole)
        if length < terms.smallest or (terms.whole and not whole):
            return None
        position, start = self.tell(), 0 if terms.whole else offset
        end = source.length if terms.whole else offset + length
        if end - start > _WHOLE * length:
            return None
        if not self.ranges and start <= position <= min(offset, _HEAD) and source.read(0, position) == self._head:
            position = start = 0  # the few bytes before the range would cost some stores a request or megabytes
        self.skip(position + end - start - self.tell())
        self._sources[source.name] = source
        last = source.read(max(start, end - _END), min(_END, end - start))
        self.ranges.append(
            TakenRange(position=position, length=end - start, source=source.name, offset=start, tag=tag, last=last)
        )
        return position + offset - start

    def reading(self) -> LocalSource | WrittenSource:
        """Opens the finished file, whose sources must still be open; the caller closes it."""
        return WrittenSource(self.path, self.ranges, self._sources) if self.ranges else LocalSource(self.path)

    def write(self, data: bytes) -> None:
        if self.tell() < _HEAD:
            self._head += data
        super().write(data)

    def __enter__(self) -> NewFile:
        return self


def _place(path: str) -> str:
    """Returns the scheme and bucket of a path."""
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


class WrittenSource:
    """The local file at ``path``, with its ranges read from their ``sources``. The caller closes it."""

    is_local = False
    tag = None
    limits = UNLIMITED

    def __init__(self, path: str, ranges: Sequence[TakenRange], sources: Mapping[str, Source]) -> None:
        self.name = path
        self._ranges, self._sources = ranges, sources
        self._local = LocalSource(path)
        self.length = self._local.length

    def read(self, offset: int, length: int) -> bytes:
        return b"".join(
            self._local.read(start, end - start)
            if taken is None
            else self._sources[taken.source].read(taken.offset, taken.length)
            for start, end, taken in pieces(self._ranges, offset, offset + length)
        )

    def descriptor(self) -> int | None:
        return None

    def close(self) -> None:
        self._local.close()

    def __enter__(self) -> WrittenSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class OutputMetadata:
    """The user metadata of one file, which an encoder requests once all rows are written.

    Args:
        deletes: the rows are delete events.
        version: the ACID version to record; None records none.
    """

    def __init__(self, *, deletes: bool = False, version: bytes | None = ACID_VERSION) -> None:
        self._deletes, self._version = deletes, version
        self.last_keys: list[RowId] = []  #: one per stripe

    def compute(self, source: Source, tail: Tail, last: RowId | None) -> Mapping[str, bytes]:
        """Returns the entries; see ``tail_writer.Metadata``."""
        stripes = range(len(tail.stripes))
        sought = stripes if last is None else stripes[:-1]
        self.last_keys = [last_key(source, tail, stripe) for stripe in sought] + ([] if last is None else [last])
        inserts, deletes = (0, tail.rows) if self._deletes else (tail.rows, 0)
        return user_metadata(self.last_keys, inserts=inserts, deletes=deletes, version=self._version)


def written_file(path: str, tail: Tail) -> WrittenFile:
    """Describes the finished file at ``path`` with the tail ``tail``."""
    with LocalSource(path) as source:
        checksum = crc32(source, 0, source.length)
        return WrittenFile(length=source.length, rows=tail.rows, stripes=len(tail.stripes), checksum=checksum)
