"""Writes the rows of a statement, divided by partition and file number, to one file each.

Rows wait in memory, or in temporary files beyond ``IN_MEMORY`` bytes, until all are there. Only then is it known which codec
writes them without loss, and which columns can have bloom filters.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa

from compactor.acid import bucket
from compactor.acid.names import BucketFile, DeltaKind
from compactor.base.ids import WriteId
from compactor.orc.assembler import WrittenFile
from compactor.orc.codecs.choice import with_codec
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import Tail, empty_tail
from compactor.orc.format.types import Types, acid_types
from compactor.orc.reencode import encode_acid, with_filters
from compactor.rewrite.full_acid.output_format import new_tail, output_of
from compactor.rewrite.plan.unit import Output
from compactor.rows.keys import INSERT
from compactor.rows.output_metadata import OutputMetadata, written_file
from compactor.settings.output_class import OutputClass
from compactor.tables.writing.encodable import to_encodable
from compactor.tables.writing.hybrid import to_hybrid_calendar
from compactor.tables.writing.shape import Shape

IN_MEMORY = 64 * 1024 * 1024
BATCH_ROWS = 65_536


class WaitingRows:
    """Rows of one file, with the table's columns, that wait to be written."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled: list[Path] = []
        self.rows = 0

    def add(self, rows: pa.Table, scratch: str) -> None:
        """Adds rows; if too many wait for the memory, moves all of them to a file in ``scratch``."""
        self._batches += rows.to_batches(max_chunksize=BATCH_ROWS)
        self._bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._bytes > IN_MEMORY:
            self._spill(scratch)

    def take(self, others: WaitingRows, scratch: str) -> None:
        """Takes over the rows of ``others``, which must not be used afterwards."""
        if others._spilled:
            self._spill(scratch)
        self._spilled += others._spilled
        self._batches += others._batches
        self._bytes += others._bytes
        self.rows += others.rows
        if self._bytes > IN_MEMORY:
            self._spill(scratch)

    def _spill(self, scratch: str) -> None:
        for schema, batches in groupby(self._batches, key=lambda batch: batch.schema):  # timestamp units may differ
            with tempfile.NamedTemporaryFile(dir=scratch, suffix=".arrow", delete=False) as file:
                with pa.ipc.new_stream(file, schema) as stream:
                    for batch in batches:
                        stream.write_batch(batch)
                self._spilled.append(Path(file.name))
        self._batches, self._bytes = [], 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows in the order in which they were added; can be called repeatedly."""
        for path in self._spilled:
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
                yield from stream
        yield from self._batches


def write_inserts(
    folder: str,
    table: Shape,
    waiting: WaitingRows,
    *,
    write_id: WriteId,
    statement_id: int,
    number: int,
    first_row: int = 0,
    calendar: int = 0,
) -> Output:
    """Writes rows as ``bucket_<number>`` in the local directory ``folder``, numbered from ``first_row``.

    Args:
        calendar: the number of the Julian calendar in the footer, or 0 for none, which Hive also takes for Julian.

    Raises:
        NotLossless: a value cannot be written as the table's type.
        StorageError: the file cannot be written.
    """
    types = acid_types(parse_hive_type(table.row_type))
    path = f"{folder}/{BucketFile(number=number).name}"
    like = new_tail(empty_tail(types, calendar=calendar), types, OutputClass.from_table(table.parameters))
    written = encode_inserts(
        path,
        waiting.batches,
        types,
        like,
        write_id=write_id,
        bucket_property=bucket.encode(number, statement_id),
        first_row=first_row,
    )
    return output_of(DeltaKind.INSERT, path, number, written)


def encode_inserts(
    path: str,
    rows: Callable[[], Iterable[pa.RecordBatch]],
    types: Types,
    like: Tail,
    *,
    write_id: WriteId,
    bucket_property: int,
    first_row: int = 0,
) -> WrittenFile:
    """Writes rows as inserts of ``write_id``, numbered from ``first_row``, to a local file with the settings of ``like``.

    Args:
        rows: returns the rows with the table's columns; called repeatedly.
        types: the types of the ACID file.

    Raises:
        NotLossless: a value cannot be written as its type.
    """

    def encode(columns: frozenset[int]) -> Tail:
        return with_codec(
            [types],
            lambda codec: encode_acid(
                _number_rows(rows(), codec, types, write_id, bucket_property, first_row),
                path,
                like=like,
                types=types,
                metadata=OutputMetadata().compute,
                codec=codec,
                filtered=columns,
            ),
        )

    return written_file(path, with_filters(path, like, encode))


def _number_rows(
    rows: Iterable[pa.RecordBatch], codec: Codec, types: Types, write_id: WriteId, bucket_property: int, first: int
) -> Iterator[pa.RecordBatch]:
    """Yields ACID rows, numbered from ``first``."""
    schema = codec.schema(types)
    for batch in rows:
        count = batch.num_rows
        write_ids = pa.array(np.full(count, write_id, dtype=np.int64))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(count, INSERT, dtype=np.int32)),
                write_ids,
                pa.array(np.full(count, bucket_property, dtype=np.int32)),
                pa.array(np.arange(first, first + count, dtype=np.int64)),
                write_ids,
                _struct(batch, types, schema.field(5).type),
            ],
            schema=schema,
        )
        first += count


def _struct(batch: pa.RecordBatch, types: Types, kind: pa.StructType) -> pa.StructArray:
    row = types[types[0].children[-1]]
    columns = [
        to_encodable(to_hybrid_calendar(array, types, child), kind.field(at).type)
        for at, (array, child) in enumerate(zip(batch.columns, row.children, strict=True))
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind))
