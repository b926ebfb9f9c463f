"""Rows appended to a table, or put in place of what a table or its partitions hold, as one statement of a transaction."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from compactor.acid.names import Base, Delta, DeltaKind
from compactor.compaction.entry import Entity
from compactor.errors import NotConforming, NotFound, NotSupported
from compactor.metastore.catalog.values import Table
from compactor.rewrite.run.attempt_files import attempt_folder
from compactor.service.site import path_of
from compactor.tables.reading.planning import must_be_readable
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.bucket_hashes import bucket_numbers
from compactor.tables.writing.conform import Door
from compactor.tables.writing.insert_files import BATCH_ROWS, WaitingRows, write_inserts
from compactor.tables.writing.partition_values import partition_of_rows

PLAIN_ROWS = BATCH_ROWS * 16  #: rows of a stream that are conformed together


class Streamed(Protocol):
    """Data in Arrow's C stream interface, as data frames of pandas and polars and relations of DuckDB are."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Rows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Streamed


def append(txn: Transaction, table: Table, rows: Rows, *, time_zone: str | None = None) -> int:
    """Appends rows to ``table`` and returns how many they are.

    Args:
        rows: their columns are matched by name; partition columns are among them.
        time_zone: in which a timestamp with a zone becomes wall-clock time.

    Raises:
        NotConforming: a column or value is not the table's.
        NotSupported: the table, a column's type or a partition is not written here.
        LockNotGranted: somebody holds a conflicting lock.
        TransactionAborted: the transaction timed out.
    """
    return write(txn, table, conformed(table, rows, time_zone), WriteOperation.INSERT)


def overwrite(txn: Transaction, table: Table, rows: Rows, *, time_zone: str | None = None) -> int:
    """Puts rows in place of all that ``table`` holds; in a partitioned table, of what the partitions among them hold.

    Returns how many they are. Raises as ``append`` does.
    """
    return write(txn, table, conformed(table, rows, time_zone), WriteOperation.UPDATE)


def conformed(table: Table, rows: Rows, time_zone: str | None) -> Iterator[pa.Table]:
    """Yields rows in the table's columns, partition columns last, in parts of bounded size where they come as a stream."""
    columns = tuple((column.name, column.type) for column in (*table.columns, *table.partition_keys))
    door = Door(table=str(table), columns=columns, time_zone=time_zone)
    yield from (door.conform(part) for part in _parts(table, rows))


def write(txn: Transaction, table: Table, parts: Iterable[pa.Table], operation: WriteOperation) -> int:
    """Writes conformed rows as one statement; see ``append``."""
    must_be_readable(table)
    if table.sort_columns:
        raise NotSupported(f"{table}: is sorted, and what is written here would not keep its order")
    if table.is_partitioned:
        statement = txn.dynamic_statement(table, operation)
    else:
        statement = txn.statement(Entity(database=table.database, table=table.name), operation)
    with tempfile.TemporaryDirectory(prefix="compactor-write-") as scratch:
        waiting = _divided(table, parts, scratch)
        locations = {"": statement.location} if not table.is_partitioned else _locations(txn, table, waiting)
        if table.is_partitioned:
            txn.record_partitions(statement, locations)
        elif not waiting and operation is WriteOperation.UPDATE:
            waiting = {"": {0: WaitingRows()}}  # whatever was there is gone
        for partition, of_number in waiting.items():
            _write(txn, statement, locations[partition], of_number)
    return sum(one.rows for of_number in waiting.values() for one in of_number.values())


def _parts(table: Table, rows: Rows) -> Iterator[pa.Table]:
    if isinstance(rows, pa.RecordBatch):
        yield pa.Table.from_batches([rows])
    elif isinstance(rows, pa.Table):
        yield rows
    elif isinstance(rows, pa.RecordBatchReader) or hasattr(rows, "__arrow_c_stream__"):
        yield from _of_stream(pa.RecordBatchReader.from_stream(rows))
    else:
        raise NotConforming(
            f"{table}: rows are given as {type(rows).__name__}; wanted: a table, batch or reader of pyarrow, or a data frame"
        )


def _of_stream(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in reader:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= PLAIN_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _divided(table: Table, parts: Iterable[pa.Table], scratch: str) -> dict[str, dict[int, WaitingRows]]:
    """Divides rows by partition name, empty for a table without partitions, and file number."""
    waiting: dict[str, dict[int, WaitingRows]] = {}
    for part in parts:
        for name, rows in partition_of_rows(table, part):
            for number, of_file in _by_bucket(table, rows):
                waiting.setdefault(name, {}).setdefault(number, WaitingRows()).add(of_file, scratch)
    return waiting


def _by_bucket(table: Table, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yields the rows of each bucket. Rows of an unbucketed table are in file 0, as those of one of Hive's writers are: with
    several numbers Trino's UPDATE leaves both versions of a row (PROTOCOL 14.5)."""
    if table.buckets <= 0 or not rows.num_rows:
        if rows.num_rows:
            yield 0, rows
        return
    types = {column.name.lower(): column.type for column in table.columns}
    names = [name.lower() for name in table.bucket_columns]
    places = [list(types).index(name) for name in names]
    arrays = [rows.column(place).combine_chunks() for place in places]
    numbers = bucket_numbers(arrays, [types[name] for name in names], table.buckets, version=_version(table))
    for number in np.unique(numbers).tolist():
        yield number, rows.filter(pa.array(numbers == number))


def _version(table: Table) -> int:
    text = next((text for key, text in table.parameters.items() if key.lower() == "bucketing_version"), "1").strip()
    if text not in {"1", "2"}:
        raise NotSupported(
            f"{table}: bucketing_version is {text!r}; expected 1 or 2, so where rows belong is not known"
        )
    return int(text)


def _locations(txn: Transaction, table: Table, names: Iterable[str]) -> Mapping[str, str]:
    """Returns the directory of each partition.

    Raises:
        NotFound: there is no such partition.
    """
    site = txn.site
    known = {part.name: part for part in site.metastore.catalog.partitions(table)}
    if missing := sorted(set(names).difference(known)):
        raise NotFound(
            f"{table}: has no partition {missing[0]}; add it first (in Hive: ALTER TABLE {table} ADD PARTITION …), then "
            "write again; nothing was written"
        )
    return {name: path_of(site.storage, table, known[name]) for name in names}


def _write(txn: Transaction, statement: WriteStatement, location: str, of_number: Mapping[int, WaitingRows]) -> None:
    """Stages one directory: a base if it overwrites, else a delta."""
    write_id, storage = statement.write_id, txn.site.storage
    acid: Base | Delta = Base(write_id=write_id)
    if statement.operation is WriteOperation.INSERT:
        acid = Delta(
            kind=DeltaKind.INSERT, min_write_id=write_id, max_write_id=write_id, statement_id=statement.statement_id
        )
    home = txn.pending.attempt(location)
    with attempt_folder(storage, home) as folder:
        outputs = [
            write_inserts(
                folder,
                statement.table,
                waiting,
                write_id=write_id,
                statement_id=statement.statement_id,
                number=number,
            )
            for number, waiting in sorted(of_number.items())
        ]
        txn.pending.accept(location, acid, outputs, home)
