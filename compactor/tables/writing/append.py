"""Appends rows to a table, or replaces rows of a table or its partitions, as one statement."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeAlias

import pyarrow as pa

from compactor.acid.names import Base, Delta, DeltaKind
from compactor.base.errors import NotConforming, NotFound, NotSupported, Refused
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.values import Column, Table
from compactor.rewrite.run.attempt_files import attempt_folder
from compactor.settings.output_class import OutputClass, refused_by_orc_1_5
from compactor.site.site import Site, path_of
from compactor.tables.reading.scan import Scan
from compactor.tables.reading.scan_planning import must_be_readable
from compactor.tables.transactions.held_locks import is_hive_4
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.conform import Door
from compactor.tables.writing.statement_files import (
    WaitingRows,
    divide_rows,
    join_batches,
    name_partition,
    write_inserts,
)

_MOST = "hive.exec.max.dynamic.partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The arguments of a statement besides its rows; see ``Table.append``."""

    time_zone: str | None = None
    partition: Mapping[str, object] | None = None


class Streamed(Protocol):
    """Data with Arrow's C stream interface.

    Data frames of pandas and polars and relations of DuckDB have it.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Rows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Streamed
RowSource: TypeAlias = Rows | Scan  #: a scan is read in the transaction that writes its rows


def append(txn: Transaction, table: Table, rows: RowSource, options: WriteOptions) -> int:
    """Appends rows to ``table`` and returns their number.

    Args:
        rows: their columns are matched by name and include the partition columns that ``options`` does not give. A scan is
            read in ``txn``, once the table is locked.

    Raises:
        NotConforming: a column or value does not fit the table.
        NotSupported: we do not write such a table, column or partition.
        Refused: rows belong to too many partitions, or to a partition that cannot be added.
        LockNotGranted: somebody holds a conflicting lock.
        TransactionAborted: the transaction timed out.
    """
    partition = find_static_partition(table, options)
    if isinstance(rows, Scan):
        txn.lock_for_appending(table, partition, rows.entities(txn))
    parts = conform_rows(txn.site, table, read_within(txn, rows), options)
    return write(txn, table, parts, WriteOperation.INSERT, partition)


def overwrite(txn: Transaction, table: Table, rows: RowSource, options: WriteOptions) -> int:
    """Replaces all rows of ``table``, of the partition of ``options``, or of the partitions of ``rows``.

    Returns the number of new rows. Raises the errors of ``append``, and WriteConflict if the transaction has read ``table``
    and does not see all rows that would be replaced.
    """
    must_be_readable(table)
    partition = find_static_partition(table, options)
    txn.lock_for_overwriting(table, partition, rows.entities(txn) if isinstance(rows, Scan) else ())
    parts = conform_rows(txn.site, table, read_within(txn, rows), options)
    return write(txn, table, parts, WriteOperation.UPDATE, partition)


def read_within(txn: Transaction, rows: RowSource) -> RowSource:
    """Returns rows; a scan will be read in ``txn``, when its first row is needed (PROTOCOL 14.27)."""
    return rows.within(txn) if isinstance(rows, Scan) else rows


def conform_rows(site: Site, table: Table, rows: RowSource, options: WriteOptions) -> Iterator[pa.Table]:
    """Yields rows fitted to the table's columns, partition columns last.

    Rows of a stream come in parts of bounded size.
    """
    door = open_door(site, table, (*table.columns, *table.partition_keys), options.time_zone)
    keys = _partition_values(table, options)
    yield from (door.conform(_with_columns(part, keys)) for part in split_rows(table, rows))


def open_door(site: Site, table: Table, columns: Iterable[Column], time_zone: str | None = None) -> Door:
    """Returns the door for values of these columns of ``table``."""
    return Door(
        table=str(table),
        columns=tuple((column.name, column.type) for column in columns),
        time_zone=time_zone,
        is_gregorian=not is_hive_4(site),
    )


def find_static_partition(table: Table, options: WriteOptions) -> str | None:
    """Returns the partition's name if ``options`` has the values of all partition columns, else None.

    Raises:
        NotFound: it has a column that is not a partition column.
        NotConforming: a value does not fit its column's type.
    """
    values = _partition_values(table, options)
    if not values or len(values) < len(table.partition_keys):
        return None
    keys = tuple((key.name, key.type) for key in table.partition_keys)
    # a partition's name holds the day as a text, in no calendar
    door = Door(table=str(table), columns=keys, time_zone=options.time_zone, is_gregorian=True)
    return name_partition(table, door.conform(pa.table(values)))


def _partition_values(table: Table, options: WriteOptions) -> Mapping[str, pa.Array]:
    """Returns the values of partition columns, each as an array of one value."""
    values = {name.lower(): value for name, value in (options.partition or {}).items()}
    keys = [key.name.lower() for key in table.partition_keys]
    if unknown := sorted(set(values).difference(keys)):
        raise NotFound(f"{table} has no partition column {unknown[0]!r}; it has {', '.join(keys) or 'none'}")
    try:
        return {name: pa.array([value]) for name, value in values.items()}
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise NotConforming(f"{table}: partition={dict(values)}: {error}") from error


def _with_columns(rows: pa.Table, values: Mapping[str, pa.Array]) -> pa.Table:
    for name, value in values.items():
        rows = rows.append_column(name, pa.repeat(value[0], rows.num_rows) if rows.num_rows else pa.nulls(0))
    return rows


def write(
    txn: Transaction, table: Table, parts: Iterable[pa.Table], operation: WriteOperation, partition: str | None = None
) -> int:
    """Writes fitted rows as one statement; see ``append``.

    Args:
        partition: the partition of all rows, if it is known.
    """
    must_be_writable(txn.site, table)
    is_known = not table.is_partitioned or (partition is not None and _exists(txn, table, partition))
    if is_known:
        entity = Entity(database=table.database, table=table.name, partition=partition)
        statement = txn.begin_statement(entity, operation, loaded=table)
    else:
        statement = txn.begin_dynamic_statement(table, operation, partition)
    with tempfile.TemporaryDirectory(prefix="compactor-write-") as scratch:
        waiting = divide_rows(table, parts, scratch)
        is_single = is_known or partition is not None
        if is_single and not waiting and operation is WriteOperation.UPDATE:
            waiting = {partition or "": {0: WaitingRows()}}  # an empty base replaces the old rows
        stage_rows(txn, statement, waiting, {partition or "": statement.location} if is_known else None)
    return sum(file.rows for files in waiting.values() for file in files.values())


def stage_rows(
    txn: Transaction,
    statement: WriteStatement,
    waiting: Mapping[str, Mapping[int, WaitingRows]],
    locations: Mapping[str, str] | None = None,
    known: Mapping[str, str] | None = None,
) -> Mapping[str, str]:
    """Stages the rows of a statement, by partition and file number.

    Returns the locations of the partitions.

    Args:
        locations: by partition; None if the statement's component is provisional, so that its partitions must be recorded.
        known: locations that were checked already and that nobody can have dropped since.
    """
    txn.must_replace_all_rows(statement, waiting)
    if locations is None:
        known = known or {}
        locations = find_locations(txn, statement, waiting, known)
        txn.check_partitions(statement.table, {name: locations[name] for name in locations.keys() - known.keys()})
        txn.record_partitions(statement, locations)
    for name, files in waiting.items():
        _write(txn, statement, locations[name], files)
    return locations


def must_be_writable(site: Site, table: Table) -> None:
    """Refuses tables that we do not write.

    Raises:
        NotSupported: the table is one of them.
    """
    must_be_readable(table)
    if table.sort_columns:
        raise NotSupported(f"{table}: the table is sorted, and we would not keep its order")
    compression = OutputClass.from_table(table.parameters).compression
    if not is_hive_4(site) and (reason := refused_by_orc_1_5(compression)):
        raise NotSupported(f"{table}: {reason}; change the property of the table")


def split_rows(table: Table, rows: RowSource) -> Iterator[pa.Table]:
    """Yields rows unchanged; rows of a stream come in parts of bounded size.

    Raises:
        NotConforming: they are not of a kind in ``Rows``.
    """
    if isinstance(rows, pa.RecordBatch):
        yield pa.Table.from_batches([rows])
    elif isinstance(rows, pa.Table):
        yield rows
    elif isinstance(rows, Scan) and rows.is_within_a_transaction:
        yield from _parts_of_stream(rows.to_arrow_batch_reader())
    elif isinstance(rows, pa.RecordBatchReader):  # the C interface would turn exceptions into texts
        yield from _parts_of_stream(rows)
    elif hasattr(rows, "__arrow_c_stream__"):
        yield from _parts_of_stream(pa.RecordBatchReader.from_stream(rows))
    else:
        raise NotConforming(
            f"{table}: rows are given as {type(rows).__name__}; expected: a pyarrow table, batch or reader, or a data frame"
        )


def _parts_of_stream(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Yields the parts of a stream.

    An empty stream has one part without rows, so that its columns are still checked.
    """
    parts = join_batches(reader)
    yield next(parts, reader.schema.empty_table())
    yield from parts


def _exists(txn: Transaction, table: Table, partition: str) -> bool:
    return bool(txn.site.metastore.catalog.partitions(table, [partition]))


def find_locations(
    txn: Transaction, statement: WriteStatement, names: Collection[str], known: Mapping[str, str] = MappingProxyType({})
) -> Mapping[str, str]:
    """Returns the directory of each partition.

    Adds partitions that do not exist, in the order of their names.

    Args:
        known: directories of existing partitions.

    Raises:
        Refused: there are more than hive.exec.max.dynamic.partitions, or a partition cannot be added.
    """
    site, table = txn.site, statement.table
    most = site.settings.integer(_MOST)
    if len(names) > most:
        raise Refused(
            f"{table}: the rows belong to {len(names)} partitions, but {_MOST} is {most}; write them in several statements, "
            "or raise it if this is intended"
        )
    unknown = sorted(name for name in names if name not in known)
    existing = {part.name: part for part in txn.partitions(table, unknown)} if unknown else {}
    partitions = {name: existing.get(name) or txn.add_partition(table, name, statement.write_id) for name in unknown}
    locations = {name: path_of(site.storage, table, part) for name, part in partitions.items()}
    return {name: known[name] for name in names if name in known} | locations


def _write(txn: Transaction, statement: WriteStatement, location: str, files: Mapping[int, WaitingRows]) -> None:
    """Stages one directory: a base if the statement overwrites, otherwise a delta."""
    write_id, storage = statement.write_id, txn.site.storage
    acid: Base | Delta = Base(write_id=write_id)
    if statement.operation is WriteOperation.INSERT:
        acid = Delta(
            kind=DeltaKind.INSERT, min_write_id=write_id, max_write_id=write_id, statement_id=statement.statement_id
        )
    home = txn.pending.attempt(location, acid)
    with attempt_folder(storage, home) as folder:
        outputs = [
            write_inserts(
                folder,
                statement.table,
                waiting,
                write_id=write_id,
                statement_id=statement.statement_id,
                number=number,
                first_row=txn.pending.next_row(location, number),
                is_gregorian=not is_hive_4(txn.site),
            )
            for number, waiting in sorted(files.items())
        ]
        txn.pending.accept(location, acid, outputs, home)
