"""Rows into deltas and ROW__IDs into delete deltas, as a writer of an unbucketed table makes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from compactor.acid import bucket
from compactor.acid.names import ACID_VERSION, ACID_VERSION_FILE, Delta, DeltaKind
from compactor.orc.codec import Codec
from compactor.orc.reencode import encode_acid, with_codec
from compactor.orc.tail import empty_tail
from compactor.orc.types import Types, acid_types, parse_hive_type
from compactor.rows.delete_files import write_events
from compactor.rows.deletes import DeleteEvents
from compactor.rows.keys import INSERT, key_block, numbers
from compactor.rows.reader import ROW_ID_COLUMNS
from compactor.rows.sealing import seal_rows
from compactor.service.transaction import Statement

_NUMBER = 0  #: an unbucketed table's single writer has file number 0


def insert(statement: Statement, rows: pa.Table) -> None:
    """``rows``, the table's columns in their order, as the statement's delta."""
    types = _types(statement)
    path = _file(statement, DeltaKind.INSERT)
    like = empty_tail(types, name=str(path))
    tail = with_codec(
        [types],
        lambda codec: encode_acid(_events(statement, rows, codec, types), path, like=like, types=types, codec=codec),
    )
    seal_rows(str(path), tail, like=like, types=types)


def with_row_ids(statement: Statement, rows: pa.Table) -> pa.Table:
    """``rows`` behind the ROW__ID columns that ``insert`` gave them under ``statement``."""
    count = rows.num_rows
    columns = (
        np.full(count, statement.write_id, dtype=np.int64),
        np.full(count, bucket.encode(_NUMBER, statement.statement_id), dtype=np.int32),
        np.arange(count, dtype=np.int64),
    )
    for at, (name, values) in enumerate(zip(ROW_ID_COLUMNS, columns, strict=True)):
        rows = rows.add_column(at, name, pa.array(values))
    return rows


def delete(statement: Statement, rows: pa.Table) -> None:
    """Delete events for ``rows``, which have the ROW__ID columns of ``read_snapshot``, as the statement's delete delta."""
    types = _types(statement)
    path = _file(statement, DeltaKind.DELETE)
    write_id, bucket_property, row_id = (numbers(rows[name]) for name in ROW_ID_COLUMNS)
    keys = key_block(write_id, bucket_property.astype(np.int32), row_id)
    events = DeleteEvents.of([(keys, np.full(len(keys), statement.write_id, dtype=np.int64))])
    write_events(events, str(path), like=empty_tail(types, name=str(path)), types=types)


def _types(statement: Statement) -> Types:
    return acid_types(parse_hive_type(statement.target.row_type))


def _file(statement: Statement, kind: DeltaKind) -> Path:
    """The path of the statement's only file, its directory made."""
    delta = Delta(
        kind=kind,
        min_write_id=statement.write_id,
        max_write_id=statement.write_id,
        statement_id=statement.statement_id,
    )
    folder = Path(statement.location) / delta.name
    folder.mkdir(parents=True)
    (folder / ACID_VERSION_FILE).write_bytes(ACID_VERSION)
    return folder / f"bucket_{_NUMBER:05d}"


def _events(statement: Statement, rows: pa.Table, codec: Codec, types: Types) -> list[pa.RecordBatch]:
    schema = codec.schema(types)
    struct = schema.field(5).type
    columns = [rows.column(at).combine_chunks().cast(struct.field(at).type) for at in range(rows.num_columns)]
    count = rows.num_rows
    return [
        pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(count, INSERT, dtype=np.int32)),
                pa.array(np.full(count, statement.write_id, dtype=np.int64)),
                pa.array(np.full(count, bucket.encode(_NUMBER, statement.statement_id), dtype=np.int32)),
                pa.array(np.arange(count, dtype=np.int64)),
                pa.array(np.full(count, statement.write_id, dtype=np.int64)),
                pa.StructArray.from_arrays(columns, fields=list(struct)),
            ],
            schema=schema,
        )
    ]
