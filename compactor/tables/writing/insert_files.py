"""Rows of a statement, divided by partition and file number, become one file each.

Rows wait in memory, and beyond ``IN_MEMORY`` bytes in temporary files, until all are there: which codec writes them
without loss, and which columns can have bloom filters, is known only then.
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
from compactor.tables.writing.encodable import encodable
from compactor.tables.writing.hybrid import hybrid
from compactor.tables.writing.shape import Shape

IN_MEMORY = 64 * 1024 * 1024
BATCH_ROWS = 65_536


class WaitingRows:
    """Rows of one file, in the table's columns, until they are written."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled: list[Path] = []
        self.rows = 0

    def add(self, rows: pa.Table, scratch: str) -> None:
        """Adds rows; puts all that wait into a file in ``scratch`` where they are too many for the memory."""
        self._batches += rows.to_batches(max_chunksize=BATCH_ROWS)
        self._bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._bytes > IN_MEMORY:
            self._spill(scratch)

    def take(self, others: WaitingRows, scratch: str) -> None:
        """Adds the rows of ``others``, which has none of its own from then on."""
        if others._spilled:
            self._spill(scratch)
        self._spilled += others._spilled
        self._batches += others._batches
        self._bytes += others._bytes
        self.rows += others.rows
        if self._bytes > IN_MEMORY:
            self._spill(scratch)

    def _spill(self, scratch: str) -> None:
        for schema, batches in groupby(self._batches, key=lambda batch: batch.schema):  # units of timestamps may differ
            with tempfile.NamedTemporaryFile(dir=scratch, suffix=".arrow", delete=False) as file:
                with pa.ipc.new_stream(file, schema) as stream:
                    for batch in batches:
                        stream.write_batch(batch)
                self._spilled.append(Path(file.name))
        self._batches, self._bytes = [], 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows in the order in which they came, as often as it is called."""
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
        calendar: number of the Julian calendar's name in the footer, or 0 for none, which Hive takes for it, too.

    Raises:
        NotLossless: a value cannot be written as the table's type.
        StorageError: the file cannot be written.
    """
    types = acid_types(parse_hive_type(table.row_type))
    path = f"{folder}/{BucketFile(number=number).name}"
    like = new_tail(empty_tail(types, calendar=calendar), types, OutputClass.of_table(table.parameters))
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
    """Writes rows as inserts of ``write_id``, numbered from ``first_row``, to a local file of the class of ``like``.

    Args:
        rows: returns them in the columns of the row, as often as it is called.
        types: of the ACID file.

    Raises:
        NotLossless: a value cannot be written as its type.
    """

    def encode(columns: frozenset[int]) -> Tail:
        return with_codec(
            [types],
            lambda codec: encode_acid(
                _numbered(rows(), codec, types, write_id, bucket_property, first_row),
                path,
                like=like,
                types=types,
                metadata=OutputMetadata().compute,
                codec=codec,
                filtered=columns,
            ),
        )

    return written_file(path, with_filters(path, like, encode))


def _numbered(
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
        encodable(hybrid(array, types, child), kind.field(at).type)
        for at, (array, child) in enumerate(zip(batch.columns, row.children, strict=True))
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind))
