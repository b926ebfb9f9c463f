"""A statement whose rows other processes write: begun here, and finished with what they have staged."""

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
from compactor.tables.writing.append import locations_of, must_be_writable
from compactor.tables.writing.insert_files import WaitingRows, write_inserts
from compactor.tables.writing.shape import TravellingShape
from compactor.tables.writing.shared_statement import SharedStatement
from compactor.tables.writing.written_part import WrittenPart


def begin(
    txn: Transaction, table: Table, operation: WriteOperation, time_zone: str | None
) -> tuple[WriteStatement, SharedStatement]:
    """Begins an append (INSERT) or overwrite (UPDATE) of ``table``, the only statement on it in its transaction; returns
    it, and what its writers need to know.

    Raises:
        NotSupported: the table is none that is written here.
        LockNotGranted: somebody holds a conflicting lock.
        WriteConflict: as with ``append.overwrite``.
    """
    must_be_writable(txn.site, table)
    if operation is WriteOperation.UPDATE:
        txn.lock_for_overwriting(table, None)
    statement = txn.begin_statement_of_rows(table, operation)
    work = SharedStatement(
        table=TravellingShape.of(table),
        attempts=txn.pending.attempts(statement.location),
        write_id=statement.write_id,
        calendar=JULIAN if is_hive_4(txn.site) else 0,
        time_zone=time_zone,
    )
    return statement, work


def finish(txn: Transaction, statement: WriteStatement, parts: Sequence[WrittenPart]) -> int:
    """Takes what the writers have staged as the statement's directories, one set of parts for each writer; returns how many
    rows they are.

    Raises:
        VerificationFailed: a file is not as long as its writer said.
        Refused: they belong to too many partitions, or to one that cannot be added.
    """
    table = statement.table
    of_partition: dict[str, list[WrittenPart]] = defaultdict(list)
    for part in sorted(parts, key=lambda one: one.statement_id):
        of_partition[part.partition].append(part)
    if statement.operation is WriteOperation.UPDATE and not table.is_partitioned:
        of_partition.setdefault("", [])  # whatever was there is gone
    locations: Mapping[str, str] = {"": statement.location}
    if table.is_partitioned:
        locations = locations_of(txn, statement, of_partition)
        txn.check_partitions(table, locations)
    for name, of_one in of_partition.items():
        if statement.operation is WriteOperation.INSERT:
            _append(txn, statement, locations[name], of_one)
        else:
            _overwrite(txn, statement, locations[name], of_one)
    if table.is_partitioned:
        txn.pending.let_go(statement.location)  # before the component goes for which it would be swept (PROTOCOL 14.16)
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
    """Stages a base. It has one file of each number: those of several writers are put together, stripe by stripe."""
    acid = Base(write_id=statement.write_id)
    if len(parts) == 1:
        txn.pending.accept_from(location, acid, parts[0].directory, parts[0].outputs)
        return
    of_number: dict[int, list[Output]] = defaultdict(list)
    for part in parts:
        for output in part.outputs:
            of_number[output.number].append(output)
    storage = txn.site.storage
    home = txn.pending.attempt(location, acid)
    with attempt_folder(storage, home) as folder:
        outputs = [_together(storage, statement.table, of_one, folder) for _, of_one in sorted(of_number.items())]
        txn.pending.accept(location, acid, outputs or [_empty(folder, statement)], home)


def _empty(folder: str, statement: WriteStatement) -> Output:
    return write_inserts(
        folder,
        statement.table,
        WaitingRows(),
        write_id=statement.write_id,
        statement_id=statement.statement_id,
        number=0,
    )


def _together(storage: Storage, table: Table, outputs: Sequence[Output], folder: str) -> Output:
    """Writes the stripes of files of one number, in the order of their writers, to one file."""
    number = outputs[0].number
    path = os.path.join(folder, BucketFile(number=number).name)
    types = acid_types(parse_hive_type(table.row_type))
    filters: list[StripeFilters] = []
    for output in reversed(outputs):
        with closing(_opened(storage, output)) as source:
            tail = read_tail(source)
            filters += [stripe_filters(source, tail, number) for number in range(len(tail.stripes))]
    like = replace(tail, stripes=(), stripe_statistics=(), statistics=(), user_metadata={}, rows=0)
    like = replace(like, filters=common_filters(filters, [], types))
    made = concatenate(
        [EncodedFile(opener=partial(_opened, storage, output)) for output in outputs],
        Target(storage=storage, home=folder, path=path, sees_all=True),
        like=like,
        types=types,
    )
    return output_of(DeltaKind.INSERT, path, number, made.written)


def _opened(storage: Storage, output: Output) -> Closable:
    source = open_source(storage, output.path)
    if source.length != output.length:
        source.close()
        raise VerificationFailed(
            f"{output.path}: {source.length} bytes, its writer wrote {output.length}; nothing was named"
        )
    return source
