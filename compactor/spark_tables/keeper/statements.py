"""Statements of Spark SQL that read and write: begun before the first row is read, and gone on with by the write."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from compactor.base.errors import TransactionAborted
from compactor.compaction.entry import Entity
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_by_name import UnderWay
from compactor.spark_tables.keeper.held_inserts import existing_once, lock_for_inserts
from compactor.spark_tables.keeper.held_transaction import Held
from compactor.spark_tables.messages import BeginStatement
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.writing.append import must_be_writable

log = logging.getLogger(__name__)
SILENT_S = 600.0  #: that a program may say nothing of a statement that it has begun and not yet written


@dataclass(slots=True, kw_only=True)
class _Statement:
    held: Held
    heard_of: float


class Statements(UnderWay[_Statement]):
    """The statements of one application whose rows nobody writes yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock

    def begin(self, site: Site, role: str, request: BeginStatement) -> str:
        """Begins a statement in a transaction of its own, with all locks in one request (PROTOCOL 14.2); returns its name.

        Raises:
            NotFound: there is no such table.
            NotSupported: one is not written here.
            Refused: a target is named twice, or the mode of one is observe.
            LockNotGranted: somebody holds a conflicting lock.
        """
        targets = existing_once(site, request.targets)
        for table in targets:
            must_be_writable(site, table)
        held = Held(site, role, writes=targets)
        try:
            others = parts_to_read(held.txn, request.reads)
            if request.overwrites:
                [target] = targets
                held.txn.lock_for_overwriting(target, None, others)
            else:
                lock_for_inserts(held.txn, targets, others)
        except BaseException:
            held.abort()
            raise
        self.put(_Statement(held=held, heard_of=self._clock()))
        log.info("transaction %d reads and writes for %s", held.txn.id, request.place.application)
        return held.name

    def held(self, name: str) -> Held:
        """Returns the transaction of a statement.

        Raises:
            TransactionAborted: it is not under way.
        """
        statement = self.find(name)
        if statement is None:
            raise TransactionAborted(
                f"statement {name} is not held: it has ended; nothing was committed, begin it again"
            )
        return statement.held

    def renew(self, name: str) -> bool:
        """Notes that the program of a statement is at work; returns false if it is not under way."""
        statement = self.find(name)
        if statement is not None:
            statement.heard_of = self._clock()
        return statement is not None

    def let_go_of_lost(self) -> None:
        """Ends statements whose program went away, perhaps far from here, before it had their rows written."""
        for statement in self.every():
            if self._clock() - statement.heard_of >= SILENT_S:
                log.warning("transaction %d: nobody has written its rows", statement.held.txn.id)
                self.abort(statement.held.name)


def parts_to_read(txn: Transaction, names: Iterable[str]) -> list[Entity]:
    """Returns what a query of these tables reads: each partition, or a table without any.

    Raises:
        NotFound: there is no such table.
    """
    found = []
    for table in (named_table(txn.site, name) for name in names):
        places = [part.name for part in txn.partitions(table)] if table.is_partitioned else [None]
        found += [Entity(database=table.database, table=table.name, partition=place) for place in places or [None]]
    return found
