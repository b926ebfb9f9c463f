"""Keeps transactions alive during long work, and reports lost ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from compactor.acid import txn_states
from compactor.base.errors import CompactorError, LostClaim
from compactor.base.ids import TxnId
from compactor.metastore.transactions.transactions import Transactions
from compactor.settings.precedence import Settings
from compactor.site.threads import Periodic

log = logging.getLogger(__name__)


def heartbeat_period_ms(settings: Settings) -> int:
    """Returns the time between two heartbeats: half of ``hive.txn.timeout``, as Hive's worker waits."""
    return settings.milliseconds("hive.txn.timeout") // 2


class Heartbeat(Periodic):
    """A thread that sends heartbeats of ``txns`` every ``period_ms``.

    It remembers lost transactions. ``check`` raises in the working thread, which then stops and leaves nothing behind.
    """

    def __init__(
        self,
        transactions: Transactions,
        txns: Iterable[TxnId],
        period_ms: int,
        after_beat: Callable[[], None] | None = None,
    ) -> None:
        self._txns = dict.fromkeys(txns)
        super().__init__(f"heartbeat-{min(self._txns, default=0)}", max(period_ms, 1) / 1000)
        self._transactions = transactions
        self._lock = threading.Lock()
        self._after_beat = after_beat
        self._lost: dict[TxnId, str] = {}

    def check(self, txn: TxnId | None = None) -> None:
        """Raises if ``txn`` is lost, or without an argument if any of the transactions is.

        Raises:
            LostClaim: a heartbeat failed, or found the transaction aborted or gone.
        """
        for lost, why in list(self._lost.items()):
            if txn in (None, lost):
                raise LostClaim(f"transaction {lost} is lost: {why}")

    def take(self, txn: TxnId) -> None:
        """Begins the heartbeats of one more transaction."""
        with self._lock:
            self._txns[txn] = None

    def let_go(self, txn: TxnId) -> None:
        """Stops the heartbeats of ``txn``, which is about to end."""
        with self._lock:
            self._txns.pop(txn, None)

    def _act(self) -> bool:
        with self._lock:  # so that none of them ends during the heartbeat
            if self._txns:
                self._beat()
        return bool(self._txns)

    def _beat(self) -> None:
        txns = list(self._txns)
        try:
            dead = {
                txn: f"it is {'gone' if state is None else txn_states.NAMES[state]}"
                for txn, state in self._transactions.heartbeat_all(txns).items()
            }
            if self._after_beat is not None and not dead:
                self._after_beat()
        except CompactorError as error:
            dead = dict.fromkeys(txns, str(error))
        for txn, why in dead.items():
            log.warning("transaction %s: heartbeat failed: %s", txn, why)
            self._txns.pop(txn, None)
        self._lost |= dead
