"""The age at which a transaction that only reads is ended, so that a forgotten one does not hold back every cleaner."""

from __future__ import annotations

import time
from collections.abc import Callable

from compactor.errors import SnapshotExpired
from compactor.ids import TxnId
from compactor.metastore.transactions.transactions import Transactions


class Age:
    """The age of one open transaction, which its heartbeat checks. ``is_waived`` once it writes: then it is not forgotten.

    Args:
        longest_ms: ``compactor.read.max.age``.
    """

    def __init__(
        self, transactions: Transactions, txn: TxnId, longest_ms: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._transactions, self._txn, self._clock = transactions, txn, clock
        self._begun = clock()
        self.longest_ms = longest_ms
        self.is_waived = False

    def begin_again(self, txn: TxnId) -> None:
        """Counts from now on, for another transaction."""
        self._txn, self._begun = txn, self._clock()

    def check(self) -> None:
        """Aborts the transaction if it is too old.

        Raises:
            SnapshotExpired: it was.
        """
        if self.is_waived or (self._clock() - self._begun) * 1000 < self.longest_ms:
            return
        self._transactions.abort(self._txn, "older than compactor.read.max.age")
        raise SnapshotExpired(f"it is older than compactor.read.max.age ({self.longest_ms // 1000} s) and was ended")
