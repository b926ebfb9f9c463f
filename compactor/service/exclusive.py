"""The table alone, for what a store without directory rename cannot do in one step (PROTOCOL 5, 7.2, 7.3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from compactor.errors import CompactorError, LockNotGranted
from compactor.locking.lock_types import LockType
from compactor.metastore.transactions.rows import TxnType
from compactor.service.heartbeat import Heartbeat
from compactor.service.site import Site, Target


@contextmanager
def exclusively(site: Site, target: Target) -> Iterator[None]:
    """Holds ``target`` exclusively until the block ends, in a transaction of its own that writes nothing.

    The lock is tried, never queued for: a reader behind it would wait too.

    Raises:
        LockNotGranted: somebody reads or writes it; the next pass tries again.
    """
    transactions = site.metastore.transactions
    txn = transactions.open(site.user, site.host, type=TxnType.READ_ONLY, agent=site.identity("alone"))[0]
    try:
        request = target.lock(LockType.EXCLUSIVE)
        if site.metastore.locks.try_acquire(txn, [request], site.user, site.host) is None:
            raise LockNotGranted(
                f"{target.entity}: its store has no rename, so directories are removed under an exclusive lock, and "
                "somebody reads or writes the table; the next pass tries again"
            )
        with Heartbeat(transactions, [txn], site.settings.milliseconds("hive.txn.timeout") // 2) as heart:
            yield
            heart.check()
    finally:
        with suppress(CompactorError):  # timed out or aborted by somebody: it has nothing to lose
            transactions.commit(txn)


def to_take_away(site: Site, target: Target) -> AbstractContextManager[None]:
    """What directories are taken away in: nothing where each vanishes by one rename, else ``exclusively``."""
    return nullcontext() if renames(site, target) else exclusively(site, target)


def renames(site: Site, target: Target) -> bool:
    """Whether a directory of ``target`` appears and vanishes in one step."""
    return site.storage.capabilities(target.location).renames
