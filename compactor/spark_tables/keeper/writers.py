"""Writes of Spark: begun for one process, committed or aborted for another."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.errors import TransactionAborted
from compactor.service.mode import must_write
from compactor.service.site import Site
from compactor.spark_tables.keeper.held import Held
from compactor.spark_tables.keeper.under_way import UnderWay
from compactor.spark_tables.messages import BeginWrite, BegunWrite, Hold
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction import WriteOperation, WriteStatement
from compactor.tables.writing.part_files import WrittenPart
from compactor.tables.writing.shared import begin, finish

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    held: Held
    statement: WriteStatement


class Writers(UnderWay[_Writer]):
    """The writes of one application that are under way."""

    def begin(self, site: Site, role: str, request: BeginWrite) -> BegunWrite:
        """Begins a write in a transaction of its own; see ``shared.begin`` for the errors."""
        table = named_table(site, request.table)
        must_write(site.settings_for(table), request.table)
        operation = WriteOperation.UPDATE if request.overwrite else WriteOperation.INSERT
        held = Held(site, role)
        try:
            statement, work = begin(held.txn, table, operation, request.time_zone)
            stores = held.tokens.standing_in(site.storage.options, table.location)
        except BaseException:
            held.abort()
            raise
        self.put(_Writer(held=held, statement=statement))
        log.info("transaction %d writes into %s for %s", held.txn.id, table, request.place.application)
        return BegunWrite(hold=held.hold, work=work, stores=stores)

    def commit(self, hold: Hold, parts: Sequence[WrittenPart]) -> int:
        """Commits a write with what its tasks have staged; returns the number of rows.

        Raises:
            TransactionAborted: it is not under way: lost, or ended before.
            CommitUnknown: the answer of the database was lost.
        """
        writer = self.take(hold.name)
        if writer is None:
            raise TransactionAborted(
                f"transaction {hold.txn} is no longer held; nothing was committed, write the rows again"
            )
        with writer.held.finishing():
            rows = finish(writer.held.txn, writer.statement, parts)
        log.info("transaction %d is committed with %d rows", hold.txn, rows)
        return rows
