"""Sorts more rows than memory holds: writes sorted runs to disk and merges a few at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

RUN_BYTES = 64 * 1024 * 1024  #: decoded bytes that are kept in memory and sorted at once
FAN_IN = 16  #: runs that are merged at once
Direction: TypeAlias = Literal["ascending", "descending"]
Column: TypeAlias = "pa.ChunkedArray"


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
