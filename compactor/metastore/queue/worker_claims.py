"""Claims: the worker that compacts an entry, its transaction, and the write ID up to which it compacts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    or_,
    select,
    update,
)

from compactor.base.errors import LostClaim, Refused
from compactor.base.identities import PREFIX, is_compactor
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.database.clock import now_ms
from compactor.database.engine import retried
from compactor.database.prepared import send, send_all
from compactor.metastore.queue.entries import Entries
from compactor.metastore.queue.queue_rows import CQ, KNOWN_QUEUED
from compactor.metastore.queue.queue_table import QueueTable, must_be_open, must_be_ours
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
)
from compactor.metastore.transactions import transaction_rows as txn_rows
from compactor.metastore.transactions.write_id_rows import insert_components

# Built once, since building a statement takes several times as long as running it.
_WAITING = select(COMPACTION_QUEUE).where(CQ.CQ_STATE == State.INITIATED.value, KNOWN_QUEUED).order_by(CQ.CQ_ID)
_CLAIMED = update(COMPACTION_QUEUE).where(CQ.CQ_ID == bindparam("of_id"), CQ.CQ_STATE == State.INITIATED.value)
_OF_ID = update(COMPACTION_QUEUE).where(CQ.CQ_ID == bindparam("of_id"))


@cache
def _oldest(dialect: Dialect, *, of_pool: bool) -> Select[Any]:
    """Returns the query for the oldest request that is not locked, of a pool or of none."""
    waited = CQ.CQ_ENQUEUE_TIME < bindparam("before")
    chosen = CQ.CQ_POOL_NAME == bindparam("of_pool") if of_pool else or_(CQ.CQ_POOL_NAME.is_(None), waited)
    return dialect.unlocked(_WAITING.where(chosen).with_only_columns(CQ.CQ_ID).limit(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """An entry that a worker has claimed, and how it is being compacted; see ``Claims.record``."""

    entry: Entry
    worker_id: str
    txn: TxnId
    run_as: str | None
    highest_write_id: WriteId
    component: bool = True
    job: str | None = None  #: the application that works on it; CQ_HADOOP_JOB_ID takes its first 32 characters


class Claims:
    """Assigns requests to workers."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table
        self._entries = Entries(table)

    @retried
    def claim(
        self,
        worker_id: str,
        worker_version: str,
        *,
        pool: str | None = None,
        pool_timeout_ms: int,
        ids: Collection[int] | None = None,
    ) -> Entry | None:
        """Takes the oldest waiting request (i -> w); returns None if there is none.

        A worker of a pool takes that pool's requests; the default pool takes those without a pool and those that have
        waited for their pool longer than ``pool_timeout_ms``. With ``ids``, the entries of a batch, only those count.

        Raises:
            Refused: the worker id does not begin with ``compactor-``.
        """
        _check_ids([worker_id])
        with self._table.changing() as conn:
            now = now_ms(conn)
            for entry_id in self._waiting(conn, pool, now - pool_timeout_ms, ids):
                taken = _claim(worker_id, worker_version, now)
                stored = self._table.rows.stored(COMPACTION_QUEUE, taken)
                if send(conn, _CLAIMED, {"of_id": entry_id, **stored}).count == 1:
                    self._table.rows.keep({entry_id: taken})
                    return self._table.locked(conn, entry_id)
        return None

    @retried
    def claim_all(self, workers: Mapping[int, str], worker_version: str) -> list[Entry]:
        """Takes these requests, each for its worker (i -> w); returns those that were still waiting and not locked.

        Raises:
            Refused: a worker id does not begin with ``compactor-``.
        """
        _check_ids(workers.values())
        with self._table.changing() as conn:
            waiting = _WAITING.where(CQ.CQ_ID.in_(workers))
            rows = conn.execute(self._table.dialect.unlocked(waiting)).mappings().all()
            now = now_ms(conn)
            taken = {row["CQ_ID"]: _claim(workers[row["CQ_ID"]], worker_version, now) for row in rows}
            changes = [{"of_id": i} | self._table.rows.stored(COMPACTION_QUEUE, values) for i, values in taken.items()]
            send_all(conn, _CLAIMED, changes)
            self._table.rows.keep(taken)
            return self._table.rows.queued([{**row, **taken[row["CQ_ID"]]} for row in rows])

    def record(
        self,
        entry: Entry,
        worker_id: str,
        txn: TxnId,
        run_as: str | None,
        highest_write_id: WriteId,
        component: bool = True,
        job: str | None = None,
    ) -> Entry:
        """Records the transaction and the highest write ID of the compaction, before anything is staged.

        With ``component`` the transaction gets its ``c`` row, by which its directories stay known if it aborts.

        Raises:
            LostClaim: the entry is no longer ours, or the transaction is not open.
        """
        work = Work(
            entry=entry,
            worker_id=worker_id,
            txn=txn,
            run_as=run_as,
            highest_write_id=highest_write_id,
            component=component,
            job=job,
        )
        lost = self.record_all([work]).get(entry.id)
        if lost is not None:
            raise lost
        return self._entries.get(entry.id)

    @retried
    def record_all(self, works: Sequence[Work]) -> dict[int, LostClaim]:
        """Records each of ``works`` in one transaction; returns the error of each entry that is no longer ours."""
        lost: dict[int, LostClaim] = {}
        changes: dict[int, dict[str, object]] = {}
        components: list[Work] = []
        with self._table.changing() as conn:
            txns = txn_rows.locked_rows(conn, self._table.dialect, [work.txn for work in works])
            entries = self._table.locked_all(conn, [work.entry.id for work in works])
            for work in works:
                try:
                    must_be_open(work.entry, work.txn, txns.get(work.txn), work.worker_id)
                    current = must_be_ours(work.entry, work.worker_id, entries.get(work.entry.id))
                except LostClaim as error:
                    lost[work.entry.id] = error
                    continue
                changes[work.entry.id] = {
                    "CQ_TXN_ID": work.txn,
                    "CQ_HIGHEST_WRITE_ID": work.highest_write_id,
                    "CQ_RUN_AS": current.run_as if work.run_as is None else work.run_as,
                    "CQ_HADOOP_JOB_ID": current.job_id if work.job is None else work.job[:32],
                }
                # Hive 3.1 has no such operation, and no name there carries the transaction, so nothing has to be kept.
                if work.component and self._table.dialect.layout.has_visibility:
                    components.append(work)
            stored = [{"of_id": i} | self._table.rows.stored(COMPACTION_QUEUE, values) for i, values in changes.items()]
            send_all(conn, _OF_ID, stored)
            self._table.rows.keep(changes)
            insert_components(conn, [(w.txn, w.entry.entity, "c", w.highest_write_id) for w in components])
        return lost

    def _waiting(
        self, conn: Connection, pool: str | None, enqueued_before: int, ids: Collection[int] | None
    ) -> Sequence[int]:
        """Returns requests that may be claimed, oldest first; only the first unlocked one where the schema shows it."""
        if ids is None and self._table.rows.is_whole:
            chosen: dict[str, object] = {"before": enqueued_before} if pool is None else {"of_pool": pool}
            return [row[0] for row in send(conn, _oldest(self._table.dialect, of_pool=pool is not None), chosen).rows]
        if ids is None:
            found = self._table.rows.readable_queued(conn.execute(_WAITING).mappings())
            return [entry.id for entry in found if _is_for(entry, pool, enqueued_before)]
        batch = _WAITING.where(CQ.CQ_ID.in_(ids)).with_only_columns(CQ.CQ_ID).limit(1)
        return conn.execute(self._table.dialect.unlocked(batch)).scalars().all()


def _check_ids(worker_ids: Iterable[str]) -> None:
    for worker_id in worker_ids:
        if not is_compactor(worker_id):
            raise Refused(f"worker id {worker_id!r} must begin with {PREFIX!r}, or Hive takes its rows back")


def _claim(worker_id: str, worker_version: str, now: int) -> dict[str, object]:
    return {
        "CQ_STATE": State.WORKING.value,
        "CQ_START": now,
        "CQ_WORKER_ID": worker_id,
        "CQ_WORKER_VERSION": worker_version,
        # Hive leaves those of a lost attempt behind; they would make this attempt look lost too.
        "CQ_TXN_ID": None,
        "CQ_HIGHEST_WRITE_ID": None,
    }


def _is_for(entry: Entry, pool: str | None, enqueued_before: int) -> bool:
    if pool is not None:
        return entry.pool == pool
    return entry.pool is None or (entry.enqueue_time is not None and entry.enqueue_time < enqueued_before)
