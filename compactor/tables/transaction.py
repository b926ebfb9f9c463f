"""A writer's transaction: locks, write IDs and components first, then files, then commit or abort.

``with writing(site) as txn:`` commits when the block ends and aborts when it raises. A component is written before any
file of it can exist, so that an aborted transaction stays known as long as its files exist (PROTOCOL 8).
"""

from __future__ import annotations

import enum
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from compactor.acid.write_ids import ValidWriteIdList
from compactor.compaction.entry import Entity
from compactor.compaction.forgetting_aborts import reaching
from compactor.errors import CommitUnknown, CompactorError, LockNotGranted, Refused, StorageError, TransactionAborted
from compactor.ids import TxnId, WriteId
from compactor.locking.lock_types import LockType
from compactor.locking.retry import waiting_times_within
from compactor.locking.statement_locks import write_lock
from compactor.locking.statement_rules import AccessKind
from compactor.service.heartbeat import Heartbeat
from compactor.service.site import Site, Target


class WriteOperation(enum.Enum):
    """A value of TC_OPERATION_TYPE."""

    INSERT = "i"
    UPDATE = "u"  #: INSERT OVERWRITE and TRUNCATE; row updates are deletes and inserts
    DELETE = "d"


#: Decides, together with the site's ``hive.txn.xlock.*``, which lock is taken.
_WHAT = {
    WriteOperation.INSERT: AccessKind.INSERT,
    WriteOperation.DELETE: AccessKind.DELETE,
    WriteOperation.UPDATE: AccessKind.INSERT_OVERWRITE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatement:
    """One statement; it writes to ``delta_<write ID>_<write ID>_<statement ID>`` below ``location``."""

    entity: Entity
    operation: WriteOperation
    write_id: WriteId
    statement_id: int
    location: str
    target: Target


class Transaction:
    """An open transaction that writes. Made by ``writing``."""

    def __init__(self, site: Site, txn: TxnId, user: str, heart: Heartbeat) -> None:
        self._site = site
        self._user = user
        self._heart = heart
        self._statements: Counter[tuple[str, str]] = Counter()
        self._components: set[tuple[Entity, WriteOperation]] = set()
        self._locked: set[tuple[Entity, LockType]] = set()
        self._entered: set[str] = set()  # locations that held nothing of this transaction's write IDs
        self.id = txn

    def statement(self, entity: Entity, operation: WriteOperation) -> WriteStatement:
        """Begins the next statement on ``entity``: takes its lock and write ID, and records it before its files are made.

        Statement IDs count within one table, as Hive's do within a transaction.

        Raises:
            NotFound: the table or partition does not exist.
            Refused: the table is not transactional.
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
            TransactionAborted: the transaction timed out.
            StorageError: a directory holds the write ID already: the metastore was restored, or is another's.
        """
        self._heart.check()
        target = self._site.target(entity)
        if not target.table.is_transactional:
            raise Refused(f"{entity}: the table is not transactional; set transactional=true when it is created")
        kind = write_lock(_WHAT[operation], self._site.settings)
        if kind is not None:
            self._lock(target, kind)
        write_id = self._site.metastore.write_ids.allocate(self.id, entity.database, entity.table)
        self._must_be_unused(target, write_id)
        if (entity, operation) not in self._components:
            self._site.metastore.write_ids.add_component(self.id, entity, operation.value, write_id)
            self._components.add((entity, operation))
        table = (entity.database, entity.table)
        number = self._statements[table]
        self._statements[table] += 1
        return WriteStatement(
            entity=entity,
            operation=operation,
            write_id=write_id,
            statement_id=number,
            location=target.location,
            target=target,
        )

    def snapshot(self, target: Target) -> ValidWriteIdList:
        """Returns the write IDs of a table that this transaction sees, including its own."""
        return self._site.write_ids(target.table, self._site.metastore.transactions.snapshot(self.id))

    def _must_be_unused(self, target: Target, write_id: WriteId) -> None:
        """Refuses a write ID whose directory exists before this transaction has made one (PROTOCOL 11.12)."""
        if target.location in self._entered:
            return
        name = reaching(self._site.storage.listing(target.location), write_id)
        if name is not None:
            raise StorageError(
                f"{target.entity}: the metastore allocated write ID {write_id}, and {name} reaches it already; its database "
                "is older than the table's files (restored from a backup?); nothing was written, compare both before "
                "anybody writes again"
            )
        self._entered.add(target.location)

    def _lock(self, target: Target, kind: LockType) -> None:
        if (target.entity, kind) in self._locked:
            return
        locks = self._site.metastore.locks
        lock = locks.acquire(self.id, [target.lock(kind)], self._user, self._site.host)
        settings = self._site.settings
        longest = settings.milliseconds("hive.lock.sleep.between.retries")
        for wait in waiting_times_within(settings.milliseconds("compactor.lock.wait"), longest):
            if lock.is_acquired:
                break
            time.sleep(wait / 1000)
            lock = locks.check(lock.id)
        if not lock.is_acquired:
            locks.release(lock.id)
            held = "; ".join(map(str, lock.blockers))
            raise LockNotGranted(f"{target.entity}: no {kind.name} lock within compactor.lock.wait; in the way: {held}")
        self._locked.add((target.entity, kind))


@contextmanager
def writing(site: Site, user: str | None = None) -> Iterator[Transaction]:
    """Opens a transaction that commits at the end of the block, or aborts when the block raises.

    Raises:
        TransactionAborted: it timed out, or another writer of the same rows won.
        CommitUnknown: the answer to the commit was lost; nothing was aborted.
    """
    owner = user or site.user
    txn = site.metastore.transactions.open(owner, site.host, agent=site.identity("writer"))[0]
    period = site.settings.milliseconds("hive.txn.timeout") // 2
    try:
        with Heartbeat(site.metastore.transactions, [txn], period) as heart:
            yield Transaction(site, txn, owner, heart)
            heart.check()
        site.metastore.transactions.commit(txn)
    except (CommitUnknown, TransactionAborted):
        raise
    except BaseException:
        with suppress(CompactorError):  # the original error says more; a transaction that cannot be aborted times out
            site.metastore.transactions.abort(txn, "the writer failed")
        raise
