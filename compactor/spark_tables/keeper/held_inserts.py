"""Several INSERTs of Spark in one transaction. One process begins them, another one commits or aborts them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.base.errors import Refused
from compactor.compaction.entry import Entity
from compactor.locking.lock_requests import LockRequest, LockType, sorted_requests
from compactor.locking.statement_rules import AccessKind
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_transaction import HeldByName, HeldTransaction
from compactor.spark_tables.keeper.held_writes import load_writable_table
from compactor.spark_tables.messages import BeginInserts, BegunInserts, CommitInserts
from compactor.tables.transactions.lock_kinds import find_write_lock
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.shared import begin, finish

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inserts:
    held: HeldTransaction
    statements: tuple[WriteStatement, ...]


class HeldInserts(HeldByName[_Inserts]):
    """The groups of INSERTs of one application that are under way."""

    def begin(self, site: Site, role: str, request: BeginInserts, held: HeldTransaction | None = None) -> BegunInserts:
        """Begins one INSERT for each table, with all locks in one request.

        Args:
            held: the transaction that a statement has begun. Without it, the INSERTs get a new one.

        Raises:
            Refused: a table is named twice, or its mode is observe.
            NotFound: a table does not exist.
            NotSupported: Compactor does not write such a table.
            LockNotGranted: another transaction holds a conflicting lock.
        """
        held = held or HeldTransaction(site, role, writes=load_distinct_tables(site, request.tables))
        try:
            tables = load_distinct_tables(site, request.tables)
            lock_for_inserts(held.txn, tables)
            pairs = [begin(held.txn, table, WriteOperation.INSERT, request.time_zone) for table in tables]
            stores = site.storage.options
            for table in tables:
                stores = held.tokens.standing_in(stores, table.location)
        except BaseException:
            held.abort()
            raise
        self.put(_Inserts(held=held, statements=tuple(statement for statement, _ in pairs)))
        log.info(
            "transaction %d writes into %s for %s", held.txn.id, ", ".join(map(str, tables)), request.place.application
        )
        return BegunInserts(hold=held.hold, works=tuple(work for _, work in pairs), stores=stores)

    def commit(self, request: CommitInserts) -> int:
        """Commits the files that the tasks have staged for all tables; returns the number of rows.

        Raises:
            TransactionAborted: the transaction was lost or has already ended.
            CommitUnknown: the database's answer was lost.
        """
        hold = request.hold
        inserts = self.must_take(hold)
        with inserts.held.finishing():
            pairs = zip(inserts.statements, request.parts, strict=True)
            rows = sum(finish(inserts.held.txn, statement, parts) for statement, parts in pairs)
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
