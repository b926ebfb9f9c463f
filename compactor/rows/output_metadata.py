"""Computes the user metadata of a new ACID file after its rows are written."""

from __future__ import annotations

from collections.abc import Mapping

from compactor.acid.names import ACID_VERSION
from compactor.acid.row_id import RowId
from compactor.orc.assembler import WrittenFile
from compactor.orc.format.acid_metadata import user_metadata
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import LocalSource, Source, crc32
from compactor.orc.last_keys import last_key


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
