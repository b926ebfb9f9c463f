"""The offset of a mirror in an Iceberg snapshot's summary, and the file map that it names.

The summary has the mirror's and the table's id, the write IDs whose rows the snapshot shows, the metastore's newest token,
and the place and checksum of the file map. The map says which data file shows which file of the ACID table. It is a file
that never changes, written before the commit that names it: Iceberg's metadata repeats every summary.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import CompactorError, MirrorStopped
from compactor.base.ids import WriteId
from compactor.mirror.visible_rows import KeyRun
from compactor.storage.protocol import Storage

_PREFIX = "compactor."
MIRROR = f"{_PREFIX}mirror"
_TABLE, _WRITE_IDS, _TOKEN = f"{_PREFIX}table-id", f"{_PREFIX}write-ids", f"{_PREFIX}metastore-token"
_MAP, _MAP_SUM = f"{_PREFIX}file-map", f"{_PREFIX}file-map-sha256"
_FORMAT = 1


class DeleteFileEntry(NamedTuple):
    """A file of position deletes of one data file."""

    path: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredFile:
    """A data file of the mirror, and the file of the ACID table whose rows it has.

    After a compaction ``source`` is the file that holds these rows now, possibly with those of other data files.
    """

    location: str  #: the directory of the table or partition
    partition: str | None
    number: int  #: the file number
    source: str  #: relative to ``location``
    source_length: int
    low: WriteId  #: the write IDs of ``source`` lie in ``low..high``
    high: WriteId
    path: str  #: of the data file, as Iceberg names it
    rows: int
    deleted: int = 0  #: rows that position deletes hide
    keys: tuple[KeyRun, ...] | None = None
    is_whole: bool = True  #: no row of the source was left out, so that row numbers of both are the same
    is_original: bool = True  #: ``source`` is the file from which it was written
    deletes: tuple[DeleteFileEntry, ...] = ()

    @property
    def live(self) -> int:
        """The rows that readers see."""
        return self.rows - self.deleted

    def to_json(self) -> list[Any]:
        """Returns the values in the order of the fields, without names: a map has many of them."""
        return [
            self.source,
            self.source_length,
            self.low,
            self.high,
            self.path,
            self.rows,
            self.deleted,
            self.keys,
            int(self.is_whole),
            int(self.is_original),
            self.deletes,
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """The state of the table that a snapshot of a mirror shows."""

    mirror: str
    table_id: int
    write_ids: ValidWriteIdList
    token: tuple[int, str] | None  #: number and text of the metastore's newest token
    file_map: str  #: path relative to the mirror's location
    file_map_sum: str

    def to_summary(self) -> dict[str, str]:
        """Returns the properties of the snapshot's summary."""
        number, text = self.token or ("", "")
        return {
            MIRROR: self.mirror,
            _TABLE: str(self.table_id),
            _WRITE_IDS: str(self.write_ids),
            _TOKEN: f"{number}:{text}",
            _MAP: self.file_map,
            _MAP_SUM: self.file_map_sum,
        }


def parse_offset(summary: Mapping[str, str], what: str) -> Offset | None:
    """Returns the offset of a snapshot; None if the snapshot is not a mirror's.

    Raises:
        MirrorStopped: the summary is a mirror's, but damaged.
    """
    if summary.get(MIRROR) is None:
        return None
    try:
        number, _, text = summary[_TOKEN].partition(":")
        return Offset(
            mirror=summary[MIRROR],
            table_id=int(summary[_TABLE]),
            write_ids=ValidWriteIdList.parse(summary[_WRITE_IDS]),
            token=(int(number), text) if number else None,
            file_map=summary[_MAP],
            file_map_sum=summary[_MAP_SUM],
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise MirrorStopped(
            f"{what}: the summary of the newest snapshot is damaged ({type(error).__name__}: {error}); "
            "`compactor mirror rebuild` begins a new copy"
        ) from error


def encode_file_map(files: Iterable[MirroredFile]) -> bytes:
    """Returns the content of a file map."""
    places: dict[tuple[str, str | None, int], list[list[Any]]] = {}
    for file in files:
        places.setdefault((file.location, file.partition, file.number), []).append(file.to_json())
    content = {"format": _FORMAT, "places": [[*place, rows] for place, rows in places.items()]}
    return gzip.compress(json.dumps(content, separators=(",", ":")).encode(), compresslevel=1, mtime=0)


def decode_file_map(content: bytes) -> list[MirroredFile]:
    """Returns the data files of a file map.

    Raises:
        ValueError: the content is no file map of this release.
    """
    document = json.loads(gzip.decompress(content))
    if document["format"] != _FORMAT:
        raise ValueError(f"format {document['format']!r}, expected {_FORMAT}")
    return [
        MirroredFile(
            location=location,
            partition=partition,
            number=number,
            source=row[0],
            source_length=row[1],
            low=WriteId(row[2]),
            high=WriteId(row[3]),
            path=row[4],
            rows=row[5],
            deleted=row[6],
            keys=None if row[7] is None else tuple(KeyRun(*run) for run in row[7]),
            is_whole=bool(row[8]),
            is_original=bool(row[9]),
            deletes=tuple(DeleteFileEntry(*entry) for entry in row[10]),
        )
        for location, partition, number, rows in document["places"]
        for row in rows
    ]


def checksum(content: bytes) -> str:
    """Returns the checksum by which an offset knows its file map."""
    return hashlib.sha256(content).hexdigest()


def read_file_map(storage: Storage, location: str, offset: Offset, what: str) -> list[MirroredFile]:
    """Returns the data files that the snapshot of ``offset`` shows.

    Raises:
        MirrorStopped: the file map is gone or damaged.
    """
    path = f"{location}/{offset.file_map}"
    try:
        content = storage.read(path)
        if checksum(content) != offset.file_map_sum:
            raise ValueError("its checksum is another one")
        return decode_file_map(content)
    except (ValueError, KeyError, TypeError, IndexError, EOFError, OSError, CompactorError) as error:
        raise MirrorStopped(
            f"{what}: the file map {path} cannot be read ({error}); put it back, or begin a new copy with "
            "`compactor mirror rebuild`"
        ) from error


def with_deletes(file: MirroredFile, deletes: Sequence[DeleteFileEntry]) -> MirroredFile:
    """Returns ``file`` with further position deletes."""
    return replace(
        file,
        deletes=(*file.deletes, *deletes),
        deleted=file.deleted + sum(entry.rows for entry in deletes),
    )
