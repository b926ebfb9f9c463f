"""Changes of rows by Spark, and statements of Spark SQL that read before they write."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from compactor.base.errors import TransactionAborted
from compactor.compaction.queue_entry import Entity
from compactor.site.mode import must_write
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_transaction import HeldByName, HeldTransaction
from compactor.spark_tables.keeper.held_writes import load_distinct_tables, lock_for_inserts
from compactor.spark_tables.keeper.scans import must_have_been_seen
from compactor.spark_tables.keeper_requests import BeginChange, BeginStatement, BegunChange, ChangeWork
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.writing.append import must_be_writable
from compactor.tables.writing.row_change import CHECK, Changed
from compactor.tables.writing.shared_statements import ChangeStatements, Intent, begin_changes, finish_changes
from compactor.tables.writing.writer_messages import ChangedPart, SharedChange

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Change:
    transaction: HeldTransaction
    statements: ChangeStatements
    work: ChangeWork
    renewed_at: float
    is_written: bool = False


class HeldChanges(HeldByName[_Change]):
    """The changes of one application that are under way.

    Also the row counts of committed ones until they are read.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counting = threading.Lock()
        self._counts: dict[str, Changed] = {}

    def begin(self, site: Site, role: str, request: BeginChange) -> BegunChange:
        """Begins a change in its own transaction; raises as ``begin_changes`` and ``must_have_been_seen`` do."""
        table = named_table(site, request.table)
        settings = site.settings_for(table)
        must_write(settings, request.table)
        is_checked = settings.boolean(CHECK) if request.is_checked is None else request.is_checked
        intent = Intent(
            deletes=request.deletes,
            assigns=None if request.assigns is None else frozenset(request.assigns),
            inserts=request.inserts,
            is_checked=is_checked,
        )
        transaction = HeldTransaction(site, role, writes=[table])
        try:
            others = list_entities_to_read(transaction.txn, request.reads)
            statements, work = begin_changes(transaction.txn, table, intent, others, request.time_zone)
            must_have_been_seen(transaction.txn, table, work.rows.write_id, request)
            stores = transaction.tokens.standing_in(site.storage.options, table.location)
        except BaseException:
            transaction.abort()
            raise
        change = _Change(
            transaction=transaction,
            statements=statements,
            work=ChangeWork(change=transaction.name, work=work, stores=stores),
            renewed_at=self._clock(),
        )
        self.put(change)
        log.info("transaction %d changes %s for %s", transaction.txn.id, table, request.place.application)
        return _describe_change(transaction.name, work)

    def must_find_transaction(self, name: str) -> HeldTransaction:
        """Returns the transaction of a change that is under way.

        Raises:
            TransactionAborted: the change has ended.
        """
        return self._get(name).transaction

    def work(self, name: str) -> ChangeWork:
        """Returns what the writers of a change need; raises as ``must_find_transaction`` does."""
        change = self._get(name)
        change.is_written = True
        return change.work

    def commit(self, name: str, parts: Sequence[ChangedPart]) -> None:
        """Commits a change with the files that its tasks have staged.

        Raises:
            TransactionAborted: the change was lost or has already ended.
            CommitUnknown: the database's answer was lost.
        """
        change = self.take(name)
        if change is None:
            raise _change_has_ended(name)
        with change.transaction.finishing():
            finish_changes(change.transaction.txn, change.statements, parts)
        counts = Changed.total(part.counts for part in parts)
        with self._counting:
            self._counts[name] = counts
        log.info("transaction %d is committed: %s", change.transaction.txn.id, counts)

    def take_counts(self, name: str) -> Changed:
        """Returns the row counts of a committed change. They can be read once.

        Raises:
            TransactionAborted: the change was not committed.
        """
        with self._counting:
            counts = self._counts.pop(name, None)
        if counts is None:
            raise _change_has_ended(name)
        return counts

    def renew(self, name: str) -> bool:
        """Notes that the program of a change is at work; returns false if it is not under way."""
        change = self.find(name)
        if change is not None:
            change.renewed_at = self._clock()
        return change is not None

    def abort_lost(self) -> None:
        """Aborts changes whose program went away before it wrote them.

        The program may run on another host. Once a change is being written, Spark commits or aborts it.
        """
        for change in self.every():
            if not change.is_written and self._clock() - change.renewed_at >= SILENT_S:
                log.warning("transaction %d: nobody has written its change", change.transaction.txn.id)
                self.abort(change.transaction.name)

    def rewrites(self, name: str | None) -> bool:
        """Returns true if the change gives rows new versions; raises as ``must_find_transaction`` does."""
        return name is not None and all(self._get(name).statements.both)

    def _get(self, name: str) -> _Change:
        change = self.find(name)
        if change is None:
            raise _change_has_ended(name)
        return change


def _describe_change(name: str, work: SharedChange) -> BegunChange:
    table = work.rows.table
    columns = (*table.columns, *table.partition_keys)
    return BegunChange(
        change=name,
        columns=tuple(column.name for column in columns),
        types=tuple(column.type for column in columns),
        partition_keys=tuple(key.name for key in table.partition_keys),
        bucket_columns=table.bucket_columns,
        is_checked=work.is_checked,
    )


def _change_has_ended(name: str) -> TransactionAborted:
    return TransactionAborted(f"change {name} has ended; nothing was committed, begin it again")


SILENT_S = 600.0  #: a statement that is not written yet ends if its program is silent for so long


@dataclass(slots=True, kw_only=True)
class _Statement:
    transaction: HeldTransaction
    renewed_at: float


class HeldStatements(HeldByName[_Statement]):
    """The statements of one application that have begun and are not written yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock

    def begin(self, site: Site, role: str, request: BeginStatement) -> str:
        """Begins a statement in its own transaction, with all locks in one request (PROTOCOL 14.2).

        Returns its name.

        Raises:
            NotFound: a table does not exist.
            NotSupported: Compactor does not write such a target.
            Refused: a target is named twice, or its mode is observe.
            LockNotGranted: another transaction holds a conflicting lock.
        """
        targets = load_distinct_tables(site, request.targets)
        for table in targets:
            must_be_writable(site, table)
        transaction = HeldTransaction(site, role, writes=targets)
        try:
            others = list_entities_to_read(transaction.txn, request.reads)
            if request.overwrites:
                [target] = targets
                transaction.txn.lock_for_overwriting(target, None, others)
            else:
                lock_for_inserts(transaction.txn, targets, others)
        except BaseException:
            transaction.abort()
            raise
        self.put(_Statement(transaction=transaction, renewed_at=self._clock()))
        log.info("transaction %d reads and writes for %s", transaction.txn.id, request.place.application)
        return transaction.name

    def must_find_transaction(self, name: str) -> HeldTransaction:
        """Returns the transaction of a statement.

        Raises:
            TransactionAborted: the statement has ended.
        """
        statement = self.find(name)
        if statement is None:
            raise TransactionAborted(f"statement {name} has ended; nothing was committed, begin it again")
        return statement.transaction

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
                log.warning("transaction %d: nobody has written its rows", statement.transaction.txn.id)
                self.abort(statement.transaction.name)


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
