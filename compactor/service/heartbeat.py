"""Keeps a transaction alive while long work goes on, and says when it is not ours any more."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from compactor.errors import CompactorError, LostClaim
from compactor.ids import TxnId
from compactor.metastore.transactions import Transactions

log = logging.getLogger(__name__)


class Heartbeat:
    """A thread that heartbeats ``txn`` every ``period_ms`` (Hive's worker: half of hive.txn.timeout).

    A failed heartbeat is remembered; ``check`` raises it in the working thread, which then stops without a trace.
    """

    def __init__(
        self, transactions: Transactions, txn: TxnId, period_ms: int, also: Callable[[], None] | None = None
    ) -> None:
        self._transactions = transactions
        self._txn = txn
        self._period_s = max(period_ms, 1) / 1000
        self._also = also
        self._stop = threading.Event()
        self._lost: CompactorError | None = None
        self._thread = threading.Thread(target=self._run, name=f"heartbeat-{txn}", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """Nothing while the transaction lives.

        Raises:
            LostClaim: a heartbeat found it aborted or gone.
        """
        if self._lost is not None:
            raise LostClaim(f"transaction {self._txn} is lost: {self._lost}") from self._lost

    def _run(self) -> None:
        while not self._stop.wait(self._period_s):
            try:
                self._transactions.heartbeat(self._txn)
                if self._also is not None:
                    self._also()
            except CompactorError as error:
                log.warning("transaction %s: heartbeat failed: %s", self._txn, error)
                self._lost = error
                return
