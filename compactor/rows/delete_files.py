"""Reads the files of delete deltas of one file number, and writes one sorted file of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

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
from compactor.rows.delete_events import DeleteEvents
from compactor.rows.inputs import Input
from compactor.rows.keys import DELETE, KeyBlock, Numbers, valid_mask
from compactor.rows.output_metadata import OutputMetadata, written_file
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
