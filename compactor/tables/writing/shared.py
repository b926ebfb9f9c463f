"""Begins a statement whose rows other processes write, and finishes it with the files they have staged."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from compactor.acid.names import Base, BucketFile, Delta, DeltaKind
from compactor.base.errors import VerificationFailed
from compactor.metastore.catalog.values import Table
from compactor.orc.codecs.bloom_filters import StripeFilters, common_filters, stripe_filters
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import JULIAN, read_tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.file_pool import Closable
from compactor.rewrite.full_acid.concatenate import EncodedFile, concatenate
from compactor.rewrite.full_acid.output_format import output_of
from compactor.rewrite.plan.unit import Output
from compactor.rewrite.run.attempt_files import attempt_folder
from compactor.rows.new_file import Target
from compactor.rows.remote_source import open_source
from compactor.storage.protocol import Storage
from compactor.tables.transactions.lock_kinds import is_hive_4
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.append import find_locations, must_be_writable
from compactor.tables.writing.insert_files import WaitingRows, write_inserts
from compactor.tables.writing.shape import TravellingShape
from compactor.tables.writing.shared_statement import SharedStatement
from compactor.tables.writing.written_part import WrittenPart


def begin(
    txn: Transaction, table: Table, operation: WriteOperation, time_zone: str | None
) -> tuple[WriteStatement, SharedStatement]:
    """Begins an append (INSERT) or overwrite (UPDATE) of ``table``; returns the statement, and what its writers need.

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
    work = SharedStatement(
        table=TravellingShape.from_table(table),
        attempts=txn.pending.attempts(statement.location),
        write_id=statement.write_id,
        calendar=JULIAN if is_hive_4(txn.site) else 0,
        time_zone=time_zone,
    )
    return statement, work


def finish(txn: Transaction, statement: WriteStatement, parts: Sequence[WrittenPart]) -> int:
    """Accepts the staged files of all writers as directories of the statement; returns the number of rows.

    Raises:
        VerificationFailed: a file does not have the length that its writer reported.
        Refused: the rows belong to too many partitions, to a partition that cannot be added, or to one that has the same
            values as another.
    """
    table = statement.table
    by_partition: dict[str, list[WrittenPart]] = defaultdict(list)
    for part in sorted(parts, key=lambda part: part.statement_id):
        by_partition[part.partition].append(part)
    if statement.operation is WriteOperation.UPDATE and not table.is_partitioned:
        by_partition.setdefault("", [])  # an empty base replaces the old rows
    locations: Mapping[str, str] = {"": statement.location}
    if table.is_partitioned:
        txn.must_replace_all_rows(statement, by_partition)
        locations = find_locations(txn, statement, by_partition)
        txn.check_partitions(table, locations)
    for name, parts_there in by_partition.items():
        if statement.operation is WriteOperation.INSERT:
            _append(txn, statement, locations[name], parts_there)
        else:
            _overwrite(txn, statement, locations[name], parts_there)
    if table.is_partitioned:
        txn.pending.let_go(statement.location)  # while its component still protects it from sweeping (PROTOCOL 14.16)
        txn.record_partitions(statement, locations)
    return sum(part.rows for part in parts)


def _append(txn: Transaction, statement: WriteStatement, location: str, parts: Iterable[WrittenPart]) -> None:
    write_id = statement.write_id
    for part in parts:
        acid = Delta(
            kind=DeltaKind.INSERT, min_write_id=write_id, max_write_id=write_id, statement_id=part.statement_id
        )
        txn.pending.accept_from(location, acid, part.directory, part.outputs)


def _overwrite(txn: Transaction, statement: WriteStatement, location: str, parts: Sequence[WrittenPart]) -> None:
    """Stages a base. It has one file of each number, so files of several writers are concatenated by stripes."""
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
        Target(storage=storage, home=folder, path=path, sees_all=True),
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
