"""The time at which each aborted transaction was first seen to be aborted."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import delete, insert, select

from compactor.base.ids import TxnId
from compactor.database.engine import Database, retried
from compactor.state.state_tables import ABORTS, lock_state

_A = ABORTS.c
_AT_ONCE = 500  #: rows in one statement


class AbortSightings:
    """Reads and writes COMPACTOR_ABORTS.

    A row names a transaction by number and start (epoch ms), because a restored metastore reuses numbers.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def known(self, metastore: str, aborted: Mapping[TxnId, int]) -> dict[TxnId, int]:
        """Returns when each of ``aborted`` was first seen (epoch ms); ``aborted`` maps a transaction to its start."""
        with self._database.read() as conn:
            rows = conn.execute(select(ABORTS).where(_A.METASTORE == metastore)).all()
        return {TxnId(row.TXN_ID): row.SEEN_AT for row in rows if aborted.get(TxnId(row.TXN_ID)) == row.STARTED}

    @retried
    def first(self, metastore: str, aborted: Mapping[TxnId, int], now: int) -> dict[TxnId, int]:
        """Returns when each of ``aborted`` was first seen, and stores the new ones as seen ``now``.

        ``aborted`` has every aborted transaction, so all other rows are deleted.
        """
        with self._database.read() as conn:
            rows = conn.execute(select(ABORTS).where(_A.METASTORE == metastore)).all()
        stored = {TxnId(row.TXN_ID): (row.STARTED, row.SEEN_AT) for row in rows}
        seen = {txn: at for txn, (started, at) in stored.items() if aborted.get(txn) == started}
        changed = sorted((stored.keys() | aborted.keys()) - seen.keys())
        if changed:
            self._replace(metastore, changed, aborted, now)
        return {txn: seen.get(txn, now) for txn in aborted}

    def _replace(self, metastore: str, changed: list[TxnId], aborted: Mapping[TxnId, int], now: int) -> None:
        """Stores those of ``changed`` that are aborted as seen ``now``, and deletes the other ones."""
        with self._database.write() as conn:
            lock_state(conn)
            for start in range(0, len(changed), _AT_ONCE):
                batch = changed[start : start + _AT_ONCE]
                conn.execute(delete(ABORTS).where(_A.METASTORE == metastore, _A.TXN_ID.in_(batch)))
                rows = [
                    {"METASTORE": metastore, "TXN_ID": txn, "STARTED": aborted[txn], "SEEN_AT": now}
                    for txn in batch
                    if txn in aborted
                ]
                if rows:
                    conn.execute(insert(ABORTS), rows)
