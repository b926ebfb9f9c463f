"""What a scan reads: protects it, takes the snapshot, then lists, once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.partition_names import DEFAULT_PARTITION
from compactor.errors import NotEnoughHistory, NotSupported, SnapshotExpired, StorageError
from compactor.metastore.catalog.values import Partition, Table
from compactor.rows.inputs import Input, inputs_of_directory, inputs_of_originals
from compactor.service.site import path_of
from compactor.tables.pending import overlay
from compactor.tables.schema import arrow_schema, select
from compactor.tables.tasks import ScanPlan, ScanTask
from compactor.tables.transaction import Transaction
from compactor.tables.wanted import Wanted


def plan_scan(txn: Transaction, table: Table, wanted: Wanted) -> ScanPlan:
    """Plans a scan of ``table``: first its locks, then the snapshot, last the listing (nothing is listed later).

    Raises:
        NotSupported: it is no full ACID table, or a column has no type in Arrow.
        NotFound: there is no such column.
        LockNotGranted: somebody holds a conflicting lock.
        SnapshotExpired: the transaction is over, or its snapshot is older than what is left of the table.
    """
    must_be_readable(table)
    selection = select(table, wanted.selected_fields)
    schema = arrow_schema(table, selection, row_ids=wanted.row_ids, timestamps=wanted.timestamps)
    partitions: Sequence[Partition | None] = [None]
    if table.is_partitioned:
        partitions = txn.site.metastore.catalog.partitions(table)
    txn.lock_for_reading(table, [part.name if part else None for part in partitions] or [None])
    return ScanPlan(
        table=str(table),
        txn=txn.id,
        write_ids=txn.write_ids(table),
        row_type=table.row_type,
        schema=schema,
        columns=selection.columns,
        row_ids=wanted.row_ids,
        tasks=tuple(task for part in partitions for task in _tasks(txn, table, part)),
    )


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


def _tasks(txn: Transaction, table: Table, partition: Partition | None) -> Iterator[ScanTask]:
    location = path_of(txn.site.storage, table, partition)
    directory = _directory(txn, table, location)
    inserts, deletes = _by_number(directory)
    overlay(inserts, deletes, txn.pending.at(location))
    for number in sorted(inserts):
        yield ScanTask(
            location=location,
            number=number,
            inserts=tuple(inserts[number]),
            deletes=tuple(deletes.get(number, ())),
            partition=partition.name if partition else None,
            values=_values(table, partition) if partition else {},
        )


def _directory(txn: Transaction, table: Table, location: str) -> AcidDirectory:
    try:
        found = acid_directory(txn.site.storage.listing(location), txn.write_ids(table), txn.txns)
    except NotEnoughHistory as error:
        raise SnapshotExpired(f"{table}, {location}: {error}; begin another transaction") from error
    if found.unparsable:
        raise StorageError(
            f"{location}: {found.unparsable[0]!r} begins like a directory of an ACID table and is none; nothing is read "
            "while it is there, find out who made it"
        )
    return found


def _values(table: Table, partition: Partition) -> dict[str, str | None]:
    keys = [key.name for key in table.partition_keys]
    return {
        key: None if value == DEFAULT_PARTITION else value for key, value in zip(keys, partition.values, strict=True)
    }


def _by_number(directory: AcidDirectory) -> tuple[dict[int, list[Input]], dict[int, list[Input]]]:
    inserts: dict[int, list[Input]] = defaultdict(list)
    deletes: dict[int, list[Input]] = defaultdict(list)
    for number, source in inputs_of_originals(directory):
        inserts[number].append(source)
    for one in (*((directory.base,) if directory.base else ()), *directory.insert_deltas):
        for number, source in inputs_of_directory(one):
            inserts[number].append(source)
    for delta in directory.delete_deltas:
        for number, source in inputs_of_directory(delta):
            deletes[number].append(source)
    return inserts, deletes
