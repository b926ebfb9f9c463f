"""Begins an UPDATE, DELETE or MERGE whose rows other processes change, and finishes it with the files they have staged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from compactor.acid.names import Delta, DeltaKind
from compactor.compaction.entry import Entity
from compactor.locking.lock_requests import LockType
from compactor.metastore.catalog.values import Table
from compactor.orc.format.tail import JULIAN
from compactor.site.site import path_of
from compactor.tables.reading.scan_planning import must_be_readable, partitions_to_read
from compactor.tables.reading.scan_request import ScanRequest
from compactor.tables.transactions.lock_kinds import is_hive_4
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.append import find_locations, must_be_writable
from compactor.tables.writing.assignments import must_be_assignable
from compactor.tables.writing.shape import TravellingShape
from compactor.tables.writing.shared_statement import SharedChange, SharedStatement
from compactor.tables.writing.written_part import ChangedPart, WrittenPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The kinds of changes that a statement makes, and the columns that it assigns, in any case.

    ``assigns`` is None if it updates nothing. With ``is_checked``, a row may be matched only once.
    """

    deletes: bool = False
    assigns: frozenset[str] | None = None
    inserts: bool = False
    is_checked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStatements:
    """The statements of a change in its transaction: one that deletes, one that inserts, or both."""

    deleting: WriteStatement | None
    inserting: WriteStatement | None

    @property
    def both(self) -> tuple[WriteStatement | None, WriteStatement | None]:
        return self.deleting, self.inserting

    @property
    def every(self) -> tuple[WriteStatement, ...]:
        return tuple(statement for statement in self.both if statement is not None)


def begin_changes(
    txn: Transaction,
    table: Table,
    intent: Intent,
    others: Sequence[Entity] = (),
    time_zone: str | None = None,
) -> tuple[ChangeStatements, SharedChange]:
    """Begins a change of ``table``, the only one of its transaction; returns its statements, and what its writers need.

    It takes the lock of an UPDATE. A change that adds missing rows excludes all other writers, as an upsert does: of two
    that only share the lock, both would add the row that neither sees.

    Args:
        others: the tables or partitions that the statement also reads.
        time_zone: the zone in which an instant becomes a timestamp of Hive, which has no zone.

    Raises:
        NotSupported: we do not write such a table, or a partition or bucketing column is assigned.
        NotFound: an assigned column does not exist.
        LockNotGranted: somebody holds a conflicting lock.
    """
    must_be_readable(table)
    if intent.inserts or intent.assigns is not None:
        must_be_writable(txn.site, table)
    must_be_assignable(table, sorted(intent.assigns or ()))
    partitions = partitions_to_read(txn, table, ScanRequest(selected_fields=()))
    kind = LockType.EXCL_WRITE if intent.inserts else None
    txn.lock_for_changes(table, partitions, kind, must_see_all=intent.inserts, others=others)
    changes, adds = intent.deletes or intent.assigns is not None, intent.inserts or intent.assigns is not None
    statements = ChangeStatements(
        deleting=txn.begin_statement_of_rows(table, WriteOperation.DELETE) if changes else None,
        inserting=txn.begin_statement_of_rows(table, WriteOperation.INSERT) if adds else None,
    )
    first = statements.every[0]
    rows = SharedStatement(
        table=TravellingShape.from_table(table),
        attempts=txn.pending.attempts(first.location),
        write_id=first.write_id,
        calendar=JULIAN if is_hive_4(txn.site) else 0,
        time_zone=time_zone,
    )
    return statements, SharedChange(rows=rows, is_checked=intent.is_checked)


def finish_changes(txn: Transaction, statements: ChangeStatements, parts: Iterable[ChangedPart]) -> None:
    """Accepts the staged files of the writers as directories of their statements.

    Raises:
        VerificationFailed: a file does not have the length that its writer reported.
        Refused: new rows belong to too many partitions, or to a partition that cannot be added.
    """
    staged = [part for changed in parts for part in changed.parts]
    locations = {}
    for statement in statements.every:
        kind = DeltaKind.DELETE if statement is statements.deleting else DeltaKind.INSERT
        locations[kind] = _accept(txn, statement, [part for part in staged if part.kind is kind])
    for statement, places in zip(statements.every, locations.values(), strict=True):
        if statement.table.is_partitioned:
            txn.pending.let_go(
                statement.location
            )  # while its component still protects it from sweeping (PROTOCOL 14.16)
            txn.record_partitions(statement, places)


def _accept(txn: Transaction, statement: WriteStatement, parts: Sequence[WrittenPart]) -> Mapping[str, str]:
    """Accepts the parts of one statement; returns the locations of their partitions."""
    table = statement.table
    locations: Mapping[str, str] = {"": statement.location}
    if table.is_partitioned:
        names = {part.partition for part in parts}
        is_new = statement.operation is WriteOperation.INSERT
        locations = find_locations(txn, statement, names) if is_new else _existing_locations(txn, table, names)
        txn.check_partitions(table, locations)
    by_partition: dict[str, list[WrittenPart]] = defaultdict(list)
    for part in sorted(parts, key=lambda part: part.statement_id):
        by_partition[part.partition].append(part)
    for partition, parts_there in by_partition.items():
        for part in parts_there:
            txn.pending.accept_from(locations[partition], _delta(statement, part), part.directory, part.outputs)
    return locations


def _existing_locations(txn: Transaction, table: Table, names: Collection[str]) -> Mapping[str, str]:
    partitions = {part.name: part for part in txn.partitions(table)}
    return {name: path_of(txn.site.storage, table, partitions[name]) for name in sorted(names)}


def _delta(statement: WriteStatement, part: WrittenPart) -> Delta:
    write_id = statement.write_id
    return Delta(kind=part.kind, min_write_id=write_id, max_write_id=write_id, statement_id=part.statement_id)
