"""Rows of a statement, divided by partition and file number, become one file each.

Rows wait in memory, and beyond ``IN_MEMORY`` bytes in temporary files, until all are there: which codec writes them
without loss, and which columns can have bloom filters, is known only then.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from compactor.acid import bucket
from compactor.acid.names import BucketFile, DeltaKind
from compactor.ids import WriteId
from compactor.metastore.catalog.values import Table
from compactor.orc.codecs.bloom_filters import asked_columns
from compactor.orc.codecs.choice import with_codec
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import Tail, empty_tail
from compactor.orc.format.types import Types, acid_types
from compactor.orc.reencode import encode_acid, with_filters
from compactor.rewrite.full_acid.output_format import output_of
from compactor.rewrite.plan.unit import Output
from compactor.rows.keys import INSERT
from compactor.rows.output_metadata import OutputMetadata, written_file
from compactor.settings.output_class import OutputClass
from compactor.tables.encodable import encodable

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
        if self._bytes > IN_MEMORY and self._batches:
            with tempfile.NamedTemporaryFile(dir=scratch, suffix=".arrow", delete=False) as file:
                with pa.ipc.new_stream(file, self._batches[0].schema) as stream:
                    for batch in self._batches:
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
    folder: str, table: Table, waiting: WaitingRows, *, write_id: WriteId, statement_id: int, number: int
) -> Output:
    """Writes rows as ``bucket_<number>`` in the local directory ``folder``.

    Raises:
        NotLossless: a value cannot be written as the table's type.
        StorageError: the file cannot be written.
    """
    types = acid_types(parse_hive_type(table.row_type))
    path = f"{folder}/{BucketFile(number=number).name}"
    like = new_file_like(table, types, path)
    filtered = frozenset() if like.asked is None else asked_columns(types, like.asked.bloom_filters or ())

    def encode(columns: frozenset[int]) -> Tail:
        return with_codec(
            [types],
            lambda codec: encode_acid(
                _numbered(waiting, codec, types, write_id, bucket.encode(number, statement_id)),
                path,
                like=like,
                types=types,
                metadata=OutputMetadata().compute,
                codec=codec,
                filtered=columns,
            ),
        )

    tail = with_filters(path, filtered, encode)
    return output_of(DeltaKind.INSERT, path, number, written_file(path, tail))


def new_file_like(table: Table, types: Types, path: str) -> Tail:
    """Returns an empty file as the table's properties ask for it (``orc.compress`` and its kin); ZLIB unless they do.

    A value that the encoding library cannot write counts as not given: the property is any writer's.
    """
    asked = OutputClass.of_table(table.parameters)
    return empty_tail(
        types,
        name=path,
        compression=Compression[asked.compression or "ZLIB"],
        compression_block_size=asked.block_bytes or 256 * 1024,
        row_index_stride=asked.row_index_stride or 10_000,
        asked=asked,
    )


def _numbered(
    waiting: WaitingRows, codec: Codec, types: Types, write_id: WriteId, bucket_property: int
) -> Iterator[pa.RecordBatch]:
    """Yields ACID rows, numbered from 0."""
    schema = codec.schema(types)
    row = schema.field(5)
    first = 0
    for batch in waiting.batches():
        count = batch.num_rows
        write_ids = pa.array(np.full(count, write_id, dtype=np.int64))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(count, INSERT, dtype=np.int32)),
                write_ids,
                pa.array(np.full(count, bucket_property, dtype=np.int32)),
                pa.array(np.arange(first, first + count, dtype=np.int64)),
                write_ids,
                _struct(batch, row.type),
            ],
            schema=schema,
        )
        first += count


def _struct(batch: pa.RecordBatch, kind: pa.StructType) -> pa.StructArray:
    columns = [encodable(array, kind.field(at).type) for at, array in enumerate(batch.columns)]
    return pa.StructArray.from_arrays(columns, fields=list(kind))
