"""Reads the files of delete deltas of one file number, and writes one sorted file of events.

Readers apply the events in ``delete_delta_*/bucket_N`` only to the rows in ``bucket_N``, whatever the bucket property says.
Events for rows of another file have no effect in any reader, and none here (PROTOCOL 1.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import NotLossless
from compactor.orc.assembler import WrittenFile
from compactor.orc.codecs.choice import with_codec
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import Types
from compactor.orc.io.look_ahead import AHEAD
from compactor.orc.reencode import encode_acid
from compactor.rows.acid_file import AcidFile, Keys, open_files, stripe_keys
from compactor.rows.inputs import Input
from compactor.rows.keys import DELETE, KEY, KeyBlock, Mask, Numbers, is_sorted, row_id_at, sort_order, valid_mask
from compactor.rows.new_file import OutputMetadata, written_file
from compactor.rows.remote_source import LOCAL
from compactor.storage.protocol import Storage

BATCH_ROWS = 65_536
TOGETHER = 1024 * 1024  #: the most bytes of files that are open at once
Block: TypeAlias = tuple[KeyBlock, Numbers]  #: keys of delete events, and the deleting write ID of each


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsOfFiles:
    """The ``events`` that the snapshot sees, with the numbers of all and of ``invisible`` events.

    ``types`` are those of the last file with a complete ``row``, or None.
    """

    events: DeleteEvents
    total: int
    invisible: int
    tails: tuple[Tail, ...]
    types: Types | None


def load_events(
    location: str, sources: Sequence[Input], number: int, write_ids: ValidWriteIdList, storage: Storage = LOCAL
) -> EventsOfFiles:
    """Reads the delete events in these files.

    Raises:
        BadFile: a file cannot be read.
        NotLossless: a delete delta holds anything but delete events.
    """
    blocks: list[Block] = []
    tails: list[Tail] = []
    total = invisible = 0
    for tail, events in stored_events(location, sources, number, storage):
        tails.append(tail)
        for keys in events:
            valid = valid_mask(write_ids, keys.current)
            total += len(valid)
            invisible += int(np.count_nonzero(~valid))
            blocks.append((keys.block[valid], keys.current[valid]))
    whole = [t.types for t in tails if len(t.types.row) > 1]
    return EventsOfFiles(
        events=DeleteEvents.from_blocks(blocks),
        total=total,
        invisible=invisible,
        tails=tuple(tails),
        types=whole[-1] if whole else None,
    )


def stored_events(
    location: str, sources: Sequence[Input], number: int, storage: Storage = LOCAL
) -> Iterator[tuple[Tail, Iterator[Keys]]]:
    """Yields each file's tail and all its events, visible or not, in file order.

    A file is open until the next one. Small files are opened together.

    Raises:
        BadFile: a file cannot be read.
        NotLossless: a delete delta holds anything but delete events.
    """
    for together in _group_neighbours(sources):
        with open_files(location, together, number, storage) as files:
            for file in files:
                if file.is_raw:
                    raise NotLossless(
                        f"{file.path}: expected delete events, found rows without ACID columns; move it away"
                    )
                yield file.tail, _read_deletes(file)


def _group_neighbours(sources: Sequence[Input]) -> Iterator[list[Input]]:
    """Groups neighbouring files of up to ``TOGETHER`` bytes in total. Larger files stay alone."""
    group: list[Input] = []
    for source in sources:
        if group and (len(group) == AHEAD or sum(neighbour.length for neighbour in group) + source.length > TOGETHER):
            yield group
            group = []
        group.append(source)
    if group:
        yield group


def _read_deletes(file: AcidFile) -> Iterator[Keys]:
    for stripe in range(len(file.tail.stripes)):
        for keys in stripe_keys(file, stripe):
            if np.any(keys.operation != DELETE):
                raise NotLossless(f"{file.path}: expected delete events only (operation 2), found others")
            yield keys


def visible_events(
    location: str, sources: Sequence[Input], number: int, write_ids: ValidWriteIdList, storage: Storage = LOCAL
) -> Iterator[Block]:
    """Yields the ``stored_events`` that the snapshot sees: keys and deleting write IDs."""
    for _, events in stored_events(location, sources, number, storage):
        for keys in events:
            valid = valid_mask(write_ids, keys.current)
            yield keys.block[valid], keys.current[valid]


class Events(Protocol):
    """Delete events in key order, read in parts."""

    def __len__(self) -> int: ...

    def part(self, start: int, stop: int) -> DeleteEvents:
        """Returns the events from position ``start`` to before ``stop``."""


def write_events(
    events: Events, path: str, *, like: Tail, types: Types, output_metadata: OutputMetadata | None = None
) -> WrittenFile:
    """Writes a file of delete events in key order, each with a null row, as Hive does.

    Args:
        output_metadata: that of delete events; afterwards it has the file's last keys.
    """
    metadata = (output_metadata or OutputMetadata(deletes=True)).compute

    def batches(codec: Codec) -> Iterator[pa.RecordBatch]:
        schema = codec.schema(types)
        for start in range(0, len(events), BATCH_ROWS):
            yield _batch(events.part(start, min(start + BATCH_ROWS, len(events))), schema)

    tail = with_codec(
        [types],
        lambda codec: encode_acid(batches(codec), path, like=like, types=types, metadata=metadata, codec=codec),
    )
    return written_file(path, tail)


def _batch(events: DeleteEvents, schema: pa.Schema) -> pa.RecordBatch:
    block, current, rows = events.keys, events.current, len(events)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(rows, DELETE, dtype=np.int32)),
            pa.array(block["write_id"].copy()),
            pa.array(block["bucket"].copy()),
            pa.array(block["row_id"].copy()),
            pa.array(current.astype(np.int64)),
            pa.nulls(rows, schema.field(5).type),
        ],
        schema=schema,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEvents:
    """The sorted ``keys`` of deleted rows, with the deleting write ID of each in ``current``."""

    keys: KeyBlock
    current: Numbers

    @classmethod
    def from_blocks(cls, blocks: Iterable[tuple[KeyBlock, Numbers]]) -> DeleteEvents:
        """Returns all events of some blocks, which may be in any order."""
        parts = list(blocks)
        keys = np.concatenate([k for k, _ in parts]) if parts else np.empty(0, dtype=KEY)
        current = np.concatenate([c for _, c in parts]) if parts else np.empty(0, dtype=np.int64)
        by_key = sort_order(keys)
        return cls(keys=keys[by_key], current=current[by_key])

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, stop: int) -> DeleteEvents:
        """Returns the events from position ``start`` to before ``stop``."""
        return DeleteEvents(keys=self.keys[start:stop], current=self.current[start:stop])

    def any_between(self, low: RowId, high: RowId) -> bool:
        """Returns true if some event's key is in ``low..high``, both inclusive."""
        return self._position(low, after=False) < self._position(high, after=True)

    def _position(self, key: RowId, *, after: bool) -> int:
        """Returns the number of events before ``key`` (with ``after``, up to it), by binary searches."""
        low, high = 0, len(self.keys)
        for field, value in (("write_id", key.write_id), ("bucket", key.bucket)):
            column = self.keys[field][low:high]
            low, high = (
                low + int(np.searchsorted(column, value, side="left")),
                low + int(np.searchsorted(column, value, side="right")),
            )
        rows = self.keys["row_id"][low:high]
        return low + int(np.searchsorted(rows, key.row_id, side="right" if after else "left"))

    def hits(self, block: KeyBlock) -> Mask:
        """Returns the mask of the rows of ``block`` that are deleted."""
        mask: Mask = np.zeros(len(block), dtype=np.bool_)
        if not len(self.keys) or not len(block):
            return mask
        in_order = is_sorted(block)
        ends = block if in_order else block[sort_order(block)[[0, -1]]]
        first, last = row_id_at(ends, 0), row_id_at(ends, len(ends) - 1)
        events = self.keys[self._position(first, after=False) : self._position(last, after=True)]
        if not len(events):
            return mask
        if not in_order or first[:2] != last[:2]:
            return _among(block, events)
        # These are one statement's rows: events between its first and last row differ only in the row number.
        rows = block["row_id"]
        places = np.searchsorted(rows, events["row_id"])
        mask[places[rows[places] == events["row_id"]]] = True
        return mask

    def row_ids(self, first: RowId, last: RowId) -> Numbers:
        """Returns the deleted row numbers in ``first..last``, keys of one write ID and bucket.

        Some may repeat.
        """
        numbers: Numbers = self.keys["row_id"][self._position(first, after=False) : self._position(last, after=True)]
        return numbers

    def newest(self, block: KeyBlock) -> Numbers:
        """Returns for each row of ``block`` the largest write ID of its events; -1 without events."""
        low, high = _ends(block)
        first, last = self._position(low, after=False), self._position(high, after=True)
        keys, current = self.keys[first:last], self.current[first:last]
        both = np.concatenate([keys, block])
        by_key = sort_order(both)
        sorted_keys = both[by_key]
        begins = np.ones(len(both), dtype=np.bool_)
        begins[1:] = sorted_keys[1:] != sorted_keys[:-1]
        values = np.concatenate([current, np.full(len(block), -1, dtype=np.int64)])[by_key]
        largest = np.maximum.reduceat(values, np.flatnonzero(begins))[np.cumsum(begins) - 1]
        largest_by_row: Numbers = np.empty(len(both), dtype=np.int64)
        largest_by_row[by_key] = largest
        return largest_by_row[len(keys) :]


def _ends(block: KeyBlock) -> tuple[RowId, RowId]:
    """Returns the smallest and the largest key of a block that is not empty."""
    ends = block if is_sorted(block) else block[sort_order(block)[[0, -1]]]
    return row_id_at(ends, 0), row_id_at(ends, len(ends) - 1)


def _among(block: KeyBlock, events: KeyBlock) -> Mask:
    """Returns the mask of the keys of ``block`` that are in ``events``, by sorting both together."""
    both = np.concatenate([events, block])
    by_key = sort_order(both)
    keys = both[by_key]
    begins = np.ones(len(keys), dtype=np.bool_)
    begins[1:] = keys[1:] != keys[:-1]
    # The sort is stable: a group of equal keys that has an event begins with it.
    deleted = (by_key[begins] < len(events))[np.cumsum(begins) - 1]
    mask: Mask = np.empty(len(both), dtype=np.bool_)
    mask[by_key] = deleted
    return mask[len(events) :]
