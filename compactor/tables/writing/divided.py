"""Divides the rows of a statement by partition and by the number of their file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from compactor.base.errors import NotSupported
from compactor.tables.writing.bucket_hashes import bucket_numbers
from compactor.tables.writing.insert_files import BATCH_ROWS, WaitingRows
from compactor.tables.writing.partition_values import divide_by_partition
from compactor.tables.writing.shape import Shape

PLAIN_ROWS = BATCH_ROWS * 16  #: rows of a stream that are fitted together


def join_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Joins the batches of a stream into parts of bounded size."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(other.num_rows for other in waiting) >= PLAIN_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def divide_rows(table: Shape, parts: Iterable[pa.Table], scratch: str) -> dict[str, dict[int, WaitingRows]]:
    """Divides fitted rows by partition name ("" for a table without partitions) and file number.

    Args:
        scratch: a directory for rows that do not fit into memory.
    """
    waiting: dict[str, dict[int, WaitingRows]] = {}
    for part in parts:
        for name, rows in divide_by_partition(table, part):
            for number, of_file in _by_bucket(table, rows):
                waiting.setdefault(name, {}).setdefault(number, WaitingRows()).add(of_file, scratch)
    return waiting


def _by_bucket(table: Shape, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yields the rows of each bucket. Rows of an unbucketed table are in file 0, like those of one writer of Hive.

    With several file numbers, Trino's UPDATE would leave both versions of a row (PROTOCOL 14.5).
    """
    if table.buckets <= 0 or not rows.num_rows:
        if rows.num_rows:
            yield 0, rows
        return
    types = {column.name.lower(): column.type for column in table.columns}
    names = [name.lower() for name in table.bucket_columns]
    places = [list(types).index(name) for name in names]
    arrays = [rows.column(place).combine_chunks() for place in places]
    try:
        numbers = bucket_numbers(arrays, [types[name] for name in names], table.buckets, version=_version(table))
    except NotSupported as error:
        raise NotSupported(f"{table}, bucketed by {', '.join(names)}: {error}") from error
    for number in np.unique(numbers).tolist():
        yield number, rows.filter(pa.array(numbers == number))


def _version(table: Shape) -> int:
    text = next((text for key, text in table.parameters.items() if key.lower() == "bucketing_version"), "1").strip()
    if text not in {"1", "2"}:
        raise NotSupported(f"bucketing_version is {text!r}; expected 1 or 2, otherwise the bucket of a row is unknown")
    return int(text)
