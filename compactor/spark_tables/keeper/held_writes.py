"""Writes of Spark: begun for one process, committed or aborted for another."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.stream_batches import StreamBatch
from compactor.site.mode import must_write
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_by_name import UnderWay
from compactor.spark_tables.keeper.held_transaction import Held
from compactor.spark_tables.keeper.stream_position import must_have_been_seen
from compactor.spark_tables.messages import AbortStream, BeginWrite, BegunWrite, CommitWrite
from compactor.tables.definitions import Definition, create_with_commit, must_be_embedded
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.shared import begin, finish

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    held: Held
    statement: WriteStatement
    request: BeginWrite

    def batch(self, number: int | None, query: str) -> StreamBatch | None:
        """Returns the batch that is written; None for a write that belongs to no stream."""
        stream, of_request = self.request.stream, self.request.batch
        number = of_request if number is None else number
        if stream is None or number is None:
            return None
        return StreamBatch(table_id=self.statement.table.id, stream=stream, number=number, query=query)


class Writers(UnderWay[_Writer]):
    """The writes of one application that are under way."""

    def begin(self, site: Site, role: str, request: BeginWrite, held: Held | None = None) -> BegunWrite:
        """Begins a write in a transaction of its own, or in the one that its statement has begun.

        Raises:
            WriteConflict, Refused: as ``must_have_been_seen`` says.
            CompactorError: as ``shared.begin`` does.
        """
        if request.stream is not None:
            self.abort_stream(request)
        operation = WriteOperation.UPDATE if request.overwrite else WriteOperation.INSERT
        held = held or Held(site, role, writes=[existing(site, request.table)] if request.creates is None else ())
        try:
            table = existing(site, request.table) if request.creates is None else _created(held.txn, request)
            statement, work = begin(held.txn, table, operation, request.time_zone)
            if request.overwrite:
                must_have_been_seen(held.txn, table, statement.write_id, request)
            stores = held.tokens.standing_in(site.storage.options, table.location)
        except BaseException:
            held.abort()
            raise
        self.put(_Writer(held=held, statement=statement, request=request))
        log.info("transaction %d writes into %s for %s", held.txn.id, table, request.place.application)
        return BegunWrite(hold=held.hold, work=work, stores=stores)

    def commit(self, request: CommitWrite) -> int:
        """Commits a write with what its tasks have staged; returns the number of rows. A batch of a stream that is committed
        already leaves no trace.

        Raises:
            TransactionAborted: it is not under way: lost, or ended before.
            CommitUnknown: the answer of the database was lost.
            Refused: the stream is another query's, or a later batch of it is committed.
        """
        hold = request.hold
        writer = self.must_take(hold)
        txn, batch = writer.held.txn, writer.batch(request.batch, request.query)
        if batch is not None and _was_committed(writer.held, batch):
            return 0
        with writer.held.finishing():
            rows = finish(txn, writer.statement, request.parts)
            if batch is not None:
                txn.with_commit.append(txn.site.metastore.stream_batches.recording(txn.id, batch))
        log.info("transaction %d is committed with %d rows", hold.txn, rows)
        return rows

    def abort_stream(self, request: BeginWrite | AbortStream) -> bool:
        """Ends the batch of the request's stream that is under way without a trace; returns false if there is none."""
        found = [one for one in self.every() if _stream_of(one.request) == _stream_of(request)]
        ended = [self.abort(one.held.name) for one in found]
        return any(ended)


def existing(site: Site, name: str) -> Table:
    """Returns a table that is to be written.

    Raises:
        NotFound: there is no such table.
        Refused: its mode is observe.
    """
    table = named_table(site, name)
    must_write(site.settings_for(table), name)
    return table


def _created(txn: Transaction, request: BeginWrite) -> Table:
    """Returns the table that comes with the commit; see ``create_with_commit`` for the errors."""
    asked = request.creates
    assert asked is not None
    database, _, name = request.table.partition(".")
    must_be_embedded(txn.site, request.table)
    must_write(txn.site.settings.of_database(database), request.table)
    wanted = Definition(
        schema=dict(asked.columns),
        partitioned_by=asked.partitioned_by,
        clustered_by=(asked.clustered_by, asked.buckets) if asked.clustered_by else None,
        properties=dict(asked.properties),
        location=asked.location,
    )
    return create_with_commit(txn, database, name, wanted)


def _was_committed(held: Held, batch: StreamBatch) -> bool:
    """Tells whether ``batch`` is committed, and gives up what was written again then."""
    try:
        is_committed = held.txn.site.metastore.stream_batches.is_committed(batch)
    except BaseException:
        held.abort()
        raise
    if is_committed:
        held.abort()
        log.info(
            "batch %d of stream %s was committed before; transaction %d is given up",
            batch.number,
            batch.stream,
            held.txn.id,
        )
    return is_committed


def _stream_of(request: BeginWrite | AbortStream) -> tuple[str | None, ...]:
    place = request.place
    return place.metastore, place.config, request.table.lower(), request.stream
