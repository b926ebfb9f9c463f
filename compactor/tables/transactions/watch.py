"""Watches for what ends a program's transaction early: its age, and the loss of its locks.

Its age counts while it only reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import Connection

from compactor.base.errors import CompactorError, LockLost, SnapshotExpired
from compactor.base.ids import TxnId
from compactor.metastore.locks.hive_locks import has_lock
from compactor.metastore.metastore import Metastore


class Watch:
    """Watches an open transaction; its heartbeat calls ``check``.

    Its statements set ``writes`` and ``has_locks``. A transaction that writes is not ended for its age.

    Args:
        agent: the process that opened it.
        longest_ms: ``compactor.read.max.age``.
    """

    def __init__(
        self,
        metastore: Metastore,
        txn: TxnId,
        agent: str,
        longest_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metastore, self._txn, self._agent, self._clock = metastore, txn, agent, clock
        self._started_at = clock()
        self.longest_ms = longest_ms
        self.writes = self.has_locks = False
        self.loss: CompactorError | None = None  #: why the transaction is lost

    def begin_again(self, txn: TxnId) -> None:
        """Watches another transaction from now on."""
        self._txn, self._started_at, self.has_locks = txn, self._clock(), False

    def check(self) -> None:
        """Checks the age, and that the locks are still held.

        Raises:
            SnapshotExpired: the transaction was too old, and has been aborted.
            LockLost: its locks are gone.
        """
        try:
            self._check()
        except (SnapshotExpired, LockLost) as error:
            self.loss = error
            raise

    def _check(self) -> None:
        if not self.writes and (self._clock() - self._started_at) * 1000 >= self.longest_ms:
            self._metastore.transactions.abort(self._txn, "older than compactor.read.max.age", agent=self._agent)
            raise SnapshotExpired(
                f"transaction {self._txn} is older than compactor.read.max.age ({self.longest_ms // 1000} s) and was ended; "
                "begin another"
            )
        if self.has_locks and self._metastore.locks.without([self._txn]):
            raise self._lost()

    def must_hold(self, conn: Connection) -> None:
        """Checks in the database transaction of a commit that the locks are still held.

        Raises:
            LockLost: they are gone.
        """
        if self.has_locks and not has_lock(conn, self._txn):
            raise self._lost()

    def _lost(self) -> LockLost:
        return LockLost(
            f"transaction {self._txn} is open but its locks are gone: somebody removed them, and the data they protected "
            "may have changed; begin again"
        )
