"""Deletes, updates and upserts rows.

A scan finds them, their ROW__IDs are deleted, new versions are inserted.

Delete events go by the number of the file that holds a row, which need not be the bucket in its ROW__ID (PROTOCOL 14.4). So
they are written for each task of the scan. Memory holds a bounded number of them; more are sorted on disk.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.acid.names import BucketFile, Delta, DeltaKind
from compactor.base.errors import BadExpression, NotConforming, NotFound, NotSupported, Refused
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.orc.format.hive_types import parse_hive_type
from compactor.rewrite.full_acid.delete_events import EventSorter, SortedEvents, pack_events
from compactor.rewrite.full_acid.output_format import output_of
from compactor.rewrite.plan.unit import Output
from compactor.rewrite.run.attempt_files import attempt_folder
from compactor.site.site import Site
from compactor.tables.filters.expressions import ColumnName, Comparison, Literal, parse
from compactor.tables.filters.partition_constants import char_length
from compactor.tables.reading.scan import THREADS, Scan
from compactor.tables.reading.scan_planning import ScanRequest, partitions_to_read, plan_scan
from compactor.tables.reading.scan_task_reader import read_task
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask
from compactor.tables.schema import IN_PARTS, PARTS, ROW_ID, column_type
from compactor.tables.time_forms import to_encodable
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.append import RowSource, WriteOptions, conform_rows, open_door, read_within, write
from compactor.tables.writing.conform import Door
from compactor.tables.writing.literals import build_literal_array
from compactor.tables.writing.statement_files import WaitingRows, build_keys, write_deleted

Chooser = Callable[[pa.RecordBatch], pa.RecordBatch]  #: returns the rows of a batch that are deleted
# These names have a sign that column names cannot have in Hive.
PLACE = ":place"  #: the position of a key among the known keys
_ROW = ":row"


def delete(txn: Transaction, table: Table, where: str | None) -> int:
    """Deletes the rows for which ``where`` is true (None: all rows) and returns their number.

    Raises:
        BadExpression: ``where`` does not follow the grammar.
        NotSupported: we do not write such a table.
        LockNotGranted: somebody holds a conflicting lock.
        WriteConflict: another transaction changed the table while this one waited for its lock.
    """
    request = ScanRequest(row_filter=where, selected_fields=(), row_ids=True, timestamps=IN_PARTS)
    txn.lock_for_changes(table, partitions_to_read(txn, table, request))
    return Deletion(txn, table).delete_rows(request, lambda batch: batch)


def update(txn: Transaction, table: Table, assignments: Mapping[str, str], where: str | None) -> int:
    """Updates the rows for which ``where`` is true and returns their number.

    Args:
        assignments: the new value of each column: a literal, NULL or the name of another column.

    Raises:
        BadExpression: ``where`` or a value does not follow the grammar.
        NotConforming: a value does not fit the column's type.
        NotSupported: a partition or bucketing column is assigned, so that rows would have to move; delete and append them.
    """
    new_values = Assignments.from_texts(txn.site, table, assignments)
    request = ScanRequest(row_filter=where, row_ids=True, timestamps=IN_PARTS)
    txn.lock_for_changes(table, partitions_to_read(txn, table, request))
    new_rows = WaitingRows()
    with tempfile.TemporaryDirectory(prefix="compactor-update-") as scratch:

        def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
            new_rows.add(new_values.apply(pa.Table.from_batches([batch]).drop_columns([ROW_ID])), scratch)
            return batch

        count = Deletion(txn, table).delete_rows(request, keep)
        if count:
            write(txn, table, (pa.Table.from_batches([batch]) for batch in new_rows.batches()), WriteOperation.INSERT)
    return count


class Deletion:
    """A statement that deletes the rows of a scan; it begins when the first row is found."""

    def __init__(self, txn: Transaction, table: Table) -> None:
        self._txn, self._table = txn, table
        self._statement: WriteStatement | None = None
        self._partitions: dict[str, str] = {}

    def delete_rows(self, request: ScanRequest, take: Chooser) -> int:
        """Deletes the rows of a scan that ``take`` returns, and returns their number."""
        plan = plan_scan(self._txn, self._table, request)
        with tempfile.TemporaryDirectory(prefix="compactor-delete-") as scratch:
            events_of_tasks = (
                (task, events) for task in plan.tasks if (events := self._read_events(plan, task, take, scratch))
            )
            places = groupby(events_of_tasks, key=lambda pair: (pair[0].partition, pair[0].location))
            count = sum(self._stage(*place, tasks) for place, tasks in places)
        if self._statement is not None and self._partitions:
            self._txn.record_partitions(self._statement, self._partitions)
        return count

    def _read_events(self, plan: ScanPlan, task: ScanTask, take: Chooser, scratch: str) -> SortedEvents:
        """Returns the delete events of a task's rows, in key order."""
        sorter = EventSorter(scratch)
        for batch in map(take, read_task(plan, task, self._txn.site.storage, threads=THREADS)):
            if batch.num_rows:
                keys = build_keys([pc.struct_field(batch.column(ROW_ID), [place]) for place in range(3)])
                sorter.add(pack_events(keys, np.full(len(keys), self._begin_once().write_id, dtype=np.int64)))
        return sorter.finish()

    def _stage(
        self, partition: str | None, location: str, events_of_tasks: Iterable[tuple[ScanTask, SortedEvents]]
    ) -> int:
        """Stages the delete events of a table or partition, one file for each task; returns their number."""
        txn, statement = self._txn, self._begin_once()
        if partition is not None:
            txn.check_partitions(self._table, {partition: location})
            self._partitions[partition] = location
        home = txn.pending.attempt(location, _delta(statement))
        outputs: list[Output] = []
        with attempt_folder(txn.site.storage, home) as folder:
            for task, events in events_of_tasks:
                path = f"{folder}/{BucketFile(number=task.number).name}"
                written = write_deleted(path, self._table.row_type, events)
                outputs.append(output_of(DeltaKind.DELETE, path, task.number, written))
            txn.pending.accept(location, _delta(statement), outputs, home)
        return sum(output.rows for output in outputs)

    def _begin_once(self) -> WriteStatement:
        if self._statement is None:
            self._statement = self._txn.begin_statement_of_rows(self._table, WriteOperation.DELETE)
        return self._statement


def _delta(statement: WriteStatement) -> Delta:
    return Delta(
        kind=DeltaKind.DELETE,
        min_write_id=statement.write_id,
        max_write_id=statement.write_id,
        statement_id=statement.statement_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """The new value of each assigned column: an array of one value, or the name of another column."""

    door: Door
    values: Mapping[str, pa.Array | str]

    @classmethod
    def from_texts(cls, site: Site, table: Table, texts: Mapping[str, str]) -> Assignments:
        """Parses the values that are assigned to columns of ``table``.

        Raises:
            BadExpression: a text is neither a literal nor the name of a column.
            NotFound: the table has no such column.
            NotSupported: a partition or bucketing column is assigned.
            NotConforming: a value does not fit the column's type.
            Refused: a column is assigned twice, or none is.
        """
        if not texts:
            raise Refused(f"{table}: no column is assigned; expected at least one, such as {{'status': \"'done'\"}}")
        names = [name.lower() for name in texts]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise Refused(f"{table}: column {twice[0]} is assigned twice; names are the same in any case")
        values = {name.lower(): _value(site, table, name.lower(), text) for name, text in texts.items()}
        return cls(door=open_door(site, table, (*table.columns, *table.partition_keys)), values=values)

    def apply(self, rows: pa.Table) -> pa.Table:
        """Returns ``rows``, with all columns of the table, with the new values.

        As in Hive, a char that is assigned to another column loses its trailing blanks.
        """
        kinds, arrays = dict(self.door.columns), []
        for name in rows.column_names:
            value = self.values.get(name.lower(), name)
            if not isinstance(value, str):
                arrays.append(pa.repeat(value[0], rows.num_rows))
            elif value == name or char_length(kinds[value]) is None:
                arrays.append(rows.column(value))
            else:
                arrays.append(pc.utf8_rtrim(rows.column(value), " "))
        return self.door.conform(pa.table(arrays, names=rows.column_names))


def must_be_assignable(table: Table, names: Iterable[str]) -> None:
    """Refuses columns that an UPDATE cannot assign.

    Raises:
        NotSupported: one is a partition or bucketing column.
        NotFound: the table has no such column.
    """
    keys = {key.name.lower() for key in table.partition_keys}
    for name in (column.lower() for column in names):
        if name in keys or name in (bucketing.lower() for bucketing in table.bucket_columns):
            raise NotSupported(
                f"{table}: {name} is a {'partition' if name in keys else 'bucketing'} column; rows with another value are "
                "stored elsewhere; delete and append them"
            )
        _must_be_known(table, name)


def _must_be_known(table: Table, name: str) -> None:
    known = [column.name.lower() for column in (*table.columns, *table.partition_keys)]
    if name not in known:
        raise NotFound(f"{table} has no column {name!r}; it has {', '.join(known)}")


def _value(site: Site, table: Table, name: str, text: str) -> pa.Array | str:
    """Parses the value that is assigned to column ``name``."""
    columns = {column.name.lower(): column for column in table.columns}
    keys = {key.name.lower(): key for key in table.partition_keys}
    must_be_assignable(table, [name])
    operand = _operand(text)
    if isinstance(operand, ColumnName):
        _must_be_known(table, operand.name)
        return {**columns, **keys}[operand.name].name
    column = columns[name]
    literal = build_literal_array(operand, column_type(table, column), f"{table}: column {column.name}")
    return open_door(site, table, [column]).conform(pa.table({column.name: literal})).column(0).combine_chunks()


def _operand(text: str) -> ColumnName | Literal:
    """Parses a value with the grammar of filters."""
    try:
        expression = parse(f"c = {text}")
    except BadExpression as error:
        raise BadExpression(f"value {text!r}: expected a literal, NULL or the name of a column: {error}") from error
    if not isinstance(expression, Comparison) or not isinstance(expression.left, ColumnName):
        raise BadExpression(f"value {text!r}: expected a literal, NULL or the name of a column")
    return expression.right


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted:
    """The numbers of rows that replaced others and that were added."""

    updated: int
    inserted: int


def upsert(
    txn: Transaction, table: Table, rows: RowSource, join_cols: tuple[str, ...], options: WriteOptions
) -> Upserted:
    """Replaces the rows with the same values of ``join_cols`` by ``rows``, and adds the others.

    NULL equals nothing, so a row with a NULL in its key is always added. The lock excludes all other writers: of two that
    only share it, both would add a key that neither sees.

    Raises:
        NotConforming: two of ``rows`` have the same key, or a column or value does not fit the table.
        NotFound: the table has no such column.
        Refused: no column is named.
        LockNotGranted: somebody holds a conflicting lock.
        WriteConflict: another transaction wrote into the table while this one waited for its lock.
    """
    key = find_key_columns(table, join_cols, "join_cols")
    source = None if isinstance(rows, Scan) else _source(txn.site, table, rows, key, options)
    request = ScanRequest(selected_fields=tuple(key), row_ids=True, timestamps=IN_PARTS)
    txn.lock_for_changes(table, partitions_to_read(txn, table, request), LockType.EXCL_WRITE, must_see_all=True)
    if source is None:
        source = _source(txn.site, table, read_within(txn, rows), key, options)
    if not source.num_rows:
        return Upserted(updated=0, inserted=0)
    known = make_comparable(source.select(key)).append_column(PLACE, pa.array(np.arange(source.num_rows)))
    replaced: set[int] = set()

    def take(batch: pa.RecordBatch) -> pa.RecordBatch:
        places = match_keys(pa.Table.from_batches([batch]).select(key), known)
        replaced.update(places.drop_null().to_pylist())
        return batch.filter(pc.is_valid(places))

    Deletion(txn, table).delete_rows(request, take)
    write(txn, table, [source], WriteOperation.INSERT)
    return Upserted(updated=len(replaced), inserted=source.num_rows - len(replaced))


def _source(site: Site, table: Table, rows: RowSource, key: list[str], options: WriteOptions) -> pa.Table:
    source = pa.concat_tables(list(conform_rows(site, table, rows, options)), promote_options="permissive")
    _must_be_unique(table, source, key)
    return source


def _must_be_unique(table: Table, source: pa.Table, key: list[str]) -> None:
    keys = source.select(key)
    whole = make_comparable(keys.filter(pc.invert(has_null(keys))))
    names = whole.column_names
    counts = whole.append_column(PLACE, pa.array(np.zeros(whole.num_rows, dtype=np.int8)))
    counts = counts.group_by(names).aggregate([(PLACE, "count")])
    twice = counts.filter(pc.greater(counts.column(f"{PLACE}_count"), 1))
    if twice.num_rows:
        values = {name: twice.column(name)[0].as_py() for name in names}
        raise NotConforming(f"{table}: two of the rows have the key {values}; it is unclear which one counts")


def find_key_columns(table: Table, names: Sequence[str], argument: str) -> list[str]:
    """Returns the names of the key columns as the table spells them.

    Raises:
        NotFound: the table has no such column.
        NotSupported: a column is nested.
        Refused: no column is named; ``argument`` is the name of the user's argument.
    """
    known = {column.name.lower(): column.name for column in (*table.columns, *table.partition_keys)}
    if not names:
        raise Refused(f"{table}: {argument} is empty; name the columns that are the key")
    if unknown := [name for name in names if name.lower() not in known]:
        raise NotFound(f"{table} has no column {unknown[0]!r}; it has {', '.join(known)}")
    columns = [known[name.lower()] for name in names]
    for column in (*table.columns, *table.partition_keys):
        if column.name in columns and len(parse_hive_type(column.type)) > 1:
            raise NotSupported(
                f"{table}: column {column.name} is a {column.type}; {argument} cannot have nested columns"
            )
    return columns


def has_null(keys: pa.Table) -> pa.ChunkedArray:
    """Tells for each key whether one of its values is NULL."""
    nulls = pa.chunked_array([pa.array(np.zeros(keys.num_rows, dtype=bool))])
    for column in keys.columns:
        nulls = pc.or_(nulls, pc.is_null(column))
    return nulls


def make_comparable(keys: pa.Table) -> pa.Table:
    """Makes keys comparable by their bits.

    A timestamp becomes two columns, seconds and nanoseconds. Floating-point columns get one form of zero and of NaN.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(keys.column_names, keys.columns, strict=True):
        if not (pa.types.is_timestamp(column.type) or column.type.equals(PARTS)):
            columns[name] = _one_form(column) if pa.types.is_floating(column.type) else column
            continue
        parts = to_encodable(column.combine_chunks(), PARTS)
        for place, part in enumerate(PARTS.names):
            columns[f"{name}.{part}"] = pa.chunked_array([pc.struct_field(parts, [place])])
    return pa.table(columns)


def _one_form(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replaces -0.0 by 0.0, and all NaNs by one."""
    return pc.if_else(pc.is_nan(column), pa.scalar(math.nan, column.type), pc.add(column, pa.scalar(0, column.type)))


def match_keys(keys: pa.Table, known: pa.Table) -> pa.Array:
    """Returns for each of ``keys`` its position among the ``known`` ones, or NULL.

    Args:
        known: distinct comparable keys in the same columns, and ``PLACE``.
    """
    left = make_comparable(keys)
    names = left.column_names
    left = left.append_column(_ROW, pa.array(np.arange(keys.num_rows)))
    right = known.cast(pa.schema([*(left.schema.field(name) for name in names), known.schema.field(PLACE)]))
    joined = left.join(right, keys=names, join_type="left outer", use_threads=False).sort_by(_ROW)
    return joined.column(PLACE).combine_chunks()


def number_keys(keys: pa.Table) -> pa.Table:
    """Returns the distinct ones of comparable ``keys``, numbered by ``PLACE``."""
    unique = keys.group_by(keys.column_names, use_threads=False).aggregate([])
    return unique.append_column(PLACE, pa.array(np.arange(unique.num_rows)))
