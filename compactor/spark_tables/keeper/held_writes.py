"""Writes of Spark. One process begins a write, another one commits or aborts it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.stream_batches import StreamBatch
from compactor.site.mode import must_write
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_transaction import HeldByName, HeldTransaction
from compactor.spark_tables.keeper.stream_position import must_have_been_seen
from compactor.spark_tables.messages import AbortStream, BeginWrite, BegunWrite, CommitWrite
from compactor.tables.definitions import Definition, create_with_commit, must_be_embedded
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.shared import begin, finish

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    held: HeldTransaction
    statement: WriteStatement
    request: BeginWrite

    def batch(self, number: int | None, query: str) -> StreamBatch | None:
        """Returns the batch of a stream that is written; None for a write outside a stream."""
        stream = self.request.stream
        number = self.request.batch if number is None else number
        if stream is None or number is None:
            return None
        return StreamBatch(table_id=self.statement.table.id, stream=stream, number=number, query=query)


class HeldWrites(HeldByName[_Write]):
    """The writes of one application that are under way."""

    def begin(self, site: Site, role: str, request: BeginWrite, held: HeldTransaction | None = None) -> BegunWrite:
        """Begins a write.

        Args:
            held: the transaction that a statement has begun. Without it, the write gets a new one.

        Raises:
            WriteConflict, Refused: as ``must_have_been_seen``.
            CompactorError: as ``shared.begin``.
        """
        if request.stream is not None:
            self.abort_stream(request)
        operation = WriteOperation.UPDATE if request.overwrite else WriteOperation.INSERT
        held = held or HeldTransaction(
            site, role, writes=[load_writable_table(site, request.table)] if request.creates is None else ()
        )
        try:
            table = (
                load_writable_table(site, request.table)
                if request.creates is None
                else _create_table(held.txn, request)
            )
            statement, work = begin(held.txn, table, operation, request.time_zone)
            if request.overwrite:
                must_have_been_seen(held.txn, table, statement.write_id, request)
            stores = held.tokens.standing_in(site.storage.options, table.location)
        except BaseException:
            held.abort()
            raise
        self.put(_Write(held=held, statement=statement, request=request))
        log.info("transaction %d writes into %s for %s", held.txn.id, table, request.place.application)
        return BegunWrite(hold=held.hold, work=work, stores=stores)

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
        txn, batch = write.held.txn, write.batch(request.batch, request.query)
        if batch is not None and _abort_if_committed(write.held, batch):
            return 0
        with write.held.finishing():
            rows = finish(txn, write.statement, request.parts)
            if batch is not None:
                txn.with_commit.append(txn.site.metastore.stream_batches.record(txn.id, batch))
        log.info("transaction %d is committed with %d rows", hold.txn, rows)
        return rows

    def abort_stream(self, request: BeginWrite | AbortStream) -> bool:
        """Aborts the batch of the request's stream that is under way; returns false if no batch is."""
        writes = [write for write in self.every() if _stream_key(write.request) == _stream_key(request)]
        aborted = [self.abort(write.held.name) for write in writes]
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


def _abort_if_committed(held: HeldTransaction, batch: StreamBatch) -> bool:
    """Returns true if ``batch`` is already committed, and aborts the second attempt."""
    try:
        is_committed = held.txn.site.metastore.stream_batches.is_committed(batch)
    except BaseException:
        held.abort()
        raise
    if is_committed:
        held.abort()
        log.info(
            "batch %d of stream %s is already committed; transaction %d, which wrote it once more, is aborted",
            batch.number,
            batch.stream,
            held.txn.id,
        )
    return is_committed


def _stream_key(request: BeginWrite | AbortStream) -> tuple[str | None, ...]:
    place = request.place
    return place.metastore, place.config, request.table.lower(), request.stream
