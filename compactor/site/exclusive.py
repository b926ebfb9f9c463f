"""Locks a table exclusively, for changes that a store without rename cannot make in one step.

See PROTOCOL 5, 7.2, 7.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from compactor.base.errors import CompactorError, LockNotGranted
from compactor.base.ids import TxnId
from compactor.locking.lock_types import LockType
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.site.heartbeat import Heartbeat, heartbeat_period_ms
from compactor.site.site import Site, Target


@contextmanager
def exclusively(
    site: Site,
    target: Target,
    because: str = "its store has no rename, so directories are removed under an exclusive lock",
) -> Iterator[TxnId]:
    """Holds ``target`` exclusively until the block ends; yields the separate read-only transaction.

    The lock is tried but never queued for, because readers behind it would have to wait too. ``because`` begins the message
    if the lock is not granted.

    Raises:
        LockNotGranted: the target is being read or written; the next pass tries again.
    """
    transactions, agent = site.metastore.transactions, site.identity("alone")
    txn = transactions.open(site.user, site.host, type=TxnType.READ_ONLY, agent=agent)[0]
    try:
        request = target.lock(LockType.EXCLUSIVE)
        if site.metastore.locks.try_acquire(txn, [request], site.user, site.host) is None:
            raise LockNotGranted(
                f"{target.entity}: {because}, and the table is being read or written; the next pass tries again"
            )
        with Heartbeat(transactions, [txn], heartbeat_period_ms(site.settings)) as heart:
            yield txn
            heart.check()
    finally:
        with suppress(CompactorError):  # the transaction wrote nothing, so it may have timed out or been aborted
            transactions.commit(txn, agent=agent)


def while_removing(site: Site, target: Target) -> AbstractContextManager[TxnId | None]:
    """Returns the context for removals: an exclusive lock if directories do not vanish with one rename."""
    return nullcontext() if renames(site, target) else exclusively(site, target)


def renames(site: Site, target: Target) -> bool:
    """Returns true if a directory of ``target`` appears and vanishes in one step."""
    return site.storage.capabilities(target.location).renames
