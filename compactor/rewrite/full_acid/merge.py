"""Merges runs of rows with overlapping keys batch by batch; sorts more rows than memory holds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import NotLossless
from compactor.orc.codecs.choice import with_codec
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.tail import Tail
from compactor.orc.format.tail_writer import Metadata, no_metadata
from compactor.orc.format.types import Types
from compactor.orc.pieces import Piece, piece_batches
from compactor.orc.reencode import encode_acid, require_one_zone, with_filters
from compactor.rows.keys import BUCKET, ROW_ID, WRITE_ID, KeyBlock, is_sorted, keys_of_events, sort_order

RUN_BYTES = 64 * 1024 * 1024  #: decoded bytes that are kept in memory and sorted at once
FAN_IN = 16  #: runs that are merged at once
Direction: TypeAlias = Literal["ascending", "descending"]
Column: TypeAlias = "pa.ChunkedArray"


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SortKey:
    """One column to sort by, in Arrow's order. The place of NULLs must not matter."""

    values: Column
    direction: Direction = "ascending"


SortKeys: TypeAlias = Callable[[pa.Table], Sequence[SortKey]]


class RowSorter:
    """Sorts the rows of batches with one schema. Rows with equal keys come in any order."""

    def __init__(self, folder: str, keys: SortKeys, *, run_bytes: int = RUN_BYTES, fan_in: int = FAN_IN) -> None:
        """``folder`` is an existing local directory; ``keys`` returns the columns to sort some rows by."""
        self._folder, self._keys = folder, keys
        self._run_bytes, self._fan_in = run_bytes, fan_in
        self._buffered: list[pa.RecordBatch] = []
        self._size = 0
        self._runs: list[str] = []
        self._run_count = 0
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows, which may be written to disk."""
        self._buffered.append(batch)
        self._size += batch.nbytes
        self.rows += batch.num_rows
        if self._size >= self._run_bytes:
            self._spill()

    def sorted(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows in order. It can be called once, and nothing can be added after it."""
        if not self._runs:
            yield from self._sort_buffered()
            return
        self._spill()
        while len(self._runs) > self._fan_in:
            first, self._runs = self._runs[: self._fan_in], self._runs[self._fan_in :]
            self._runs.append(self._write_run(self._merge_runs(first)))
            for path in first:
                os.unlink(path)
        yield from self._merge_runs(self._runs)

    def discard(self) -> None:
        """Removes the files on disk."""
        for name in os.listdir(self._folder):
            if name.startswith("run-"):
                os.unlink(os.path.join(self._folder, name))
        self._buffered, self._runs, self._size = [], [], 0

    def _spill(self) -> None:
        if self._buffered:
            self._runs.append(self._write_run(self._sort_buffered()))

    def _sort_buffered(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in memory, in batches so small that ``fan_in`` of them are as large as a run."""
        buffered, size = self._buffered, self._size
        self._buffered, self._size = [], 0
        if not buffered:
            return
        table = pa.Table.from_batches(buffered)
        rows = max(1, min(1 << 16, table.num_rows * self._run_bytes // self._fan_in // max(1, size)))
        order = self._order([table])
        for start in range(0, len(order), rows):
            yield _take_rows(table, order[start : start + rows])

    def _write_run(self, batches: Iterator[pa.RecordBatch]) -> str:
        path = os.path.join(self._folder, f"run-{self._run_count}")
        self._run_count += 1
        first = next(batches)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, first.schema, options=options) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
        return path

    def _merge_runs(self, runs: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Merges sorted runs, reading one batch of each at a time."""
        streams = {number: _read(path) for number, path in enumerate(runs)}
        buffers: dict[int, pa.Table] = {}
        while True:
            for number in [n for n in streams if n not in buffers]:
                batch = next(streams[number], None)
                if batch is None:
                    del streams[number]
                else:
                    buffers[number] = pa.Table.from_batches([batch])
            if not buffers:
                return
            numbers = sorted(buffers)
            tables = [buffers[number] for number in numbers]
            order = self._order(tables)
            ends = np.cumsum([table.num_rows for table in tables])
            # Take the rows up to the first last row of a run that continues: no unread row can precede them.
            bounds = [end - 1 for number, end in zip(numbers, ends, strict=True) if number in streams]
            limit = len(order) if not bounds else int(np.flatnonzero(np.isin(order, bounds))[0]) + 1
            taken = order[:limit]
            yield _take_rows(pa.concat_tables(tables), taken)
            counts = np.bincount(np.searchsorted(ends, taken, side="right"), minlength=len(numbers))
            for number, table, count in zip(numbers, tables, counts, strict=True):
                buffers[number] = table.slice(int(count))
                if not buffers[number].num_rows:
                    del buffers[number]

    def _order(self, tables: Sequence[pa.Table]) -> npt.NDArray[np.int64]:
        """Returns the sorted order of the rows of all tables, as places in their concatenation."""
        columns: dict[str, list[pa.Array]] = {}
        directions: list[tuple[str, Direction]] = []
        for table in tables:
            directions = []
            for place, key in enumerate(self._keys(table)):
                columns.setdefault(f"k{place}", []).extend(key.values.chunks)
                directions.append((f"k{place}", key.direction))
        together = pa.table({name: pa.chunked_array(chunks) for name, chunks in columns.items()})
        return np.asarray(pc.sort_indices(together, sort_keys=directions)).astype(np.int64)


def _read(path: str) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(path, "rb") as file, pa.ipc.open_stream(file) as reader:
        yield from reader


def _take_rows(table: pa.Table, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    batch: pa.RecordBatch = table.take(pa.array(places)).combine_chunks().to_batches()[0]
    return batch
