"""Writes of Spark and groups of INSERTs. One process begins a write, another one commits or aborts it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.base.errors import Refused
from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockRequest, LockType, sorted_requests
from compactor.locking.statement_rules import AccessKind
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.stream_batches import StreamBatch
from compactor.site.mode import must_write
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_transaction import HeldByName, HeldTransaction
from compactor.spark_tables.keeper.scans import must_have_been_seen
from compactor.spark_tables.keeper_requests import (
    AbortStream,
    BeginInserts,
    BeginWrite,
    BegunInserts,
    BegunWrite,
    CommitInserts,
    CommitWrite,
)
from compactor.tables.definitions import Definition, create_with_commit, must_be_embedded
from compactor.tables.store import named_table
from compactor.tables.transactions.held_locks import find_write_lock
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.shared_statements import begin_rows, finish_rows

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _HeldWrite:
    transaction: HeldTransaction
    statement: WriteStatement
    request: BeginWrite

    def batch(self, number: int | None, query: str) -> StreamBatch | None:
        """Returns the batch of a stream that is written; None for a write outside a stream."""
        stream = self.request.stream
        number = self.request.batch if number is None else number
        if stream is None or number is None:
            return None
        return StreamBatch(table_id=self.statement.table.id, stream=stream, number=number, query=query)


class HeldWrites(HeldByName[_HeldWrite]):
    """The writes of one application that are under way."""

    def begin(
        self, site: Site, role: str, request: BeginWrite, transaction: HeldTransaction | None = None
    ) -> BegunWrite:
        """Begins a write.

        Args:
            transaction: the transaction that a statement has begun. Without it, the write gets a new one.

        Raises:
            WriteConflict, Refused: as ``must_have_been_seen``.
            CompactorError: as ``shared_statements.begin_rows``.
        """
        if request.stream is not None:
            self.abort_stream(request)
        operation = WriteOperation.UPDATE if request.overwrite else WriteOperation.INSERT
        transaction = transaction or HeldTransaction(
            site, role, writes=[load_writable_table(site, request.table)] if request.creates is None else ()
        )
        try:
            table = (
                load_writable_table(site, request.table)
                if request.creates is None
                else _create_table(transaction.txn, request)
            )
            statement, work = begin_rows(transaction.txn, table, operation, request.time_zone)
            if request.overwrite:
                must_have_been_seen(transaction.txn, table, statement.write_id, request)
            stores = transaction.tokens.standing_in(site.storage.options, table.location)
        except BaseException:
            transaction.abort()
            raise
        self.put(_HeldWrite(transaction=transaction, statement=statement, request=request))
        log.info("transaction %d writes into %s for %s", transaction.txn.id, table, request.place.application)
        return BegunWrite(hold=transaction.hold, work=work, stores=stores)

    def commit(self, request: CommitWrite) -> int:
        """Commits a write with the files that its tasks have staged; returns the number of rows.

        A batch of a stream that is already committed is aborted: its rows are there.

        Raises:
            TransactionAborted: the write was lost or has already ended.
            CommitUnknown: the database's answer was lost.
            Refused: the stream belongs to another query, or a later batch of it is committed.
        """
        hold = request.hold
        write = self.must_take(hold)
        txn, batch = write.transaction.txn, write.batch(request.batch, request.query)
        if batch is not None and _abort_if_committed(write.transaction, batch):
            return 0
        with write.transaction.finishing():
            rows = finish_rows(txn, write.statement, request.parts)
            if batch is not None:
                txn.with_commit.append(txn.site.metastore.stream_batches.record(txn.id, batch))
        log.info("transaction %d is committed with %d rows", hold.txn, rows)
        return rows

    def abort_stream(self, request: BeginWrite | AbortStream) -> bool:
        """Aborts the batch of the request's stream that is under way; returns false if no batch is."""
        writes = [write for write in self.every() if _stream_key(write.request) == _stream_key(request)]
        aborted = [self.abort(write.transaction.name) for write in writes]
        return any(aborted)


def load_writable_table(site: Site, name: str) -> Table:
    """Returns a table to write.

    Raises:
        NotFound: the table does not exist.
        Refused: its mode is observe.
    """
    table = named_table(site, name)
    must_write(site.settings_for(table), name)
    return table


def _create_table(txn: Transaction, request: BeginWrite) -> Table:
    """Returns the table that the commit creates; see ``create_with_commit`` for the errors."""
    creation = request.creates
    assert creation is not None
    database, _, name = request.table.partition(".")
    must_be_embedded(txn.site, request.table)
    must_write(txn.site.settings.of_database(database), request.table)
    definition = Definition(
        schema=dict(creation.columns),
        partitioned_by=creation.partitioned_by,
        clustered_by=(creation.clustered_by, creation.buckets) if creation.clustered_by else None,
        properties=dict(creation.properties),
        location=creation.location,
    )
    return create_with_commit(txn, database, name, definition)


def _abort_if_committed(transaction: HeldTransaction, batch: StreamBatch) -> bool:
    """Returns true if ``batch`` is already committed, and aborts the second attempt."""
    try:
        is_committed = transaction.txn.site.metastore.stream_batches.is_committed(batch)
    except BaseException:
        transaction.abort()
        raise
    if is_committed:
        transaction.abort()
        log.info(
            "batch %d of stream %s is already committed; transaction %d, which wrote it once more, is aborted",
            batch.number,
            batch.stream,
            transaction.txn.id,
        )
    return is_committed


def _stream_key(request: BeginWrite | AbortStream) -> tuple[str | None, ...]:
    place = request.place
    return place.metastore, place.config, request.table.lower(), request.stream


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inserts:
    transaction: HeldTransaction
    statements: tuple[WriteStatement, ...]


class HeldInserts(HeldByName[_Inserts]):
    """The groups of INSERTs of one application that are under way."""

    def begin(
        self, site: Site, role: str, request: BeginInserts, transaction: HeldTransaction | None = None
    ) -> BegunInserts:
        """Begins one INSERT for each table, with all locks in one request.

        Args:
            transaction: the transaction that a statement has begun. Without it, the INSERTs get a new one.

        Raises:
            Refused: a table is named twice, or its mode is observe.
            NotFound: a table does not exist.
            NotSupported: Compactor does not write such a table.
            LockNotGranted: another transaction holds a conflicting lock.
        """
        transaction = transaction or HeldTransaction(site, role, writes=load_distinct_tables(site, request.tables))
        try:
            tables = load_distinct_tables(site, request.tables)
            lock_for_inserts(transaction.txn, tables)
            pairs = [begin_rows(transaction.txn, table, WriteOperation.INSERT, request.time_zone) for table in tables]
            stores = site.storage.options
            for table in tables:
                stores = transaction.tokens.standing_in(stores, table.location)
        except BaseException:
            transaction.abort()
            raise
        self.put(_Inserts(transaction=transaction, statements=tuple(statement for statement, _ in pairs)))
        log.info(
            "transaction %d writes into %s for %s",
            transaction.txn.id,
            ", ".join(map(str, tables)),
            request.place.application,
        )
        return BegunInserts(hold=transaction.hold, works=tuple(work for _, work in pairs), stores=stores)

    def commit(self, request: CommitInserts) -> int:
        """Commits the files that the tasks have staged for all tables; returns the number of rows.

        Raises:
            TransactionAborted: the transaction was lost or has already ended.
            CommitUnknown: the database's answer was lost.
        """
        hold = request.hold
        inserts = self.must_take(hold)
        with inserts.transaction.finishing():
            pairs = zip(inserts.statements, request.parts, strict=True)
            rows = sum(finish_rows(inserts.transaction.txn, statement, parts) for statement, parts in pairs)
        log.info("transaction %d is committed with %d rows", hold.txn, rows)
        return rows


def load_distinct_tables(site: Site, names: Sequence[str]) -> list[Table]:
    """Returns the tables to write; raises as ``load_writable_table`` does.

    Raises:
        Refused: a table is named twice.
    """
    tables = [load_writable_table(site, name) for name in names]
    if len({table.id for table in tables}) < len(tables):
        raise Refused(f"{', '.join(names)}: a table is named twice; write its rows with one INSERT")
    return tables


def lock_for_inserts(txn: Transaction, tables: Sequence[Table], to_read: Sequence[Entity] = ()) -> None:
    """Locks all tables in one request, so that two groups of INSERTs never wait for each other."""
    kind = find_write_lock(txn.site, AccessKind.INSERT)
    if kind is None:
        return
    writing = [LockRequest(database=table.database, table=table.name, type=kind) for table in tables]
    reading = [
        LockRequest(database=entity.database, table=entity.table, partition=entity.partition, type=LockType.SHARED_READ)
        for entity in to_read
    ]
    txn.lock_as_planned(sorted_requests([*writing, *reading]))
