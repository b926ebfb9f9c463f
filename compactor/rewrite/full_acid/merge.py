"""Merges runs of rows with overlapping keys, batch by batch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from compactor.base.errors import NotLossless
from compactor.orc.codecs.choice import with_codec
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.tail import Tail
from compactor.orc.format.tail_writer import Metadata, no_metadata
from compactor.orc.format.types import Types
from compactor.orc.pieces import Piece, piece_batches
from compactor.orc.reencode import encode_acid, require_one_zone, with_filters
from compactor.rewrite.full_acid.row_sorter import RUN_BYTES, RowSorter, SortKey
from compactor.rows.keys import BUCKET, ROW_ID, WRITE_ID, KeyBlock, is_sorted, keys_of_events, sort_order


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRun:
    """The stripes of one input file. If ``is_sorted``, all their kept rows are in key order."""

    pieces: Sequence[Piece]
    is_sorted: bool


def merge_runs(
    runs: Sequence[MergeRun], path: str, *, like: Tail, types: Types, metadata: Metadata = no_metadata
) -> Tail:
    """Writes the rows of all runs in key order to a file at ``path``.

    A sorted run is streamed. Any other run is sorted first, if necessary with files next to ``path``.

    Raises:
        NotLossless: a key occurs twice. Readers show both rows, but a merge could not tell them apart.
    """
    zone = require_one_zone(path, [piece for run in runs for piece in run.pieces])

    def rows(codec: Codec) -> Iterator[pa.RecordBatch]:
        folder = os.path.dirname(path)
        yield from _in_key_order([_batches(run, codec, types, folder) for run in runs])

    def encode(filtered: frozenset[int]) -> Tail:
        return with_codec(
            [types, *(piece.tail.types for run in runs for piece in run.pieces)],
            lambda codec: encode_acid(
                rows(codec),
                path,
                like=like,
                types=types,
                metadata=metadata,
                codec=codec,
                filtered=filtered,
                zone=zone,
            ),
        )

    return with_filters(path, like, encode)


def _batches(run: MergeRun, codec: Codec, types: Types, folder: str) -> Iterator[pa.RecordBatch]:
    batches = (batch for piece in run.pieces for batch in piece_batches(piece, codec, types))
    if run.is_sorted:
        yield from batches
        return
    with tempfile.TemporaryDirectory(prefix="sorting-", dir=folder) as scratch:
        sorter = RowSorter(scratch, _sort_keys, run_bytes=RUN_BYTES)
        for batch in batches:
            sorter.add(batch)
        yield from sorter.sorted()


def _sort_keys(table: pa.Table) -> list[SortKey]:
    return [SortKey(values=table.column(place)) for place in (WRITE_ID, BUCKET, ROW_ID)]


def _in_key_order(runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merges sorted runs, reading one batch of each at a time."""
    buffers: dict[int, pa.Table] = {}
    live = dict(enumerate(runs))
    last: KeyBlock | None = None
    while live or buffers:
        # 1. Fill the buffer of each run that has more batches.
        for number in list(live):
            if number in buffers and buffers[number].num_rows:
                continue
            batch = next(live[number], None)
            if batch is None:
                del live[number]
                buffers.pop(number, None)
            else:
                buffers[number] = pa.Table.from_batches([batch])
        if not buffers:
            return
        blocks = {number: keys_of_events(table) for number, table in buffers.items()}
        # 2. Take the rows up to the smallest last key of the buffers: no unread row can precede them.
        limit = min((blocks[n][-1].item() for n in live), default=None)
        taken: list[pa.Table] = []
        for number, keys in blocks.items():
            count = len(keys) if limit is None else _up_to(keys, limit)
            taken.append(buffers[number].slice(0, count))
            buffers[number] = buffers[number].slice(count)
            if not buffers[number].num_rows and number not in live:
                del buffers[number]
        # 3. Sort what was taken.
        together = pa.concat_tables(taken).combine_chunks()
        keys = keys_of_events(together)
        by_key = sort_order(keys)
        keys = keys[by_key]
        _must_be_unique(keys if last is None else np.concatenate([last, keys]))
        last = keys[-1:]
        yield from together.take(pa.array(by_key)).to_batches()


def _up_to(block: KeyBlock, limit: tuple[int, int, int]) -> int:
    """Counts the keys of a sorted block not above ``limit``."""
    w, b, r = block["write_id"], block["bucket"], block["row_id"]
    below = (w < limit[0]) | ((w == limit[0]) & ((b < limit[1]) | ((b == limit[1]) & (r <= limit[2]))))
    return int(np.count_nonzero(below))


def _must_be_unique(block: KeyBlock) -> None:
    """Refuses a key that occurs twice.

    ``block`` is sorted, but its first key may equal or follow the second.
    """
    if len(block) > 1 and not is_sorted(block):
        write_id, bucket, row_id = block[int(np.argmax(block[1:] == block[:-1]))].item()
        raise NotLossless(
            f"a ROW__ID occurs twice among the rows of one file number (writeid {write_id}, bucketid {bucket}, rowid "
            f"{row_id}); it is not known which row a later delete means; find out which file is superfluous, or rewrite "
            "the partition with INSERT OVERWRITE"
        )
