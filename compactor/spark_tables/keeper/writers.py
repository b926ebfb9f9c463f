"""Writes of Spark: begun for one process, committed or aborted for another."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.errors import CompactorError, TransactionAborted
from compactor.service.mode import must_write
from compactor.service.site import Site
from compactor.spark_tables.keeper.held import Held
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


class Writers:
    """The writes of one application that are under way, by the name of what is held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writers: dict[str, _Writer] = {}

    def __bool__(self) -> bool:
        return bool(self._writers)

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
        with self._lock:
            self._writers[held.name] = _Writer(held=held, statement=statement)
        log.info("transaction %d writes into %s for %s", held.txn.id, table, request.place.application)
        return BegunWrite(hold=held.hold, work=work, stores=stores)

    def commit(self, hold: Hold, parts: Sequence[WrittenPart]) -> int:
        """Commits a write with what its tasks have staged; returns the number of rows.

        Raises:
            TransactionAborted: it is not under way: lost, or ended before.
            CommitUnknown: the answer of the database was lost.
        """
        writer = self._taken(hold.name)
        if writer is None:
            raise TransactionAborted(
                f"transaction {hold.txn} is no longer held; nothing was committed, write the rows again"
            )
        try:
            with writer.held.lock:
                writer.held.must_be_open()
                rows = finish(writer.held.txn, writer.statement, parts)
        except BaseException:
            writer.held.abort()
            raise
        writer.held.commit()
        log.info("transaction %d is committed with %d rows", hold.txn, rows)
        return rows

    def abort(self, hold: Hold) -> bool:
        """Ends a write without a trace; returns false if it is not under way."""
        writer = self._taken(hold.name)
        if writer is None:
            return False
        self._end(writer)
        return True

    def abort_all(self) -> None:
        """Ends all that are under way."""
        for writer in list(self._writers.values()):
            self.abort(writer.held.hold)

    def _end(self, writer: _Writer) -> None:
        txn = writer.held.txn.id
        try:
            writer.held.abort()
        except CompactorError as error:
            log.warning("transaction %d: %s; it times out", txn, error)
        log.info("transaction %d, a write, is aborted", txn)

    def _taken(self, name: str) -> _Writer | None:
        with self._lock:
            return self._writers.pop(name, None)
