"""The last act on an encoded ACID file: its user metadata, computed from the rows that stand in it."""

from __future__ import annotations

from collections.abc import Mapping

from compactor.acid.names import ACID_VERSION
from compactor.acid.row_id import RowId
from compactor.orc.assembler import Written
from compactor.orc.format.acid_metadata import user_metadata
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import LocalSource, Source, crc32
from compactor.orc.reencode import last_key


class Seal:
    """What the metadata of one file say; an encoder asks for them when all rows are written.

    Args:
        deletes: the rows are delete events.
        version: of ACID, what the metadata say; None says nothing.
    """

    def __init__(self, *, deletes: bool = False, version: bytes | None = ACID_VERSION) -> None:
        self._deletes, self._version = deletes, version
        self.last_keys: list[RowId] = []  #: of each stripe

    def metadata(self, source: Source, tail: Tail, last: RowId | None) -> Mapping[str, bytes]:
        """See ``tail_writer.Metadata``."""
        stripes = range(len(tail.stripes))
        sought = stripes if last is None else stripes[:-1]
        self.last_keys = [last_key(source, tail, stripe) for stripe in sought] + ([] if last is None else [last])
        inserts, deletes = (0, tail.rows) if self._deletes else (tail.rows, 0)
        return user_metadata(self.last_keys, inserts=inserts, deletes=deletes, version=self._version)


def written(path: str, tail: Tail) -> Written:
    """The finished file at ``path``, whose tail is ``tail``."""
    with LocalSource(path) as source:
        checksum = crc32(source, 0, source.length)
        return Written(length=source.length, rows=tail.rows, stripes=len(tail.stripes), checksum=checksum)
