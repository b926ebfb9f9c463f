"""The locks that a transaction takes and holds.

Their kinds depend on the Hive release of the metastore's schema.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from compactor.base.ids import TxnId
from compactor.base.steps import TransactionStep, reach
from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockRequest, LockType
from compactor.locking.statement_locks import write_lock
from compactor.locking.statement_rules import HIVE_3, HIVE_4, AccessKind
from compactor.metastore.locks.lock_manager import wait_for, waiting_times_within
from compactor.site.site import Site


class HeldLocks:
    """The locks of ``txn``."""

    def __init__(self, site: Site, txn: TxnId, user: str) -> None:
        self._site, self._txn, self._user = site, txn, user
        self._strongest: dict[Entity, LockType] = {}

    def take(self, locks: Iterable[tuple[Entity, LockType]]) -> bool:
        """Takes locks in one request, except where the transaction holds one as strong.

        Returns true if it took any.

        A lock on a table stands for those that write its partitions: another request would queue behind whoever waits for
        the table, and so for this transaction. Reads keep the lock on each partition (PROTOCOL 13.1).

        Raises:
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
            TransactionAborted: the transaction timed out while it waited.
        """
        missing: dict[Entity, LockType] = {}
        for entity, kind in locks:
            held = self._strength(entity, missing)
            if kind is not LockType.SHARED_READ:
                held = max(held, self._strength(replace(entity, partition=None), missing))
            if kind.strength > held:
                missing[entity] = kind
        if missing:
            requests = [
                LockRequest(database=entity.database, table=entity.table, partition=entity.partition, type=kind)
                for entity, kind in missing.items()
            ]
            wait_for_locks(self._site, self._txn, requests, self._user)
            self._strongest |= missing
        return bool(missing)

    def take_planned(self, requests: Sequence[LockRequest]) -> None:
        """Takes all locks of a statement, also on databases, in one request; raises the errors of ``take``."""
        if not requests:
            return
        wait_for_locks(self._site, self._txn, requests, self._user)
        for request in requests:
            if request.table is not None:
                entity = Entity(database=request.database, table=request.table, partition=request.partition)
                if request.type.strength > self._strength(entity, {}):
                    self._strongest[entity] = request.type

    def _strength(self, entity: Entity, missing: Mapping[Entity, LockType]) -> int:
        """Returns the strength of the strongest lock on ``entity`` that is held or in ``missing``.

        Returns -1 without any.
        """
        return max((locks[entity].strength for locks in (self._strongest, missing) if entity in locks), default=-1)


def wait_for_locks(site: Site, txn: TxnId, requests: Sequence[LockRequest], user: str) -> None:
    """Takes locks in one request of ``txn``, waiting until nobody holds a conflicting lock.

    Raises:
        LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
        TransactionAborted: the transaction timed out while it waited.
    """
    longest = site.settings.milliseconds("hive.lock.sleep.between.retries")
    wait_for(
        site.metastore.locks,
        txn,
        requests,
        user,
        site.host,
        times=waiting_times_within(site.settings.milliseconds("compactor.lock.wait"), longest),
        sleep=_sleep,
    )
    reach(TransactionStep.LOCKED)


def _sleep(seconds: float) -> None:
    reach(TransactionStep.LOCK_AWAITED)
    time.sleep(seconds)


def find_write_lock(site: Site, kind: AccessKind) -> LockType | None:
    """Returns the lock that a statement takes on the table it writes into; None if locks are off."""
    return write_lock(kind, site.settings, HIVE_4 if is_hive_4(site) else HIVE_3)


def find_excluding_lock(site: Site, kind: LockType) -> LockType:
    """Returns the lock that keeps out the writers that ``kind`` means to exclude.

    An INSERT of Hive 3.1 takes a reader's lock, so only EXCLUSIVE keeps it out.
    """
    return LockType.EXCLUSIVE if kind is LockType.EXCL_WRITE and not is_hive_4(site) else kind


def is_hive_4(site: Site) -> bool:
    """Tells whether the metastore has the schema of a Hive 4 release."""
    return site.metastore.dialect.layout.has_visibility
