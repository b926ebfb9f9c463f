"""A small writer for the demo, tests and benchmarks: writes Arrow data as a delta or delete delta of a statement.

The caller does the metastore's part (transaction, lock, write ID, component) first.
"""

from __future__ import annotations

import os
from contextlib import suppress

import numpy as np
import pyarrow as pa

from compactor.acid import bucket
from compactor.acid.names import ACID_VERSION, ACID_VERSION_FILE, BucketFile, Delta, DeltaKind
from compactor.base.errors import StorageError
from compactor.base.ids import WriteId
from compactor.orc.assembler import WrittenFile
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail
from compactor.orc.format.types import acid_types
from compactor.rows.delete_files import DeleteEvents
from compactor.tables.writing.statement_files import build_keys, encode_inserts, write_deleted
from demo.snapshot_reader import ROW_ID_COLUMNS


def write_rows(
    location: str,
    row_type: str,
    rows: pa.Table,
    *,
    write_id: WriteId,
    statement_id: int,
    number: int = 0,
    compression: Compression = Compression.ZLIB,
) -> WrittenFile:
    """Writes ``rows``, the table's columns in order, as file ``number`` of the statement's delta below ``location``.

    Raises:
        StorageError: the directory or file cannot be created, or the file exists.
        NotLossless: a column cannot be written as the table's type.
    """
    types = acid_types(parse_hive_type(row_type))
    path = _path(location, DeltaKind.INSERT, write_id, statement_id, number)
    return encode_inserts(
        path,
        rows.combine_chunks().to_batches,
        types,
        empty_tail(types, name=path, compression=compression),
        write_id=write_id,
        bucket_property=bucket.encode(number, statement_id),
    )


def write_deletes(
    location: str, row_type: str, row_ids: pa.Table, *, write_id: WriteId, statement_id: int, number: int = 0
) -> WrittenFile:
    """Writes delete events for the rows with these ROW__IDs, as file ``number`` of the statement's delete delta.

    Args:
        row_ids: has the columns ``writeid``, ``bucketid``, ``rowid`` as ``read_snapshot`` returns them; other columns are
            ignored. ``number`` must be the number of the file that holds the rows, otherwise the events have no effect.
    """
    path = _path(location, DeltaKind.DELETE, write_id, statement_id, number)
    keys = build_keys([row_ids[name] for name in ROW_ID_COLUMNS])
    events = DeleteEvents.from_blocks([(keys, np.full(len(keys), write_id, dtype=np.int64))])
    return write_deleted(path, row_type, events)


def _path(location: str, kind: DeltaKind, write_id: WriteId, statement_id: int, number: int) -> str:
    """Creates the statement's directory with its version file, and returns the path of its data file."""
    delta = Delta(kind=kind, min_write_id=write_id, max_write_id=write_id, statement_id=statement_id)
    folder = os.path.join(location, delta.name)
    try:
        os.makedirs(folder, exist_ok=True)
        with suppress(FileExistsError), open(os.path.join(folder, ACID_VERSION_FILE), "xb") as file:
            file.write(ACID_VERSION)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be created: {error.strerror}") from error
    path = os.path.join(folder, BucketFile(number=number).name)
    if os.path.lexists(path):
        raise StorageError(f"{path} exists already; a statement writes each of its files only once")
    return path
