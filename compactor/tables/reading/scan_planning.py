"""Plans a scan: takes its locks, then the snapshot, then lists, once."""

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
from compactor.compaction.disagreement import Numbers, doubts, must_agree
from compactor.metastore.catalog.values import Partition, Table
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.java_zones import default_zone
from compactor.rows.inputs import inputs_by_number
from compactor.site.files_and_metastore import visibility_transactions
from compactor.site.site import Site, path_of
from compactor.tables.filters.conditions import Condition, columns_of
from compactor.tables.filters.partition_constants import constants, may_have
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask
from compactor.tables.reading.wanted import Wanted, comparable_schema, places_of
from compactor.tables.transactions.numbers_on_disk import must_miss_no_partition
from compactor.tables.transactions.pending import overlay
from compactor.tables.transactions.transaction import Transaction


def plan_scan(txn: Transaction, table: Table, wanted: Wanted) -> ScanPlan:
    """Plans a scan of ``table``: first its locks, then the snapshot, last the listing (nothing is listed later).

    Raises:
        NotSupported: it is no full ACID table, or a column has no type in Arrow.
        NotFound: there is no such column; or the table was renamed or dropped since it was loaded.
        Refused: the table was altered since it was loaded.
        LockNotGranted: somebody holds a conflicting lock.
        SnapshotExpired: the transaction is over, or its snapshot is older than what is left of the table.
    """
    must_be_readable(table)
    selection, condition = wanted.selection(table), wanted.condition(table)
    deciding = {} if condition is None else columns_of(condition)
    comparable = comparable_schema(table, wanted.timestamps)
    chosen = _protected(txn, table, condition, comparable)
    must_miss_no_partition(txn.site, table, lambda part: _may_hold(part, table, condition, comparable))
    places = places_of(table, list(deciding))
    return ScanPlan(
        table=str(table),
        txn=txn.id,
        write_ids=txn.write_ids(table),
        row_type=table.row_type,
        names=tuple(column.name for column in table.columns),
        schema=wanted.schema(table),
        comparable=comparable,
        columns=selection.columns,
        filter_columns=tuple(place for place in places if place not in selection.columns),
        condition=condition,
        row_ids=wanted.row_ids,
        default_zone=default_zone_of(txn.site, table),
        tasks=tuple(task for part in chosen for task in _tasks(txn, table, part)),
    )


def default_zone_of(site: Site, table: Table) -> str | None:
    """Returns the zone of the times in stripes that name none; None if it is not set, or no column has such times.

    Raises:
        BadSetting: it is not a zone.
    """
    if not parse_hive_type(table.row_type).has_zoned_times:
        return None
    return default_zone(site.settings_for(table))


def _protected(txn: Transaction, table: Table, condition: Condition | None, types: pa.Schema) -> list[_Part]:
    """Returns the partitions to read, locked and seen by the snapshot: also those that were added while the locks were
    waited for, since the snapshot may see their rows."""
    parts = _chosen(txn, table, condition, types)
    while True:
        known = [part.name for part in parts]
        _protect(txn, table, known or [None])
        parts = _chosen(txn, table, condition, types)
        if {part.name for part in parts}.issubset(known):
            return parts


def _protect(txn: Transaction, table: Table, partitions: Sequence[str | None]) -> None:
    """Takes the locks, reads the table again, then takes the snapshot."""
    with _expiring():
        txn.lock_for_reading(table, partitions)
    txn.must_be_as_loaded(table)
    with _expiring():
        txn.write_ids(table)


@contextmanager
def _expiring() -> Iterator[None]:
    """Raises SnapshotExpired where the transaction turns out to be over."""
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


def partitions_to_read(txn: Transaction, table: Table, wanted: Wanted) -> list[str | None]:
    """Returns the partitions that a scan would read, None for a table without any.

    Raises:
        BadExpression: the filter is not of the grammar.
    """
    must_be_readable(table)
    return [
        part.name for part in _chosen(txn, table, wanted.condition(table), comparable_schema(table, wanted.timestamps))
    ]


def _chosen(txn: Transaction, table: Table, condition: Condition | None, types: pa.Schema) -> list[_Part]:
    """Returns the partitions in which a row may meet the condition."""
    if not table.is_partitioned:
        return [_Part()]
    found = txn.partitions(table)
    parts = [_Part(partition=part, constants=constants(table, part, types)) for part in found]
    deciding = {} if condition is None else columns_of(condition)
    return [part for part in parts if condition is None or may_have(condition, part.constants, deciding)]


def _may_hold(partition: Partition, table: Table, condition: Condition | None, types: pa.Schema) -> bool:
    """Returns true if rows of a partition that is only on disk may meet the condition."""
    try:
        return condition is None or may_have(condition, constants(table, partition, types), columns_of(condition))
    except BadName:  # its directory has a name that no partition of the table has
        return True


def must_be_readable(table: Table) -> None:
    """Refuses tables of other kinds.

    Raises:
        NotSupported: it is one.
    """
    if not table.is_full_acid or "orc" not in (table.input_format or "").lower():
        raise NotSupported(
            f"{table}: only full ACID tables in ORC are read here (transactional=true, not insert_only); read other tables "
            "with pyarrow.dataset"
        )


def _tasks(txn: Transaction, table: Table, part: _Part) -> Iterator[ScanTask]:
    location = path_of(txn.site.storage, table, part.partition)
    inserts, deletes = inputs_by_number(_directory(txn, table, location))
    overlay(inserts, deletes, txn.pending.at(location))
    for number in sorted(inserts):
        yield ScanTask(
            location=location,
            number=number,
            inserts=tuple(inserts[number]),
            deletes=tuple(deletes.get(number, ())),
            partition=part.name,
            constants=part.constants,
        )


def _directory(txn: Transaction, table: Table, location: str) -> AcidDirectory:
    listing = txn.site.storage.listing(location)
    _must_be_allocated(txn, table, location, listing.directories)
    try:
        found = acid_directory(listing, txn.write_ids(table), txn.txns)
    except NotEnoughHistory as error:
        raise SnapshotExpired(f"{table}, {location}: {error}; begin another transaction") from error
    if found.unparsable:
        raise StorageError(
            f"{location}: {describe_unparsable(found.unparsable)}; nothing is read while it is there: find out who wrote "
            "it and move it out of the table"
        )
    return found


def _must_be_allocated(txn: Transaction, table: Table, location: str, names: Collection[str]) -> None:
    """Refuses a directory of which the metastore knows nothing: its rows would be missing without a word (PROTOCOL 11.3).

    The metastore is asked only if a name has a number above those of the snapshot, if its database is in doubt anyway, or if
    an output would be passed over: a transaction that was given again may be anybody's, and is no compaction.

    Raises:
        Disagreement: it has never allocated a write ID or a transaction in ``names``.
    """
    metastore, write_ids = txn.site.metastore, txn.write_ids(table)
    seen = Numbers(
        newest=txn.txns.high_watermark,
        next_write_id=WriteId(write_ids.high_watermark + 1),
        own=txn.id,
        has_visibility=metastore.dialect.layout.has_visibility,
    )
    outputs = set(visibility_transactions(names).values())
    if asked := outputs if txn.in_doubt is not None else {one for one in outputs if not txn.txns.is_valid(one)}:
        rows = metastore.transactions.rows(asked)
        seen = replace(seen, compactions={number: row.type.compacts for number, row in rows.items()})
    if next(doubts(names, seen), None) is None:
        return
    allocated = replace(
        seen,
        newest=metastore.transactions.newest(),
        next_write_id=metastore.write_ids.next(table.database, table.name),
    )
    must_agree(location, names, allocated)
