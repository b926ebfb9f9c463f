"""Begins a statement whose rows other processes write or change, and finishes it with their files."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from compactor.acid.names import Base, BucketFile, Delta, DeltaKind
from compactor.base.errors import VerificationFailed
from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.orc.codecs.bloom_filters import StripeFilters, common_filters, stripe_filters
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import read_tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.file_pool import Closable
from compactor.rewrite.full_acid.concatenate import EncodedFile, concatenate
from compactor.rewrite.full_acid.output_format import output_of
from compactor.rewrite.plan.unit import Output
from compactor.rewrite.run.attempt_files import attempt_folder
from compactor.rows.new_file import NewFileTarget
from compactor.rows.remote_source import open_source
from compactor.site.site import path_of
from compactor.storage.protocol import Storage
from compactor.tables.reading.scan_planning import ScanRequest, must_be_readable, partitions_to_read
from compactor.tables.transactions.held_locks import is_hive_4
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.append import find_locations, must_be_writable
from compactor.tables.writing.changes import must_be_assignable
from compactor.tables.writing.statement_files import WaitingRows, write_inserts
from compactor.tables.writing.writer_messages import (
    ChangedPart,
    SharedChange,
    SharedStatement,
    TravellingShape,
    WrittenPart,
)


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


def begin_rows(
    txn: Transaction, table: Table, operation: WriteOperation, time_zone: str | None
) -> tuple[WriteStatement, SharedStatement]:
    """Begins an append (INSERT) or overwrite (UPDATE) of ``table``.

    Returns the statement, and what its writers need.

    It must be the only statement on the table in its transaction.

    Raises:
        NotSupported: we do not write such a table.
        LockNotGranted: somebody holds a conflicting lock.
        WriteConflict: as for ``append.overwrite``.
    """
    must_be_writable(txn.site, table)
    if operation is WriteOperation.UPDATE:
        txn.lock_for_overwriting(table, None)
    statement = txn.begin_statement_of_rows(table, operation)
    return statement, _share(txn, statement, time_zone)


def finish_rows(txn: Transaction, statement: WriteStatement, parts: Sequence[WrittenPart]) -> int:
    """Accepts the staged files of all writers as directories of the statement; returns the number of rows.

    Raises:
        VerificationFailed: a file does not have the length that its writer reported.
        Refused: the rows belong to too many partitions, to a partition that cannot be added, or to one that has the same
            values as another.
    """
    _record(txn, statement, _accept(txn, statement, parts))
    return sum(part.rows for part in parts)


def begin_changes(
    txn: Transaction,
    table: Table,
    intent: Intent,
    others: Sequence[Entity] = (),
    time_zone: str | None = None,
) -> tuple[ChangeStatements, SharedChange]:
    """Begins a change of ``table``, the only one of its transaction.

    Returns its statements, and what its writers need.

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
    rows = _share(txn, statements.every[0], time_zone)
    return statements, SharedChange(rows=rows, is_checked=intent.is_checked)


def finish_changes(txn: Transaction, statements: ChangeStatements, parts: Iterable[ChangedPart]) -> None:
    """Accepts the staged files of the writers as directories of their statements.

    Raises:
        VerificationFailed: a file does not have the length that its writer reported.
        Refused: new rows belong to too many partitions, or to a partition that cannot be added.
    """
    staged = [part for changed in parts for part in changed.parts]
    locations = []
    for statement in statements.every:
        kind = DeltaKind.DELETE if statement is statements.deleting else DeltaKind.INSERT
        locations.append(_accept(txn, statement, [part for part in staged if part.kind is kind]))
    for statement, places in zip(statements.every, locations, strict=True):
        _record(txn, statement, places)


def _share(txn: Transaction, statement: WriteStatement, time_zone: str | None) -> SharedStatement:
    """Describes a statement for its writers."""
    return SharedStatement(
        table=TravellingShape.from_table(statement.table),
        attempts=txn.pending.attempts(statement.location),
        write_id=statement.write_id,
        is_gregorian=not is_hive_4(txn.site),
        time_zone=time_zone,
    )


def _accept(txn: Transaction, statement: WriteStatement, parts: Sequence[WrittenPart]) -> Mapping[str, str]:
    """Accepts the parts of one statement; returns the locations of their partitions."""
    table, overwrites = statement.table, statement.operation is WriteOperation.UPDATE
    by_partition: dict[str, list[WrittenPart]] = defaultdict(list)
    for part in sorted(parts, key=lambda part: part.statement_id):
        by_partition[part.partition].append(part)
    if overwrites and not table.is_partitioned:
        by_partition.setdefault("", [])  # an empty base replaces the old rows
    locations: Mapping[str, str] = {"": statement.location}
    if table.is_partitioned:
        txn.must_replace_all_rows(statement, by_partition)
        deletes = statement.operation is WriteOperation.DELETE
        locations = (
            _existing_locations(txn, table, by_partition) if deletes else find_locations(txn, statement, by_partition)
        )
        txn.check_partitions(table, locations)
    for partition, parts_there in by_partition.items():
        if overwrites:
            _overwrite(txn, statement, locations[partition], parts_there)
        else:
            for part in parts_there:
                txn.pending.accept_from(locations[partition], _delta(statement, part), part.directory, part.outputs)
    return locations


def _record(txn: Transaction, statement: WriteStatement, locations: Mapping[str, str]) -> None:
    """Records the partitions of a statement, whose own component covers the table until then."""
    if statement.table.is_partitioned:
        txn.pending.let_go(statement.location)  # while its component still protects it from sweeping (PROTOCOL 14.16)
        txn.record_partitions(statement, locations)


def _existing_locations(txn: Transaction, table: Table, names: Collection[str]) -> Mapping[str, str]:
    partitions = {part.name: part for part in txn.partitions(table)}
    return {name: path_of(txn.site.storage, table, partitions[name]) for name in sorted(names)}


def _delta(statement: WriteStatement, part: WrittenPart) -> Delta:
    write_id = statement.write_id
    return Delta(kind=part.kind, min_write_id=write_id, max_write_id=write_id, statement_id=part.statement_id)


def _overwrite(txn: Transaction, statement: WriteStatement, location: str, parts: Sequence[WrittenPart]) -> None:
    """Stages a base.

    It has one file of each number, so files of several writers are concatenated by stripes.
    """
    acid = Base(write_id=statement.write_id)
    if len(parts) == 1:
        txn.pending.accept_from(location, acid, parts[0].directory, parts[0].outputs)
        return
    by_number: dict[int, list[Output]] = defaultdict(list)
    for part in parts:
        for output in part.outputs:
            by_number[output.number].append(output)
    storage = txn.site.storage
    home = txn.pending.attempt(location, acid)
    with attempt_folder(storage, home) as folder:
        outputs = [
            _concatenate(storage, statement.table, outputs_there, folder)
            for _, outputs_there in sorted(by_number.items())
        ]
        txn.pending.accept(location, acid, outputs or [_write_empty(folder, statement)], home)


def _write_empty(folder: str, statement: WriteStatement) -> Output:
    return write_inserts(
        folder,
        statement.table,
        WaitingRows(),
        write_id=statement.write_id,
        statement_id=statement.statement_id,
        number=0,
    )


def _concatenate(storage: Storage, table: Table, outputs: Sequence[Output], folder: str) -> Output:
    """Concatenates the stripes of files of one number, in the order of their writers."""
    number = outputs[0].number
    path = os.path.join(folder, BucketFile(number=number).name)
    types = acid_types(parse_hive_type(table.row_type))
    filters: list[StripeFilters] = []
    for output in reversed(outputs):
        with closing(_open(storage, output)) as source:
            tail = read_tail(source)
            filters += [stripe_filters(source, tail, number) for number in range(len(tail.stripes))]
    like = replace(tail, stripes=(), stripe_statistics=(), statistics=(), user_metadata={}, rows=0)
    like = replace(like, filters=common_filters(filters, [], types))
    concatenated = concatenate(
        [EncodedFile(opener=partial(_open, storage, output)) for output in outputs],
        NewFileTarget(storage=storage, home=folder, path=path, sees_all=True),
        like=like,
        types=types,
    )
    return output_of(DeltaKind.INSERT, path, number, concatenated.written)


def _open(storage: Storage, output: Output) -> Closable:
    source = open_source(storage, output.path)
    if source.length != output.length:
        source.close()
        raise VerificationFailed(
            f"{output.path} has {source.length} bytes, but its writer wrote {output.length}; nothing was published"
        )
    return source
