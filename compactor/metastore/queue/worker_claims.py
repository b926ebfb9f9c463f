"""Claims: which worker compacts an entry, in which transaction, and how it ends without a commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

from compactor.acid import txn_states
from compactor.base.errors import LostClaim, NotFound, Refused, TryAgain
from compactor.base.identities import PREFIX, is_compactor
from compactor.base.ids import TxnId, WriteId
from compactor.compaction import states
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.database.clock import now_ms
from compactor.database.engine import retried
from compactor.database.prepared import send, send_all
from compactor.metastore.notifications.notification_log import Notifications
from compactor.metastore.notifications.transaction_events import on_abort
from compactor.metastore.queue.entries import Entries
from compactor.metastore.queue.queue_rows import CQ, QUEUE, TAKEN_HERE
from compactor.metastore.queue.queue_table import QueueTable, must_be_open, must_be_ours
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    TXNS,
)
from compactor.metastore.transactions import transaction_rows as txn_rows
from compactor.metastore.transactions.write_id_rows import insert_components

# Built once, since building a statement takes several times as long as running it.
_WAITING = QUEUE.where(CQ.CQ_STATE == State.INITIATED.value, TAKEN_HERE).order_by(CQ.CQ_ID)
_CLAIMED = update(COMPACTION_QUEUE).where(CQ.CQ_ID == bindparam("of_id"), CQ.CQ_STATE == State.INITIATED.value)
_OF_ID = update(COMPACTION_QUEUE).where(CQ.CQ_ID == bindparam("of_id"))
#: Hive's own words (``AbortCompactionFunction``), spelling included.
ABORT_MESSAGE = "Compaction Aborted by Abort Comapction request."


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
    """Assigns requests to workers, ends entries, and requeues those of lost workers."""

    def __init__(self, table: QueueTable, notifications: Notifications) -> None:
        self._table = table
        self._notifications = notifications
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
        """Takes these requests, each for its worker (i -> w).

        Returns those that were still waiting and not locked.

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
        """Records each of ``works`` in one transaction.

        Returns the error of each entry that is no longer ours.
        """
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
        """Returns requests that may be claimed, oldest first.

        Only the first unlocked one where the schema shows it.
        """
        if ids is None and self._table.rows.is_whole:
            chosen: dict[str, object] = {"before": enqueued_before} if pool is None else {"of_pool": pool}
            return [row[0] for row in send(conn, _oldest(self._table.dialect, of_pool=pool is not None), chosen).rows]
        if ids is None:
            waiting = self._table.rows.readable_queued(conn.execute(_WAITING).mappings())
            return [entry.id for entry in waiting if _is_for(entry, pool, enqueued_before)]
        batch = _WAITING.where(CQ.CQ_ID.in_(ids)).with_only_columns(CQ.CQ_ID).limit(1)
        return conn.execute(self._table.dialect.unlocked(batch)).scalars().all()

    @retried
    def abort_request(self, entry_id: int) -> None:
        """Removes a request from the queue that no worker has claimed.

        Raises:
            NotFound: the entry is not in the queue.
            Refused: a worker has claimed it already, or it is left to Hive.
        """
        with self._table.changing() as conn:
            entry = self._table.locked(conn, entry_id)
            if entry is None:
                raise NotFound(f"compaction {entry_id} is not in the queue; look at `compactor show compactions`")
            must_be_taken_here(entry)
            if entry.state is not State.INITIATED:
                raise Refused(
                    f"compaction {entry_id} is {entry.state.label}; only one that is initiated, or that our worker has, "
                    "can be aborted"
                )
            self._table.end(conn, entry, State.ABORTED, ABORT_MESSAGE)

    @retried
    def abort_running(self, entry_id: int, first: Callable[[TxnId, TxnId], object] | None = None) -> State:
        """Stops a worker of ours: aborts its transaction and marks the row by an error message.

        It does both or neither.

        After that the worker can neither record, name nor commit anything. A worker in its critical section has locked
        the row of its transaction, so it either commits first or finds its transaction aborted. The row stays until
        storage has none of its output. Then the worker or a repair ends it (``end_aborted``, ``requeue``). A worker that
        has recorded no transaction has staged nothing, so its row goes to the history immediately.

        Args:
            first: called with the worker's transaction and the newest one, before the locks are released; it must
                not touch a database.

        Returns:
            ABORTED, or WORKING if storage must be cleaned first.

        Raises:
            NotFound: the entry is not in the queue.
            Refused: no worker has it, or a worker of Hive's own does, or it is left to Hive.
        """
        with self._table.changing() as conn:
            seen = self._table.seen(conn, entry_id)
            own = () if seen is None else self._transactions_of(conn, seen)
            open_txns = [
                txn for txn in own if (row := txn_rows.locked_row(conn, self._table.dialect, txn)) and row.is_open
            ]
            entry = self._table.locked(conn, entry_id)
            if entry is None:
                raise NotFound(f"compaction {entry_id} is not in the queue; look at `compactor show compactions`")
            _must_be_stoppable(entry)
            if seen is None or (entry.worker_id, entry.txn_id) != (seen.worker_id, seen.txn_id):
                raise TryAgain(f"compaction {entry_id} began its transaction, or changed hands, meanwhile")
            for txn in open_txns:
                if first is not None:
                    first(txn, self._table.dialect.newest(conn))
                txn_rows.mark_aborted(conn, self._table.dialect, txn, ABORT_MESSAGE)
            if open_txns:
                self._notifications.write(conn, on_abort(open_txns))
            if entry.txn_id is None:
                self._table.end(conn, entry, State.ABORTED, ABORT_MESSAGE)
                return State.ABORTED
            self._table.change(conn, entry, {"CQ_ERROR_MESSAGE": ABORT_MESSAGE})
            return State.WORKING

    @retried
    def end_aborted(self, entry_id: int, worker_id: str) -> bool:
        """Ends an entry that ``abort_running`` marked, once storage is clean.

        Returns false without such a row.
        """
        with self._table.changing() as conn:
            entry = self._table.locked(conn, entry_id)
            if entry is None or entry.worker_id != worker_id or not is_being_aborted(entry):
                return False
            self._table.end(conn, entry, State.ABORTED, ABORT_MESSAGE)
            return True

    @retried
    def requeue(self, entry_id: int, worker_id: str, error: str | None = None) -> bool:
        """Gives a lost worker's entry back (w -> i); returns false if the entry is no longer that worker's.

        An entry that ``abort_running`` marked ends instead.

        Args:
            error: the entry's new error message; without one it keeps its own.

        Raises:
            Refused: its transaction is still open; it must be aborted first (PROTOCOL 6).
        """
        with self._lock_lost_entry(entry_id, worker_id) as (conn, entry):
            if entry is None:
                return False
            if is_being_aborted(entry):
                self._table.end(conn, entry, State.ABORTED, ABORT_MESSAGE)
                return True
            states.check_transition(entry_id, entry.state, State.INITIATED)
            values = {
                "CQ_STATE": State.INITIATED.value,
                "CQ_WORKER_ID": None,
                "CQ_START": None,
                "CQ_TXN_ID": None,
                "CQ_HIGHEST_WRITE_ID": None,
                "CQ_HADOOP_JOB_ID": None,
                **({} if error is None else {"CQ_ERROR_MESSAGE": error}),
            }
            self._table.change(conn, entry, values)
            return True

    @retried
    def fail_lost(self, entry_id: int, worker_id: str, error: str) -> bool:
        """Ends a lost worker's entry as failed; the rest is as in ``requeue``."""
        with self._lock_lost_entry(entry_id, worker_id) as (conn, entry):
            if entry is None:
                return False
            states.check_transition(entry_id, entry.state, State.FAILED)
            self._table.end(conn, entry, *_unless_aborted(entry, State.FAILED, error))
            return True

    @contextmanager
    def _lock_lost_entry(self, entry_id: int, worker_id: str) -> Iterator[tuple[Connection, Entry | None]]:
        """Yields the locked entry of a lost worker with an aborted transaction.

        Yields None if the worker lost the entry.
        """
        with self._table.changing() as conn:
            seen = self._table.seen(conn, entry_id)
            recorded = None if seen is None else seen.txn_id
            # Locked before the queue row (PROTOCOL 9).
            row = None if recorded is None else txn_rows.locked_row(conn, self._table.dialect, recorded)
            entry = self._table.locked(conn, entry_id)
            if entry is None or entry.state is not State.WORKING or entry.worker_id != worker_id:
                yield conn, None
                return
            if entry.txn_id is not None and entry.txn_id != recorded:
                raise Refused(f"compaction {entry_id} began transaction {entry.txn_id} meanwhile; its worker is alive")
            if entry.txn_id is not None and row is not None and row.state != txn_states.ABORTED:
                raise Refused(
                    f"compaction {entry_id}: its transaction {entry.txn_id} is not aborted; abort it and hide the "
                    "directories that it named before the request is queued again"
                )
            yield conn, entry

    @retried
    def finish(self, entry: Entry, state: State, error: str | None = None) -> None:
        """Ends an entry: its row goes to the history in ``state``.

        If ``abort_running`` marked it, it goes there as aborted.

        Raises:
            IllegalTransition: the entry cannot go to that state.
            LostClaim: the row no longer matches ``entry``.
        """
        states.check_transition(entry.id, entry.state, state)
        with self._table.changing() as conn:
            current = self._table.locked(conn, entry.id)
            self._table.end(conn, entry, *_unless_aborted(current, state, error))

    def _transactions_of(self, conn: Connection, entry: Entry) -> Sequence[TxnId]:
        """Returns the transaction that a worker of ours recorded.

        Without a record, returns those that it has opened.
        """
        if entry.txn_id is not None or entry.worker_id is None:
            return () if entry.txn_id is None else (entry.txn_id,)
        begun = select(TXNS.c.TXN_ID).where(
            TXNS.c.TXN_STATE == txn_states.OPEN, TXNS.c.TXN_AGENT_INFO == entry.worker_id
        )
        return [TxnId(txn) for txn in conn.execute(begun.order_by(TXNS.c.TXN_ID)).scalars()]


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


def is_being_aborted(entry: Entry) -> bool:
    """Returns true if ``abort_running`` stopped its worker and storage may still have output."""
    return entry.state is State.WORKING and entry.error == ABORT_MESSAGE


def _unless_aborted(entry: Entry | None, state: State, error: str | None) -> tuple[State, str | None]:
    """Returns the final state and error of a locked entry, which ``abort_running`` may have marked."""
    if entry is not None and is_being_aborted(entry):
        return State.ABORTED, ABORT_MESSAGE
    return state, error


def must_be_taken_here(entry: Entry) -> None:
    """Raises ``Refused`` for a row of the queue that is left to Hive."""
    if entry.left_to is not None:
        raise Refused(
            f"compaction {entry.id} of {entry.entity} is {entry.state.label} and waits for {entry.left_to}; end it there "
            "(ABORT COMPACTIONS in Hive)"
        )


def _must_be_stoppable(entry: Entry) -> None:
    must_be_taken_here(entry)
    if entry.state is State.READY_FOR_CLEANING:
        raise Refused(
            f"compaction {entry.id} is {entry.state.label}: it is committed and readers already use its result"
        )
    if entry.state is not State.WORKING:
        raise Refused(f"compaction {entry.id} is {entry.state.label}; no worker has it")
    if not is_compactor(entry.worker_id):
        raise Refused(
            f"compaction {entry.id} is working by {entry.worker_id}, a worker of Hive's own, which cannot be stopped from "
            "here; end its transaction with `compactor abort transaction`, and Hive ends the entry"
        )
