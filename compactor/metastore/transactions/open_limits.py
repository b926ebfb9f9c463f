"""Limits on open transactions, and the rows that opening one leaves behind (``hive.*txn*`` of a site)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from compactor.acid import txn_states
from compactor.base.errors import Refused
from compactor.metastore.schema.tables import TXNS

_log = logging.getLogger(__name__)

OPEN_TXN_TIMEOUT_MS = 1_000  #: ``hive.txn.opentxn.timeout``: how long drawing an id and inserting its row may take
_FREE_AGAIN = 0.9  #: of the limit: once it has been reached, opening resumes below this


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnLimits:
    """A site's settings of its transactions; the defaults are Hive's."""

    max_open: int = 100_000  #: ``hive.max.open.txns``
    counted_each_ms: int = 1_000  #: ``hive.count.open.txns.interval``
    max_batch: int = 1_000  #: ``hive.txn.max.open.batch``
    open_timeout_ms: int = OPEN_TXN_TIMEOUT_MS
    min_history_level: bool = True  #: ``hive.txn.use.minhistorylevel``
    min_history_write_id: bool | None = None  #: ``hive.txn.use.minhistorywriteid``; None: what the schema's Hive does


class OpenLimit:
    """The gate of ``hive.max.open.txns``.

    It is shut when that many are open, and open again below nine tenths of them.

    As in Hive the rows are counted now and then, and each process has its own gate; those it opened since count too.
    """

    def __init__(self, limits: TxnLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_open = limits.max_open
        self._interval = limits.counted_each_ms / 1000
        self._clock = clock
        self._counted_at: float | None = None
        self._open = 0
        self._shut = False

    def check(self, conn: Connection) -> None:
        """Checks that there is room for another transaction.

        Raises:
            Refused: there are too many, in Hive's words.
        """
        now = self._clock()
        if self._counted_at is None or now - self._counted_at >= self._interval:
            self._open = conn.execute(select(func.count()).where(TXNS.c.TXN_STATE == txn_states.OPEN)).scalar_one()
            self._counted_at = now
        self._shut = self._open >= (self._max_open * _FREE_AGAIN if self._shut else self._max_open)
        if self._shut:
            _log.warning("%d transactions are open, %d are allowed", self._open, self._max_open)
            raise Refused(
                "Maximum allowed number of open transactions has been reached. See hive.max.open.txns. "
                f"({self._open} are open, {self._max_open} are allowed; opening goes on below "
                f"{self._max_open * _FREE_AGAIN:g})"
            )

    def opened(self, count: int) -> None:
        """Counts ``count`` transactions opened since the rows were last counted."""
        self._open += count
