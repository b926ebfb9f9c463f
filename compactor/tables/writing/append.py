"""Rows appended to a table, or put in place of what a table or its partitions hold, as one statement of a transaction."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeAlias

import pyarrow as pa

from compactor.acid.names import Base, Delta, DeltaKind
from compactor.base.errors import NotConforming, NotFound, NotSupported, Refused
from compactor.compaction.entry import Entity
from compactor.metastore.catalog.values import Table
from compactor.orc.format.tail import JULIAN
from compactor.rewrite.run.attempt_files import attempt_folder
from compactor.settings.output_class import OutputClass, refused_by_orc_1_5
from compactor.site.site import Site, path_of
from compactor.tables.reading.scan import Scan
from compactor.tables.reading.scan_planning import must_be_readable
from compactor.tables.transactions.lock_kinds import is_hive_4
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.conform import Door
from compactor.tables.writing.divided import divided, together
from compactor.tables.writing.insert_files import WaitingRows, write_inserts
from compactor.tables.writing.partition_values import partition_of_values

_MOST = "hive.exec.max.dynamic.partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """The arguments of a statement beside its rows; see ``Table.append``."""

    time_zone: str | None = None
    partition: Mapping[str, object] | None = None


class Streamed(Protocol):
    """Data in Arrow's C stream interface, as data frames of pandas and polars and relations of DuckDB are."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Rows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Streamed
RowSource: TypeAlias = Rows | Scan  #: a scan is read in the transaction that writes its rows


def append(txn: Transaction, table: Table, rows: RowSource, how: How) -> int:
    """Appends rows to ``table`` and returns how many they are.

    Args:
        rows: their columns are matched by name; partition columns that ``how`` does not give are among them. A scan is read
            in ``txn``, once the table is locked.

    Raises:
        NotConforming: a column or value is not the table's.
        NotSupported: the table, a column's type or a partition is not written here.
        Refused: rows belong to too many partitions, or to one that cannot be added.
        LockNotGranted: somebody holds a conflicting lock.
        TransactionAborted: the transaction timed out.
    """
    parts = conformed(table, read_within(txn, rows), how)
    return write(txn, table, parts, WriteOperation.INSERT, static_partition(table, how))


def overwrite(txn: Transaction, table: Table, rows: RowSource, how: How) -> int:
    """Puts rows in place of all that ``table`` or the partition of ``how`` holds; in a partitioned table without that, of
    what the partitions among the rows hold.

    Returns how many they are. Raises as ``append`` does, and WriteConflict if the transaction has looked at ``table`` and
    does not see all rows that would be replaced.
    """
    must_be_readable(table)
    partition = static_partition(table, how)
    txn.lock_for_overwriting(table, partition)
    return write(txn, table, conformed(table, read_within(txn, rows), how), WriteOperation.UPDATE, partition)


def read_within(txn: Transaction, rows: RowSource) -> RowSource:
    """Returns rows of which a scan is read in ``txn``, as late as its first row is needed (PROTOCOL 14.27)."""
    return rows.within(txn) if isinstance(rows, Scan) else rows


def conformed(table: Table, rows: RowSource, how: How) -> Iterator[pa.Table]:
    """Yields rows in the table's columns, partition columns last, in parts of bounded size where they come as a stream."""
    columns = tuple((column.name, column.type) for column in (*table.columns, *table.partition_keys))
    door = Door(table=str(table), columns=columns, time_zone=how.time_zone)
    given = _given(table, how)
    yield from (door.conform(_with_columns(part, given)) for part in parts_of(table, rows))


def static_partition(table: Table, how: How) -> str | None:
    """Returns the name of the partition that ``how`` gives all columns of; None if it does not.

    Raises:
        NotFound: it gives a column that is no partition column.
        NotConforming: a value is not of its column's type.
    """
    given = _given(table, how)
    if not given or len(given) < len(table.partition_keys):
        return None
    keys = tuple((key.name, key.type) for key in table.partition_keys)
    rows = pa.table(given)
    return partition_of_values(table, Door(table=str(table), columns=keys, time_zone=how.time_zone).conform(rows))


def _given(table: Table, how: How) -> Mapping[str, pa.Array]:
    """Returns the values of partition columns, each as an array of one."""
    given = {name.lower(): value for name, value in (how.partition or {}).items()}
    keys = [key.name.lower() for key in table.partition_keys]
    if unknown := sorted(set(given).difference(keys)):
        raise NotFound(f"{table} has no partition column {unknown[0]!r}; it has {', '.join(keys) or 'none'}")
    try:
        return {name: pa.array([value]) for name, value in given.items()}
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise NotConforming(f"{table}: partition={dict(given)}: {error}") from error


def _with_columns(rows: pa.Table, given: Mapping[str, pa.Array]) -> pa.Table:
    for name, value in given.items():
        rows = rows.append_column(name, pa.repeat(value[0], rows.num_rows) if rows.num_rows else pa.nulls(0))
    return rows


def write(
    txn: Transaction, table: Table, parts: Iterable[pa.Table], operation: WriteOperation, partition: str | None = None
) -> int:
    """Writes conformed rows as one statement; see ``append``.

    Args:
        partition: to which all rows belong, if that is known.
    """
    must_be_writable(txn.site, table)
    is_known = not table.is_partitioned or (partition is not None and _exists(txn, table, partition))
    if is_known:
        entity = Entity(database=table.database, table=table.name, partition=partition)
        statement = txn.begin_statement(entity, operation, loaded=table)
    else:
        statement = txn.begin_dynamic_statement(table, operation, partition)
    with tempfile.TemporaryDirectory(prefix="compactor-write-") as scratch:
        waiting = divided(table, parts, scratch)
        is_single = is_known or partition is not None
        if is_single and not waiting and operation is WriteOperation.UPDATE:
            waiting = {partition or "": {0: WaitingRows()}}  # whatever was there is gone
        stage_rows(txn, statement, waiting, {partition or "": statement.location} if is_known else None)
    return sum(one.rows for of_number in waiting.values() for one in of_number.values())


def stage_rows(
    txn: Transaction,
    statement: WriteStatement,
    waiting: Mapping[str, Mapping[int, WaitingRows]],
    locations: Mapping[str, str] | None = None,
    known: Mapping[str, str] | None = None,
) -> Mapping[str, str]:
    """Stages the rows of a statement, by partition and file number; returns the locations of the partitions.

    Args:
        locations: by partition; None where the statement's component is provisional and its partitions are to be recorded.
        known: locations that are checked already, which nobody can have dropped since.
    """
    if locations is None:
        known = known or {}
        locations = locations_of(txn, statement, waiting, known)
        txn.check_partitions(statement.table, locations.keys() - known.keys())
        txn.record_partitions(statement, locations)
    for name, of_number in waiting.items():
        _write(txn, statement, locations[name], of_number)
    return locations


def must_be_writable(site: Site, table: Table) -> None:
    """Refuses tables that are not written here.

    Raises:
        NotSupported: it is one.
    """
    must_be_readable(table)
    if table.sort_columns:
        raise NotSupported(f"{table}: is sorted, and what is written here would not keep its order")
    compression = OutputClass.of_table(table.parameters).compression
    if not is_hive_4(site) and (reason := refused_by_orc_1_5(compression)):
        raise NotSupported(f"{table}: {reason}; change the property of the table")


def parts_of(table: Table, rows: RowSource) -> Iterator[pa.Table]:
    """Yields rows as they are given, in parts of bounded size where they come as a stream.

    Raises:
        NotConforming: they are of another kind than ``Rows``.
    """
    if isinstance(rows, pa.RecordBatch):
        yield pa.Table.from_batches([rows])
    elif isinstance(rows, pa.Table):
        yield rows
    elif isinstance(rows, Scan) and rows.is_within_a_transaction:
        yield from _parts_of_stream(rows.to_arrow_batch_reader())
    elif isinstance(rows, pa.RecordBatchReader):  # not through the C interface, which makes errors texts
        yield from _parts_of_stream(rows)
    elif hasattr(rows, "__arrow_c_stream__"):
        yield from _parts_of_stream(pa.RecordBatchReader.from_stream(rows))
    else:
        raise NotConforming(
            f"{table}: rows are given as {type(rows).__name__}; wanted: a table, batch or reader of pyarrow, or a data frame"
        )


def _parts_of_stream(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Yields one part without rows for a reader without batches: its columns are looked at as any others are."""
    parts = together(reader)
    yield next(parts, reader.schema.empty_table())
    yield from parts


def _exists(txn: Transaction, table: Table, partition: str) -> bool:
    return bool(txn.site.metastore.catalog.partitions(table, [partition]))


def locations_of(
    txn: Transaction, statement: WriteStatement, names: Collection[str], known: Mapping[str, str] = MappingProxyType({})
) -> Mapping[str, str]:
    """Returns the directory of each partition; those that do not exist are added, in the order of their names.

    Args:
        known: the directories of some that exist.

    Raises:
        Refused: they are more than hive.exec.max.dynamic.partitions, or one of them cannot be added.
    """
    site, table = txn.site, statement.table
    most = site.settings.integer(_MOST)
    if len(names) > most:
        raise Refused(
            f"{table}: the rows belong to {len(names)} partitions, {_MOST} is {most}; write them in several statements, or "
            "raise it if they are meant"
        )
    asked = sorted(name for name in names if name not in known)
    there = {part.name: part for part in txn.partitions(table, asked)} if asked else {}
    found = {name: there.get(name) or txn.add_partition(table, name, statement.write_id) for name in asked}
    of_asked = {name: path_of(site.storage, table, part) for name, part in found.items()}
    return {name: known[name] for name in names if name in known} | of_asked


def _write(txn: Transaction, statement: WriteStatement, location: str, of_number: Mapping[int, WaitingRows]) -> None:
    """Stages one directory: a base if it overwrites, else a delta."""
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
                calendar=JULIAN if is_hive_4(txn.site) else 0,
            )
            for number, waiting in sorted(of_number.items())
        ]
        txn.pending.accept(location, acid, outputs, home)
