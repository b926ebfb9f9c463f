"""A slow, plain reader of a registered table, against which our own reader and the compactor are checked.

It shares with the product what a snapshot sees (``acid``, ``metastore``) and nothing of how rows are read: every row goes
through pyorc as a Python tuple, and events meet in a dictionary.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyorc
from pyorc.converters import ORCConverter

from compactor.acid.bucket import RowId, encode
from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import DataFile
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.metastore.catalog.values import Table
from compactor.metastore.metastore import Metastore
from compactor.storage.local import LocalStorage
from tests.support.expected import HIVE_NULL_PARTITION, render

INSERT, UPDATE, DELETE = 0, 1, 2

Event = tuple[int, bool, tuple[Any, ...] | None]  #: write ID of the event, whether it is a delete, the row


class _Days(ORCConverter):
    """Dates as day numbers, since Python's dates end at the year 1."""

    @staticmethod
    def to_orc(obj: Any, timezone: Any) -> Any:
        raise AssertionError("the oracle writes nothing")

    @staticmethod
    def from_orc(days: int) -> int:
        return days


class _Timestamps(ORCConverter):
    """Timestamps as seconds and nanoseconds."""

    @staticmethod
    def to_orc(obj: Any, timezone: Any) -> Any:
        raise AssertionError("the oracle writes nothing")

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: datetime.tzinfo) -> tuple[int, int]:
        return seconds, nanoseconds


_CONVERTERS = {pyorc.TypeKind.DATE: _Days, pyorc.TypeKind.TIMESTAMP: _Timestamps}


def read_lines(
    metastore: Metastore, table: Table, *, txns: ValidTxnList | None = None, null_partition: str = HIVE_NULL_PARTITION
) -> list[tuple[RowId, str]]:
    """Returns all rows with their ROW__IDs, rendered like ``Expected.row_ids`` and sorted; as seen now, or in ``txns``."""
    table = metastore.catalog.table(table.database, table.name)
    snapshot = txns or metastore.transactions.snapshot()
    write_ids = metastore.write_ids.valid(table.database, table.name, snapshot)
    types = [column.type for column in table.columns]
    places: list[tuple[str, tuple[str, ...]]] = [(table.location, ())]
    if table.is_partitioned:
        places = [(part.location, part.values) for part in metastore.catalog.partitions(table)]
    lines = []
    for location, values in places:
        suffix = [null_partition if value == HIVE_NULL_PARTITION else value for value in values]
        for row_id, row in read_directory(Path(urlparse(location).path), write_ids, snapshot):
            # a column that was added later is NULL in older files
            padded = (*row, *(None for _ in types[len(row) :]))
            cells = [render(value, kind) for value, kind in zip(padded, types, strict=True)]
            lines.append((row_id, "\t".join([*cells, *suffix])))
    return sorted(lines)


def read_directory(
    path: Path, write_ids: ValidWriteIdList, txns: ValidTxnList
) -> Iterator[tuple[RowId, tuple[Any, ...]]]:
    """Yields the rows of one table's or partition's directory under a snapshot, file number by file number."""
    directory = acid_directory(LocalStorage().listing(str(path)), write_ids, txns)
    assert directory.unparsable == (), directory.unparsable
    for number, files in sorted(_by_number(directory).items()):
        yield from _merge(path, number, files, write_ids)


def _by_number(directory: AcidDirectory) -> dict[int, list[DataFile]]:
    numbers: defaultdict[int, list[DataFile]] = defaultdict(list)
    sources = ([directory.base] if directory.base else []) + list(directory.deltas)
    for file in [*directory.originals, *(file for source in sources for file in source.files)]:
        numbers[file.number].append(file)
    return numbers


def _merge(
    path: Path, number: int, files: list[DataFile], write_ids: ValidWriteIdList
) -> Iterator[tuple[RowId, tuple[Any, ...]]]:
    events: defaultdict[RowId, list[Event]] = defaultdict(list)
    originals = 0
    for file in files:
        with (path / file.path).open("rb") as stream:
            for cells in pyorc.Reader(stream, converters=_CONVERTERS):
                if file.raw:
                    assert isinstance(cells, tuple)
                    events[RowId(WriteId(0), encode(number), originals)].append((0, False, cells))
                    originals += 1
                    continue
                operation, original, bucket, row_number, current, row = cells
                if write_ids.is_valid(WriteId(current)):
                    key = RowId(WriteId(original), bucket, row_number)
                    events[key].append((current, operation == DELETE, row))
    for key, found in events.items():
        # the newest event counts; a delete also beats an insert of its own transaction
        _, deleted, row = max(found, key=lambda event: event[:2])
        if not deleted:
            assert row is not None
            yield key, row
