"""Plans a scan: takes its locks, then the snapshot, then lists the files once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import describe_unparsable
from compactor.base.errors import (
    BadName,
    NotEnoughHistory,
    NotFound,
    NotSupported,
    SnapshotExpired,
    StorageError,
    TransactionAborted,
)
from compactor.base.ids import WriteId
from compactor.compaction.disagreement import Numbers, find_doubts, must_agree
from compactor.metastore.catalog.values import Column, Partition, Table
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.java_zones import default_zone
from compactor.orc.format.types import TypeKind
from compactor.rows.inputs import inputs_by_number
from compactor.site.files_and_metastore import visibility_transactions
from compactor.site.site import Site, path_of
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import Condition, find_columns
from compactor.tables.filters.partition_constants import may_have, parse_constants
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask, may_hold_rows
from compactor.tables.reading.versions import VersionRange, write_ids_up_to
from compactor.tables.schema import IN_PARTS, NANOSECONDS, PARTS, Selection, arrow_schema, column_type, select
from compactor.tables.transactions.held_locks import is_hive_4
from compactor.tables.transactions.numbers_on_disk import must_miss_no_partition
from compactor.tables.transactions.pending import overlay
from compactor.tables.transactions.transaction import Transaction


def plan_scan(txn: Transaction, table: Table, request: ScanRequest) -> ScanPlan:
    """Plans a scan of ``table``: takes its locks, then the snapshot, and lists the files last.

    Raises:
        NotSupported: the table is not full ACID, or a column has no Arrow type.
        NotFound: the table has no such column; or it was renamed or dropped since it was loaded.
        Refused: the table was altered since it was loaded.
        LockNotGranted: somebody holds a conflicting lock.
        SnapshotExpired: the transaction is over, or its snapshot or version is older than the remaining files.
        ChangesGone: changes of the requested range may be missing.
    """
    must_be_readable(table)
    selection, condition = request.selection(table), request.condition(table)
    deciding = {} if condition is None else find_columns(condition)
    comparable = request.comparable(table)
    chosen = _lock_and_choose(txn, table, condition, comparable)
    must_miss_no_partition(txn.site, table, lambda part: _may_hold(part, table, condition, comparable))
    places = find_places(table, list(deciding))
    write_ids = txn.write_ids(table)
    locations = {part.name: path_of(txn.site.storage, table, part.partition) for part in chosen}
    directories = {part.name: _directory(txn, table, locations[part.name]) for part in chosen}
    is_feed = request.versions is not None and request.versions.since is not None
    if request.versions is None:
        tasks = [task for part in chosen for task in _tasks(locations[part.name], part, directories[part.name], txn)]
    else:
        versions = request.versions.with_end(txn, table)
        versions.must_be_whole(
            table, [(locations[name], directory) for name, directory in directories.items()], write_ids
        )
        assert versions.until is not None
        write_ids = write_ids_up_to(write_ids, versions.until)
        tasks = [task for part in chosen for task in _tasks(locations[part.name], part, directories[part.name])]
        tasks = [
            replace(
                task, inserts=may_hold_rows(task.inserts, write_ids), deletes=may_hold_rows(task.deletes, write_ids)
            )
            for task in tasks
        ]
    return ScanPlan(
        table=str(table),
        txn=txn.id,
        write_ids=write_ids,
        row_type=table.row_type,
        names=tuple(column.name for column in table.columns),
        schema=request.schema(table),
        comparable=comparable,
        columns=selection.columns,
        filter_columns=tuple(place for place in places if place not in selection.columns),
        condition=condition,
        row_ids=request.row_ids,
        default_zone=find_default_zone(txn.site, table),
        is_gregorian=not is_hive_4(txn.site),
        tasks=tuple(task for task in tasks if task.inserts or (is_feed and task.deletes)),
    )


def plan_other_columns(txn: Transaction, table: Table, plan: ScanPlan, request: ScanRequest) -> ScanPlan:
    """Plans to read the columns of ``request`` from the files of ``plan``; ``request`` has no filter."""
    types = request.comparable(table)
    names = {task.partition for task in plan.tasks if task.partition is not None}
    existing = txn.partitions(table, names) if names else ()  # the lock of the plan keeps them
    constants = {partition.name: parse_constants(table, partition, types) for partition in existing}
    return replace(
        plan,
        schema=request.schema(table),
        comparable=types,
        columns=request.selection(table).columns,
        row_ids=request.row_ids,
        tasks=tuple(
            task if task.partition is None else replace(task, constants=constants[task.partition])
            for task in plan.tasks
        ),
    )


def find_default_zone(site: Site, table: Table) -> str | None:
    """Returns the zone of times in stripes that name none.

    Returns None if it is not set, or no column has such times.

    Raises:
        BadSetting: the setting is not a zone.
    """
    if not parse_hive_type(table.row_type).has_zoned_times:
        return None
    return default_zone(site.settings_for(table))


def _lock_and_choose(txn: Transaction, table: Table, condition: Condition | None, types: pa.Schema) -> list[_Part]:
    """Returns the partitions to read, locked and covered by the snapshot.

    They include partitions that were added during the wait for locks, because the snapshot may see their rows.
    """
    parts = _choose_partitions(txn, table, condition, types)
    while True:
        known = [part.name for part in parts]
        _protect(txn, table, known or [None])
        parts = _choose_partitions(txn, table, condition, types)
        if {part.name for part in parts}.issubset(known):
            return parts


def _protect(txn: Transaction, table: Table, partitions: Sequence[str | None]) -> None:
    """Takes the locks, reads the table again, then takes the snapshot."""
    with _translate_loss():
        txn.lock_for_reading(table, partitions)
    txn.must_be_as_loaded(table)
    with _translate_loss():
        txn.write_ids(table)


@contextmanager
def _translate_loss() -> Iterator[None]:
    """Raises SnapshotExpired if the transaction turns out to be over."""
    try:
        yield
    except (TransactionAborted, NotFound) as error:
        raise SnapshotExpired(f"{error}; its snapshot is no longer protected") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A partition and the values of its columns, or a whole table."""

    partition: Partition | None = None
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        return None if self.partition is None else self.partition.name


def partitions_to_read(txn: Transaction, table: Table, request: ScanRequest) -> list[str | None]:
    """Returns the partitions that a scan would read; None stands for a table without partitions.

    Raises:
        BadExpression: the filter does not follow the grammar.
    """
    must_be_readable(table)
    return [part.name for part in _choose_partitions(txn, table, request.condition(table), request.comparable(table))]


def _choose_partitions(txn: Transaction, table: Table, condition: Condition | None, types: pa.Schema) -> list[_Part]:
    """Returns the partitions that may have rows that meet the condition."""
    if not table.is_partitioned:
        return [_Part()]
    existing = txn.partitions(table)
    parts = [_Part(partition=part, constants=parse_constants(table, part, types)) for part in existing]
    deciding = {} if condition is None else find_columns(condition)
    return [part for part in parts if condition is None or may_have(condition, part.constants, deciding)]


def _may_hold(partition: Partition, table: Table, condition: Condition | None, types: pa.Schema) -> bool:
    """Tells whether a partition that is only on disk may have rows that meet the condition."""
    try:
        return condition is None or may_have(
            condition, parse_constants(table, partition, types), find_columns(condition)
        )
    except BadName:  # its directory has no valid partition name
        return True


def must_be_readable(table: Table) -> None:
    """Refuses tables that are not full ACID tables in ORC.

    Raises:
        NotSupported: the table is of another kind.
    """
    if not table.is_full_acid or "orc" not in (table.input_format or "").lower():
        raise NotSupported(
            f"{table}: only full ACID tables in ORC can be read (transactional=true, not insert_only); read other tables "
            "with pyarrow.dataset"
        )


def _tasks(location: str, part: _Part, directory: AcidDirectory, txn: Transaction | None = None) -> Iterator[ScanTask]:
    """Yields the tasks of a partition, with what ``txn`` itself has written there."""
    inserts, deletes = inputs_by_number(directory)
    if txn is not None:
        overlay(inserts, deletes, txn.pending.at(location))
    for number in sorted({*inserts, *deletes}):
        yield ScanTask(
            location=location,
            number=number,
            inserts=tuple(inserts.get(number, ())),
            deletes=tuple(deletes.get(number, ())),
            partition=part.name,
            constants=part.constants,
        )


def _directory(txn: Transaction, table: Table, location: str) -> AcidDirectory:
    listing = txn.site.storage.listing(location)
    _must_be_allocated(txn, table, location, listing.directories)
    try:
        directory = acid_directory(listing, txn.write_ids(table), txn.txns)
    except NotEnoughHistory as error:
        raise SnapshotExpired(f"{table}, {location}: {error}; begin another transaction") from error
    if directory.unparsable:
        raise StorageError(
            f"{location}: {describe_unparsable(directory.unparsable)}; nothing is read while it is there: find out who "
            "wrote it, and move it out of the table"
        )
    return directory


def _must_be_allocated(txn: Transaction, table: Table, location: str, names: Collection[str]) -> None:
    """Refuses a directory with numbers that the metastore never allocated (PROTOCOL 11.3).

    Its rows would silently be missing.

    The metastore is only asked if a name has a number above the snapshot's, if its database is in doubt anyway, or if an
    output would be skipped: a transaction id that was allocated twice may belong to anybody and need not be a compaction.

    Raises:
        Disagreement: ``names`` have a write ID or transaction that the metastore never allocated.
    """
    metastore, write_ids = txn.site.metastore, txn.write_ids(table)
    seen = Numbers(
        newest=txn.txns.high_watermark,
        next_write_id=WriteId(write_ids.high_watermark + 1),
        own=txn.id,
        has_visibility=metastore.dialect.layout.has_visibility,
    )
    outputs = set(visibility_transactions(names).values())
    doubtful = outputs if txn.in_doubt is not None else {output for output in outputs if not txn.txns.is_valid(output)}
    if doubtful:
        rows = metastore.transactions.rows(doubtful)
        seen = replace(seen, compactions={number: row.type.compacts for number, row in rows.items()})
    if next(find_doubts(names, seen), None) is None:
        return
    allocated = replace(
        seen,
        newest=metastore.transactions.newest(),
        next_write_id=metastore.write_ids.next(table.database, table.name),
    )
    must_agree(location, names, allocated)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The arguments of ``Table.scan``, which documents them."""

    row_filter: str | None = None
    selected_fields: tuple[str, ...] | None = None
    row_ids: bool = False
    timestamps: str = NANOSECONDS
    versions: VersionRange | None = None

    def schema(self, table: Table) -> pa.Schema:
        """Returns the schema of the rows.

        Raises:
            NotFound, NotSupported, BadSetting: as for ``arrow_schema`` and ``select``.
        """
        return arrow_schema(table, self.selection(table), row_ids=self.row_ids, timestamps=self.timestamps)

    def selection(self, table: Table) -> Selection:
        """Returns the columns to return."""
        return select(table, self.selected_fields)

    def condition(self, table: Table) -> Condition | None:
        """Binds the filter to the columns of ``table``; None without a filter.

        Raises:
            BadExpression: the filter does not follow the grammar.
        """
        if self.row_filter is None:
            return None
        schema = self.comparable(table)
        kinds = {column.name: _kind(column) for column in (*table.columns, *table.partition_keys)}
        times = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
        return bind(
            self.row_filter,
            schema,
            chars=[name for name, kind in kinds.items() if kind is TypeKind.CHAR],
            parts=[name for name, kind in kinds.items() if kind in times and schema.field(name).type.equals(PARTS)],
        )

    def comparable(self, table: Table) -> pa.Schema:
        """Returns the schema of all columns that have an Arrow type; conditions may compare them.

        Nanoseconds in 64 bits do not reach every timestamp, so a filter compares timestamps in parts instead.
        """
        schema = comparable_schema(table, self.timestamps)
        if self.timestamps != NANOSECONDS:
            return schema
        returned = set(self.schema(table).names)
        exact = comparable_schema(table, IN_PARTS)
        return pa.schema(
            [
                field if field.name in returned and pa.types.is_nested(field.type) else exact.field(field.name)
                for field in schema
            ]
        )


def comparable_schema(table: Table, timestamps: str) -> pa.Schema:
    """Returns the schema of all columns that have an Arrow type; conditions may compare them."""
    names = [column.name for column in (*table.columns, *table.partition_keys) if _has_type(table, column)]
    return arrow_schema(table, select(table, names), timestamps=timestamps)


def find_places(table: Table, names: Sequence[str]) -> tuple[int, ...]:
    """Returns the positions of the columns with these names; partition columns have none."""
    return tuple(place for place, column in enumerate(table.columns) if column.name in names)


def _has_type(table: Table, column: Column) -> bool:
    try:
        column_type(table, column)
    except NotSupported:
        return False
    return True


def _kind(column: Column) -> TypeKind:
    return parse_hive_type(column.type)[0].kind
