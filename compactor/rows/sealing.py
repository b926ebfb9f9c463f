"""The last act on an encoded ACID file: its user metadata, computed from the rows that stand in it."""

from __future__ import annotations

import zlib

from compactor.acid.names import ACID_VERSION
from compactor.acid.row_id import RowId
from compactor.orc.acid_metadata import user_metadata
from compactor.orc.assembler import Written
from compactor.orc.reencode import last_key
from compactor.orc.source import CHUNK, LocalSource
from compactor.orc.tail import Tail
from compactor.orc.tail_writer import seal
from compactor.orc.types import Types


def seal_rows(
    path: str, tail: Tail, *, like: Tail, types: Types, version: bytes | None = ACID_VERSION
) -> tuple[Written, list[RowId]]:
    """Gives the file at ``path`` the metadata of inserts, and returns the last key of each stripe."""
    return _seal(path, tail, like, types, inserts=tail.rows, version=version)


def seal_deletes(path: str, tail: Tail, *, like: Tail, types: Types) -> tuple[Written, list[RowId]]:
    """Gives the file at ``path`` the metadata of delete events."""
    return _seal(path, tail, like, types, deletes=tail.rows)


def _seal(
    path: str,
    tail: Tail,
    like: Tail,
    types: Types,
    *,
    inserts: int = 0,
    deletes: int = 0,
    version: bytes | None = ACID_VERSION,
) -> tuple[Written, list[RowId]]:
    with LocalSource(path) as source:
        last_keys = [last_key(source, tail, stripe) for stripe in range(len(tail.stripes))]
    sealed = seal(path, like, types, user_metadata(last_keys, inserts=inserts, deletes=deletes, version=version))
    checksum = 0
    with LocalSource(path) as source:
        for offset in range(0, source.length, CHUNK):
            checksum = zlib.crc32(source.read(offset, min(CHUNK, source.length - offset)), checksum)
        written = Written(length=source.length, rows=sealed.rows, stripes=len(sealed.stripes), checksum=checksum)
    return written, last_keys
