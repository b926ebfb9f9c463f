"""Writes the rows and delete events of a statement, one file for each partition and file number.

Rows wait in memory, or in temporary files beyond ``IN_MEMORY`` bytes, until all are there. Only then is it known which codec
writes them without loss, and which columns can have bloom filters.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.acid import bucket
from compactor.acid.names import BucketFile, DeltaKind
from compactor.acid.partition_names import DEFAULT_PARTITION, part_name
from compactor.base.errors import NotSupported
from compactor.base.ids import WriteId
from compactor.orc.assembler import WrittenFile
from compactor.orc.codecs.choice import with_codec
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import JULIAN, Tail, empty_tail
from compactor.orc.format.types import Types, acid_types
from compactor.orc.reencode import encode_acid, with_filters
from compactor.rewrite.full_acid.output_format import new_tail, output_of
from compactor.rewrite.plan.unit import Output
from compactor.rows.delete_files import Events, write_events
from compactor.rows.keys import INSERT, KeyBlock, key_block, to_numbers
from compactor.rows.new_file import OutputMetadata, written_file
from compactor.settings.output_class import OutputClass
from compactor.tables.filters.partition_constants import char_length
from compactor.tables.time_forms import to_encodable, to_hybrid_calendar
from compactor.tables.writing.bucket_hashes import bucket_numbers
from compactor.tables.writing.writer_messages import TableShape

IN_MEMORY = 64 * 1024 * 1024
BATCH_ROWS = 65_536
PLAIN_ROWS = BATCH_ROWS * 16  #: rows of a stream that are fitted together
_ROW = ":row"  #: a column of our own; column names cannot have this sign in Hive
#: Hive types whose values all writers render in the same way.
_NAMED = ("tinyint", "smallint", "int", "bigint", "string", "varchar", "char", "date", "boolean")


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
    table: TableShape,
    waiting: WaitingRows,
    *,
    write_id: WriteId,
    statement_id: int,
    number: int,
    first_row: int = 0,
    is_gregorian: bool = False,
) -> Output:
    """Writes rows as ``bucket_<number>`` in the local directory ``folder``, numbered from ``first_row``.

    Args:
        is_gregorian: whether early days stay in the Gregorian calendar, and the file names none, as in files of Hive 3.1.3.
            Otherwise they become Julian, and the file says so, as those of Hive 4 do.

    Raises:
        NotLossless: a value cannot be written as the table's type.
        StorageError: the file cannot be written.
    """
    types = acid_types(parse_hive_type(table.row_type))
    path = f"{folder}/{BucketFile(number=number).name}"
    calendar = 0 if is_gregorian else JULIAN
    like = new_tail(empty_tail(types, calendar=calendar), types, OutputClass.from_table(table.parameters))
    written = encode_inserts(
        path,
        waiting.batches,
        types,
        like,
        write_id=write_id,
        bucket_property=bucket.encode(number, statement_id),
        first_row=first_row,
        is_gregorian=is_gregorian,
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
    is_gregorian: bool = False,
) -> WrittenFile:
    """Writes rows as inserts of ``write_id`` to a local file with the settings of ``like``.

    They are numbered from ``first_row``. Early days become Julian unless ``is_gregorian``.

    Args:
        rows: returns the rows with the table's columns; called repeatedly.
        types: the types of the ACID file.

    Raises:
        NotLossless: a value cannot be written as its type.
    """

    def stored() -> Iterable[pa.RecordBatch]:
        return rows() if is_gregorian else (_to_hybrid_calendar(batch, types) for batch in rows())

    def encode(columns: frozenset[int]) -> Tail:
        return with_codec(
            [types],
            lambda codec: encode_acid(
                _number_rows(stored(), codec, types, write_id, bucket_property, first_row),
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
                _struct(batch, schema.field(5).type),
            ],
            schema=schema,
        )
        first += count


def _to_hybrid_calendar(batch: pa.RecordBatch, types: Types) -> pa.RecordBatch:
    row = types[types[0].children[-1]]
    columns = [
        to_hybrid_calendar(array, types, child) for array, child in zip(batch.columns, row.children, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _struct(batch: pa.RecordBatch, kind: pa.StructType) -> pa.StructArray:
    columns = [to_encodable(array, field.type) for array, field in zip(batch.columns, kind, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def write_deleted(path: str, row_type: str, events: Events) -> WrittenFile:
    """Writes delete events to a local file.

    Args:
        row_type: the Hive type of the table's rows.
    """
    types = acid_types(parse_hive_type(row_type))
    return write_events(events, path, like=empty_tail(types, name=path), types=types)


def build_keys(row_ids: Sequence[pa.Array | pa.ChunkedArray]) -> KeyBlock:
    """Builds keys from write IDs, bucket properties and row IDs."""
    write_id, bucket_property, row_id = map(to_numbers, row_ids)
    return key_block(write_id, bucket_property.astype(np.int32), row_id)


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


def divide_rows(table: TableShape, parts: Iterable[pa.Table], scratch: str) -> dict[str, dict[int, WaitingRows]]:
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


def _by_bucket(table: TableShape, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yields the rows of each bucket.

    Rows of an unbucketed table are in file 0, like those of one writer of Hive.

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


def _version(table: TableShape) -> int:
    text = next((text for key, text in table.parameters.items() if key.lower() == "bucketing_version"), "1").strip()
    if text not in {"1", "2"}:
        raise NotSupported(f"bucketing_version is {text!r}; expected 1 or 2, otherwise the bucket of a row is unknown")
    return int(text)


def divide_by_partition(table: TableShape, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yields the name of each partition among fitted rows, with its rows without the partition columns.

    A table without partitions has a single one named "". NULL and the empty text belong to the default partition.

    Raises:
        NotSupported: writers differ in how they render values of a partition column's type.
    """
    count = len(table.columns)
    plain = rows.select(range(count))
    if not table.partition_keys:
        yield "", plain
        return
    texts = [_texts(table, place, rows.column(count + place)) for place in range(len(table.partition_keys))]
    keys = [key.name for key in table.partition_keys]
    named = pa.table([*texts, pa.array(range(rows.num_rows), pa.int64())], names=[*keys, _ROW])
    for group in named.group_by(keys, use_threads=False).aggregate([(_ROW, "list")]).to_pylist():
        yield part_name(keys, [group[key] for key in keys]), plain.take(pa.array(group[f"{_ROW}_list"], pa.int64()))


def name_partition(table: TableShape, values: pa.Table) -> str:
    """Returns the name of the partition for a row of fitted partition columns."""
    texts = [_texts(table, place, values.column(place))[0].as_py() for place in range(len(table.partition_keys))]
    return part_name([key.name for key in table.partition_keys], texts)


def _texts(table: TableShape, place: int, values: pa.ChunkedArray) -> pa.ChunkedArray:
    key = table.partition_keys[place]
    if key.type.partition("(")[0].strip().lower() not in _NAMED:
        raise NotSupported(
            f"{table}: partition column {key.name} is a {key.type}, whose values writers render differently; we do not "
            "write into such partitions"
        )
    texts = values.cast(pa.string())
    if (width := char_length(key.type)) is not None:
        texts = pc.utf8_rpad(texts, width)  # as in Hive, also if the value is all blanks
    return pc.if_else(pc.equal(pc.fill_null(texts, ""), ""), DEFAULT_PARTITION, texts)
