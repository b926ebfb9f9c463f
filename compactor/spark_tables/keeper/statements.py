"""Statements of Spark SQL that read and write. They begin before the first row is read; the write continues them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from compactor.base.errors import TransactionAborted
from compactor.compaction.entry import Entity
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_transaction import HeldByName, HeldTransaction
from compactor.spark_tables.keeper.held_writes import load_distinct_tables, lock_for_inserts
from compactor.spark_tables.messages import BeginStatement
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.writing.append import must_be_writable

log = logging.getLogger(__name__)
SILENT_S = 600.0  #: a statement that is not written yet ends if its program is silent for so long


@dataclass(slots=True, kw_only=True)
class _Statement:
    held: HeldTransaction
    renewed_at: float


class HeldStatements(HeldByName[_Statement]):
    """The statements of one application that have begun and are not written yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock

    def begin(self, site: Site, role: str, request: BeginStatement) -> str:
        """Begins a statement in its own transaction, with all locks in one request (PROTOCOL 14.2); returns its name.

        Raises:
            NotFound: a table does not exist.
            NotSupported: Compactor does not write such a target.
            Refused: a target is named twice, or its mode is observe.
            LockNotGranted: another transaction holds a conflicting lock.
        """
        targets = load_distinct_tables(site, request.targets)
        for table in targets:
            must_be_writable(site, table)
        held = HeldTransaction(site, role, writes=targets)
        try:
            others = list_entities_to_read(held.txn, request.reads)
            if request.overwrites:
                [target] = targets
                held.txn.lock_for_overwriting(target, None, others)
            else:
                lock_for_inserts(held.txn, targets, others)
        except BaseException:
            held.abort()
            raise
        self.put(_Statement(held=held, renewed_at=self._clock()))
        log.info("transaction %d reads and writes for %s", held.txn.id, request.place.application)
        return held.name

    def held(self, name: str) -> HeldTransaction:
        """Returns the transaction of a statement.

        Raises:
            TransactionAborted: the statement has ended.
        """
        statement = self.find(name)
        if statement is None:
            raise TransactionAborted(f"statement {name} has ended; nothing was committed, begin it again")
        return statement.held

    def renew(self, name: str) -> bool:
        """Notes that the program of a statement is at work; returns false if it is not under way."""
        statement = self.find(name)
        if statement is not None:
            statement.renewed_at = self._clock()
        return statement is not None

    def abort_lost(self) -> None:
        """Aborts statements whose program, perhaps on another host, went away before it wrote their rows."""
        for statement in self.every():
            if self._clock() - statement.renewed_at >= SILENT_S:
                log.warning("transaction %d: nobody has written its rows", statement.held.txn.id)
                self.abort(statement.held.name)


def list_entities_to_read(txn: Transaction, names: Iterable[str]) -> list[Entity]:
    """Returns what a query of these tables reads: every partition, and each table that has none.

    Raises:
        NotFound: a table does not exist.
    """
    entities = []
    for table in (named_table(txn.site, name) for name in names):
        partitions = [part.name for part in txn.partitions(table)] if table.is_partitioned else [None]
        entities += [
            Entity(database=table.database, table=table.name, partition=partition) for partition in partitions or [None]
        ]
    return entities
