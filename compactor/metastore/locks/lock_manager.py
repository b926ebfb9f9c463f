"""The interface of every lock manager, and waiting for a lock with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from compactor.base.errors import LockNotGranted, NotFound, TransactionAborted
from compactor.base.ids import TxnId
from compactor.locking.lock_types import LockRequest
from compactor.metastore.locks.lock_rows import Lock, LockRow

FIRST_WAIT_MS = 100
LEAST_CAP_MS = 15_000  #: Hive's minimum for the longest wait, whatever ``hive.lock.sleep.between.retries`` says


def waiting_times_within(total_ms: int, longest_ms: int) -> tuple[int, ...]:
    """Returns the milliseconds before each try: 100, doubled up to ``longest_ms``.

    They add up to ``total_ms``; the last one is shortened to fit.

    Args:
        total_ms: ``compactor.lock.wait``.
        longest_ms: ``hive.lock.sleep.between.retries``.
    """
    cap = max(LEAST_CAP_MS, longest_ms)
    times: list[int] = []
    wait, remaining = FIRST_WAIT_MS, total_ms
    while remaining > 0:
        times.append(min(wait, remaining))
        remaining -= times[-1]
        wait = min(wait * 2, cap)
    return tuple(times)


_log = logging.getLogger(__name__)


class LockManager(Protocol):
    """Grants all locks of a request or none. ``Locks`` and ``ZooKeeperLocks`` implement it."""

    def acquire(
        self, txn: TxnId, requests: Iterable[LockRequest], user: str, host: str, *, agent: str | None = None
    ) -> Lock:
        """Requests locks once; ``check`` tries a request again that was not granted."""
        ...

    def check(self, lock_id: int) -> Lock:
        """Checks a waiting lock again."""
        ...

    def release(self, lock_id: int) -> bool:
        """Releases a lock or withdraws a request; returns false if it no longer exists."""
        ...

    def show(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> list[LockRow]:
        """Returns the locks that are held or waited for."""
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
    """Requests locks, and checks them after each of ``times`` until they are granted.

    ``times`` are ms from ``locking.lock_waits``.

    Raises:
        LockNotGranted: not granted after the last of ``times``. The request is withdrawn; the message names the blockers.
        TransactionAborted: the transaction timed out meanwhile.
    """
    request_list = list(requests)
    lock = manager.acquire(txn, request_list, user, host)
    waited = 0
    for wait in times:
        if lock.is_acquired:
            return lock
        _log.debug("lock %d waits for %s", lock.id, "; ".join(map(str, lock.blockers)))
        sleep(wait / 1000)
        waited += wait
        try:
            lock = manager.check(lock.id)
        except NotFound as error:  # a lock goes with its transaction
            raise TransactionAborted(f"transaction {txn} was ended while it waited: {error}; begin again") from error
    if lock.is_acquired:
        return lock
    manager.release(lock.id)
    raise LockNotGranted(
        f"{', '.join(map(str, request_list))}: not granted within {waited / 1000:.1f} s; in the way: "
        f"{'; '.join(map(str, lock.blockers))}"
    )
