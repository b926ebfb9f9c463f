"""Metastores that lack one guard each; the checker must notice. The races are held open for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select, update

from compactor.acid.write_ids import ValidTxnList
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.locking.lock_types import LockRequest
from compactor.metastore.locks.hive_locks import Locks
from compactor.metastore.locks.lock_rows import LockRow
from compactor.metastore.metastore import Metastore
from compactor.metastore.queue.queue_rows import CQ
from compactor.metastore.queue.worker_claims import Claims
from compactor.metastore.schema.tables import COMPACTION_QUEUE, NEXT_WRITE_ID, TXNS
from compactor.metastore.transactions import commit_rows
from compactor.metastore.transactions.transactions import Transactions
from compactor.metastore.transactions.write_id_rows import WriteIds

_MOMENT = 0.01


class _UnguardedClaim(Claims):
    """Claims the entry that has waited longest, even if another process takes it as well."""

    def claim(
        self,
        worker_id: str,
        worker_version: str,
        *,
        pool: str | None = None,
        pool_timeout_ms: int,
        ids: Collection[int] | None = None,
    ) -> Entry | None:
        with self._table.database.write() as conn:
            waiting = select(func.min(CQ.CQ_ID)).where(CQ.CQ_STATE == State.INITIATED.value)
            found = conn.execute(waiting).scalar()
            time.sleep(_MOMENT)
            if found is None:
                return None
            taken = update(COMPACTION_QUEUE).where(CQ.CQ_ID == found)
            conn.execute(taken.values(CQ_STATE=State.WORKING.value, CQ_WORKER_ID=worker_id))
            return self._table.locked(conn, found)


class _UnlockedWriteIds(WriteIds):
    """Reads and writes the counter without locking its row."""

    def _draw(self, conn: Connection, database: str, table: str, count: int = 1) -> WriteId:
        counter = NEXT_WRITE_ID.c
        here = (counter.NWI_DATABASE == database) & (counter.NWI_TABLE == table)
        found = conn.execute(select(counter.NWI_NEXT).where(here)).scalar()
        if found is None:
            return super()._draw(conn, database, table, count)
        time.sleep(_MOMENT)
        conn.execute(update(NEXT_WRITE_ID).where(here).values(NWI_NEXT=found + count))
        return WriteId(found)


class _UncheckedLocks(Locks):
    """Grants every lock request."""

    def _blockers(
        self, rows: Sequence[LockRow], wanted: Iterable[LockRequest], txn: TxnId, *, before: int | None
    ) -> dict[LockRequest, LockRow]:
        return {}


class _SnapshotOfTwoReads(Transactions):
    """Reads the open transactions, and the high watermark in a second transaction."""

    def snapshot(self, own: TxnId | None = None, **how: Any) -> ValidTxnList:
        known = super().snapshot(None, **how)
        time.sleep(_MOMENT)
        with self._database.read() as conn:
            high = conn.execute(select(func.max(TXNS.c.TXN_ID))).scalar_one()
        high = high if own is None else min(own, high)
        return ValidTxnList(
            high_watermark=TxnId(high),
            open=frozenset(txn for txn in known.open if own is None or txn < own),
            aborted=frozenset(txn for txn in known.aborted if own is None or txn < own),
        )


def _claim(metastore: Metastore) -> None:
    metastore.claims = _UnguardedClaim(metastore.queue, metastore.notifications)


def _write_ids(metastore: Metastore) -> None:
    metastore.write_ids = _UnlockedWriteIds(metastore.database, metastore.dialect)


def _locks(metastore: Metastore) -> None:
    metastore.locks = _UncheckedLocks(metastore.database, metastore.dialect)


def _snapshot(metastore: Metastore) -> None:
    metastore.transactions = _SnapshotOfTwoReads(metastore.database, metastore.dialect)


def _commit(metastore: Metastore) -> None:
    def nobody(*_: Any) -> None:
        return None

    commit_rows.conflict = nobody


#: The guards taken away, by name. Only for a separate process: some of it changes the product's modules.
BROKEN: Mapping[str, Callable[[Metastore], None]] = {
    "claim without its guard": _claim,
    "write ids without the row lock": _write_ids,
    "locks without a look at others": _locks,
    "commit without the write-conflict check": _commit,
    "snapshot of two reads": _snapshot,
}
