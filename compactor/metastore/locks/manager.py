"""What every lock manager offers, and waiting for a lock with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from compactor.errors import LockNotGranted
from compactor.ids import TxnId
from compactor.locking.requests import LockRequest
from compactor.metastore.locks.lock_rows import Lock, LockRow

_log = logging.getLogger(__name__)


class LockManager(Protocol):
    """Locks by whole requests: all of one or none. ``metastore.locks.Locks`` and ``ZooKeeperLocks`` are two."""

    def acquire(
        self, txn: TxnId, requests: Iterable[LockRequest], user: str, host: str, *, agent: str | None = None
    ) -> Lock:
        """Ask once; what is not acquired is looked at again with ``check``."""
        ...

    def check(self, lock_id: int) -> Lock:
        """Look again at a lock that waits."""
        ...

    def release(self, lock_id: int) -> bool:
        """Let go, or withdraw; False when it was gone already."""
        ...

    def show(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> list[LockRow]:
        """The locks there are."""
        ...


def wait_for(
    manager: LockManager,
    txn: TxnId,
    requests: Iterable[LockRequest],
    user: str,
    host: str,
    *,
    times: Iterable[int],
    sleep: Callable[[float], None],
) -> Lock:
    """Ask, and look again after each of ``times`` (milliseconds; ``locking.retry`` makes them) until it is granted.

    Raises:
        LockNotGranted: the times are over; the request is withdrawn. The message names who stands in the way.
        TransactionAborted: the transaction timed out meanwhile.
    """
    wanted = list(requests)
    lock = manager.acquire(txn, wanted, user, host)
    waited = 0
    for wait in times:
        if lock.is_acquired:
            return lock
        _log.debug("lock %d waits for %s", lock.id, "; ".join(map(str, lock.blockers)))
        sleep(wait / 1000)
        waited += wait
        lock = manager.check(lock.id)
    if lock.is_acquired:
        return lock
    manager.release(lock.id)
    raise LockNotGranted(
        f"{', '.join(map(str, wanted))}: not granted within {waited / 1000:.1f} s; in the way: "
        f"{'; '.join(map(str, lock.blockers))}"
    )
