"""Ends entries without a commit, or puts them back to waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import (
    Connection,
    select,
)

from compactor.acid import txn_states
from compactor.base.errors import NotFound, Refused, TryAgain
from compactor.base.identities import is_compactor
from compactor.base.ids import TxnId
from compactor.compaction import states
from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.database.engine import retried
from compactor.metastore.notifications.log import Notifications
from compactor.metastore.notifications.transaction_events import on_abort
from compactor.metastore.queue.queue_table import QueueTable
from compactor.metastore.schema.tables import (
    TXNS,
)
from compactor.metastore.transactions import transaction_rows as txn_rows

#: Hive's own words (``AbortCompactionFunction``), spelling included.
ABORT_MESSAGE = "Compaction Aborted by Abort Comapction request."


class Endings:
    """Ends entries, and requeues those of lost workers."""

    def __init__(self, table: QueueTable, notifications: Notifications) -> None:
        self._table = table
        self._notifications = notifications

    @retried
    def abort_request(self, entry_id: int) -> None:
        """Removes a request from the queue that no worker has claimed.

        Raises:
            NotFound: the entry is not in the queue.
            Refused: a worker has claimed it already.
        """
        with self._table.changing() as conn:
            entry = self._table.locked(conn, entry_id)
            if entry is None:
                raise NotFound(f"compaction {entry_id} is not in the queue; look at `compactor show compactions`")
            if entry.state is not State.INITIATED:
                raise Refused(
                    f"compaction {entry_id} is {entry.state.label}; only one that is initiated, or that our worker has, "
                    "can be aborted"
                )
            self._table.end(conn, entry, State.ABORTED, ABORT_MESSAGE)

    @retried
    def abort_running(self, entry_id: int, first: Callable[[TxnId, TxnId], object] | None = None) -> State:
        """Stops a worker of ours: aborts its transaction and marks the row by an error message, both or neither.

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
            Refused: no worker has it, or a worker of Hive's own does.
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
        """Ends an entry that ``abort_running`` marked, once storage is clean; returns false without such a row."""
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
        """Yields the locked entry of a lost worker with an aborted transaction; None if the worker lost the entry."""
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
        """Ends an entry: its row goes to the history in ``state``, or as aborted if ``abort_running`` marked it.

        Raises:
            IllegalTransition: the entry cannot go to that state.
            LostClaim: the row no longer matches ``entry``.
        """
        states.check_transition(entry.id, entry.state, state)
        with self._table.changing() as conn:
            current = self._table.locked(conn, entry.id)
            self._table.end(conn, entry, *_unless_aborted(current, state, error))

    def _transactions_of(self, conn: Connection, entry: Entry) -> Sequence[TxnId]:
        """Returns the transaction that a worker of ours recorded, or those that it has opened without a record."""
        if entry.txn_id is not None or entry.worker_id is None:
            return () if entry.txn_id is None else (entry.txn_id,)
        begun = select(TXNS.c.TXN_ID).where(
            TXNS.c.TXN_STATE == txn_states.OPEN, TXNS.c.TXN_AGENT_INFO == entry.worker_id
        )
        return [TxnId(txn) for txn in conn.execute(begun.order_by(TXNS.c.TXN_ID)).scalars()]


def is_being_aborted(entry: Entry) -> bool:
    """Returns true if ``abort_running`` stopped its worker and storage may still have output."""
    return entry.state is State.WORKING and entry.error == ABORT_MESSAGE


def _unless_aborted(entry: Entry | None, state: State, error: str | None) -> tuple[State, str | None]:
    """Returns the final state and error of a locked entry, which ``abort_running`` may have marked."""
    if entry is not None and is_being_aborted(entry):
        return State.ABORTED, ABORT_MESSAGE
    return state, error


def _must_be_stoppable(entry: Entry) -> None:
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
