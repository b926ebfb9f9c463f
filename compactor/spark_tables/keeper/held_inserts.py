"""Several INSERTs of Spark in one transaction: begun for one process, committed or aborted for another."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.base.errors import Refused
from compactor.compaction.entry import Entity
from compactor.locking.lock_requests import LockRequest, sorted_requests
from compactor.locking.lock_types import LockType
from compactor.locking.statement_rules import AccessKind
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_by_name import UnderWay
from compactor.spark_tables.keeper.held_transaction import Held
from compactor.spark_tables.keeper.held_writes import existing
from compactor.spark_tables.messages import BeginInserts, BegunInserts, CommitInserts
from compactor.tables.transactions.lock_kinds import lock_of
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.shared import begin, finish

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inserts:
    held: Held
    statements: tuple[WriteStatement, ...]


class Inserts(UnderWay[_Inserts]):
    """The groups of INSERTs of one application that are under way."""

    def begin(self, site: Site, role: str, request: BeginInserts, held: Held | None = None) -> BegunInserts:
        """Begins a statement on each table, in a transaction of their own, with all locks in one request, or in the one that
        a statement has begun.

        Raises:
            Refused: a table is named twice; or the mode of one is observe.
            NotFound: there is no such table.
            NotSupported: one is not written here.
            LockNotGranted: somebody holds a conflicting lock.
        """
        held = held or Held(site, role, writes=existing_once(site, request.tables))
        try:
            tables = existing_once(site, request.tables)
            lock_for_inserts(held.txn, tables)
            begun = [begin(held.txn, table, WriteOperation.INSERT, request.time_zone) for table in tables]
            stores = site.storage.options
            for table in tables:
                stores = held.tokens.standing_in(stores, table.location)
        except BaseException:
            held.abort()
            raise
        self.put(_Inserts(held=held, statements=tuple(statement for statement, _ in begun)))
        log.info(
            "transaction %d writes into %s for %s", held.txn.id, ", ".join(map(str, tables)), request.place.application
        )
        return BegunInserts(hold=held.hold, works=tuple(work for _, work in begun), stores=stores)

    def commit(self, request: CommitInserts) -> int:
        """Commits what the tasks have staged for all tables; returns the number of rows.

        Raises:
            TransactionAborted: it is not under way: lost, or ended before.
            CommitUnknown: the answer of the database was lost.
        """
        hold = request.hold
        inserts = self.must_take(hold)
        with inserts.held.finishing():
            pairs = zip(inserts.statements, request.parts, strict=True)
            rows = sum(finish(inserts.held.txn, statement, parts) for statement, parts in pairs)
        log.info("transaction %d is committed with %d rows", hold.txn, rows)
        return rows


def existing_once(site: Site, names: Sequence[str]) -> list[Table]:
    """Returns the tables that are to be written; raises as ``existing`` does.

    Raises:
        Refused: one is named twice.
    """
    tables = [existing(site, name) for name in names]
    if len({table.id for table in tables}) < len(tables):
        raise Refused(f"{', '.join(names)}: a table is named twice; write its rows with one INSERT")
    return tables


def lock_for_inserts(txn: Transaction, tables: Sequence[Table], to_read: Sequence[Entity] = ()) -> None:
    """Takes the locks of all tables in one request, so that no two groups wait for each other."""
    kind = lock_of(txn.site, AccessKind.INSERT)
    if kind is None:
        return
    writing = [LockRequest(database=table.database, table=table.name, type=kind) for table in tables]
    reading = [
        LockRequest(database=one.database, table=one.table, partition=one.partition, type=LockType.SHARED_READ)
        for one in to_read
    ]
    txn.lock_as_planned(sorted_requests([*writing, *reading]))
