"""Merges runs of rows that do not follow each other in key order, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from compactor.errors import NotLossless
from compactor.orc.codec import Codec
from compactor.orc.reencode import Piece, encode_acid, piece_batches, with_codec
from compactor.orc.tail import Tail
from compactor.orc.types import Types
from compactor.rows.keys import BUCKET, ROW_ID, WRITE_ID, KeyBlock, is_sorted, key_block, numbers, order

BATCH_ROWS = 65_536


def merge(runs: Sequence[Sequence[Piece]], path: str, *, like: Tail, types: Types) -> Tail:
    """The rows of all runs in key order as a file at ``path``; each run's pieces are one input file's stripes.

    A run that is sorted within is streamed; one that is not is sorted in memory first.

    Raises:
        NotLossless: a key occurs twice, which readers show as two rows and a merge could not tell apart.
    """

    def rows(codec: Codec) -> Iterator[pa.RecordBatch]:
        yield from _in_key_order([_sorted_run(run, codec, types) for run in runs])

    return with_codec(
        [types, *(piece.tail.types for run in runs for piece in run)],
        lambda codec: encode_acid(rows(codec), path, like=like, types=types, codec=codec),
    )


def _sorted_run(run: Sequence[Piece], codec: Codec, types: Types) -> Iterator[pa.RecordBatch]:
    batches = [batch for piece in run for batch in piece_batches(piece, codec, types)]
    if not batches:
        return
    table = pa.Table.from_batches(batches).combine_chunks()
    block = _keys(table)
    if not is_sorted(block):
        table = table.take(pa.array(order(block)))
    yield from table.to_batches(max_chunksize=BATCH_ROWS)


def _in_key_order(runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Takes from every run what is not above the smallest last key of the buffered batches, sorts and yields it."""
    buffers: dict[int, pa.Table] = {}
    live = dict(enumerate(runs))
    last: KeyBlock | None = None
    while live or buffers:
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
        blocks = {number: _keys(table) for number, table in buffers.items()}
        # Of the runs that go on, nothing above their buffered last key is known yet.
        limit = min((blocks[n][-1].item() for n in live), default=None)
        taken: list[pa.Table] = []
        for number, block in blocks.items():
            count = len(block) if limit is None else _up_to(block, limit)
            taken.append(buffers[number].slice(0, count))
            buffers[number] = buffers[number].slice(count)
            if not buffers[number].num_rows and number not in live:
                del buffers[number]
        together = pa.concat_tables(taken).combine_chunks()
        block = _keys(together)
        by_key = order(block)
        block = block[by_key]
        _no_twice(block if last is None else np.concatenate([last, block]))
        last = block[-1:]
        yield from together.take(pa.array(by_key)).to_batches()


def _up_to(block: KeyBlock, limit: tuple[int, int, int]) -> int:
    """How many keys of a sorted block are not above ``limit``."""
    w, b, r = block["write_id"], block["bucket"], block["row_id"]
    below = (w < limit[0]) | ((w == limit[0]) & ((b < limit[1]) | ((b == limit[1]) & (r <= limit[2]))))
    return int(np.count_nonzero(below))


def _no_twice(block: KeyBlock) -> None:
    if len(block) > 1 and not is_sorted(block):
        raise NotLossless(
            "a ROW__ID occurs twice among the rows of one file number; which row a later delete means is not known; "
            "rewrite the partition with INSERT OVERWRITE"
        )


def _keys(table: pa.Table) -> KeyBlock:
    return key_block(
        numbers(table.column(WRITE_ID)),
        numbers(table.column(BUCKET)).astype(np.int32),
        numbers(table.column(ROW_ID)),
    )
