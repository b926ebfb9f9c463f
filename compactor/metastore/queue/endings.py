"""Entries that end without a commit, or wait again."""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.
from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import (
    Connection,
    select,
)

from compactor.compaction import states
from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.database.retry import retried
from compactor.errors import NotFound, Refused, TryAgain
from compactor.ids import TxnId
from compactor.metastore.queue.claims import WORKER_PREFIX
from compactor.metastore.queue.table import QueueTable
from compactor.metastore.schema.tables import (
    TXNS,
)
from compactor.metastore.transactions import rows as txn_rows

#: Hive's own words (``AbortCompactionFunction``), spelling included.
ABORT_MESSAGE = "Compaction Aborted by Abort Comapction request."


class Endings:
    """Ends entries, and gives those of lost workers back."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table

    @retried
    def abort_request(self, entry_id: int) -> None:
        """Take a request off the queue that nobody works on yet.

        Raises:
            NotFound: there is no such entry in the queue.
            Refused: somebody works on it already.
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
        """Stop a worker of ours: its transaction is aborted and the row marked by its message, both or neither.

        From then on the worker can neither record nor name nor commit. One that is in its critical section holds the
        transaction's row: it commits first, or finds itself aborted, never half of it. The row stays until nothing of
        it is in storage: its worker then ends it, or repair does (``end_aborted``, ``requeue``). A worker that has
        recorded no transaction has staged nothing either; its row goes to the history at once.

        Args:
            first: does what must be done before its locks are gone, with its transaction and the newest one; it must not
                touch a database.

        Returns:
            ABORTED, or WORKING where storage has to be tidied first.

        Raises:
            NotFound: there is no such entry in the queue.
            Refused: nobody works on it, or a worker of Hive's own does.
        """
        with self._table.changing() as conn:
            seen = self._table.seen(conn, entry_id)
            own = () if seen is None else self._transactions_of(conn, seen)
            open_ones = [
                txn for txn in own if (row := txn_rows.locked_row(conn, self._table.dialect, txn)) and row.is_open
            ]
            entry = self._table.locked(conn, entry_id)
            if entry is None:
                raise NotFound(f"compaction {entry_id} is not in the queue; look at `compactor show compactions`")
            _must_be_stoppable(entry)
            if seen is None or (entry.worker_id, entry.txn_id) != (seen.worker_id, seen.txn_id):
                raise TryAgain(f"compaction {entry_id} began its transaction, or changed hands, meanwhile")
            for txn in open_ones:
                if first is not None:
                    first(txn, self._table.dialect.newest(conn))
                txn_rows.mark_aborted(conn, self._table.dialect, txn, ABORT_MESSAGE)
            if entry.txn_id is None:
                self._table.end(conn, entry, State.ABORTED, ABORT_MESSAGE)
                return State.ABORTED
            self._table.change(conn, entry, {"CQ_ERROR_MESSAGE": ABORT_MESSAGE})
            return State.WORKING

    @retried
    def end_aborted(self, entry_id: int, worker_id: str) -> bool:
        """End what ``abort_running`` marked, once nothing of it is in storage; False where there is no such row."""
        with self._table.changing() as conn:
            entry = self._table.locked(conn, entry_id)
            if entry is None or entry.worker_id != worker_id or not is_being_aborted(entry):
                return False
            self._table.end(conn, entry, State.ABORTED, ABORT_MESSAGE)
            return True

    @retried
    def requeue(self, entry_id: int, worker_id: str) -> bool:
        """Give a lost worker's entry back: w -> i; False when it is not his any more.

        One that ``abort_running`` marked ends instead.

        Raises:
            Refused: its transaction is still open; it must be aborted first (PROTOCOL 6).
        """
        with self._table.changing() as conn:
            seen = self._table.seen(conn, entry_id)
            recorded = None if seen is None else seen.txn_id
            # before the queue row (PROTOCOL 9)
            row = None if recorded is None else txn_rows.locked_row(conn, self._table.dialect, recorded)
            entry = self._table.locked(conn, entry_id)
            if entry is None or entry.state is not State.WORKING or entry.worker_id != worker_id:
                return False
            if entry.txn_id is not None and entry.txn_id != recorded:
                raise Refused(f"compaction {entry_id} began transaction {entry.txn_id} meanwhile; its worker is alive")
            if entry.txn_id is not None and row is not None and row.state != txn_rows.ABORTED:
                raise Refused(
                    f"compaction {entry_id}: its transaction {entry.txn_id} is not aborted; abort it and hide what "
                    "it named before the request is queued again"
                )
            if is_being_aborted(entry):
                self._table.end(conn, entry, State.ABORTED, ABORT_MESSAGE)
                return True
            states.check(entry_id, entry.state, State.INITIATED)
            values = {
                "CQ_STATE": State.INITIATED.value,
                "CQ_WORKER_ID": None,
                "CQ_START": None,
                "CQ_TXN_ID": None,
                "CQ_HIGHEST_WRITE_ID": None,
                "CQ_HADOOP_JOB_ID": None,
            }
            self._table.change(conn, entry, values)
            return True

    @retried
    def finish(self, entry: Entry, state: State, error: str | None = None) -> None:
        """End an entry: its row goes to the history in ``state``; as aborted where ``abort_running`` marked it.

        Raises:
            IllegalTransition: that state doesn't follow the entry's.
            LostClaim: the row is not as ``entry`` says any more.
        """
        states.check(entry.id, entry.state, state)
        with self._table.changing() as conn:
            current = self._table.locked(conn, entry.id)
            if current is not None and is_being_aborted(current):
                state, error = State.ABORTED, ABORT_MESSAGE
            self._table.end(conn, entry, state, error)

    def _transactions_of(self, conn: Connection, entry: Entry) -> Sequence[TxnId]:
        """What a worker of ours has opened for ``entry``: what it recorded, else what it opened and did not record yet."""
        if entry.txn_id is not None or entry.worker_id is None:
            return () if entry.txn_id is None else (entry.txn_id,)
        begun = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == txn_rows.OPEN, TXNS.c.TXN_AGENT_INFO == entry.worker_id)
        return [TxnId(txn) for txn in conn.execute(begun.order_by(TXNS.c.TXN_ID)).scalars()]


def is_being_aborted(entry: Entry) -> bool:
    """Whether ``abort_running`` stopped its worker, and something of it may still be in storage."""
    return entry.state is State.WORKING and entry.error == ABORT_MESSAGE


def _must_be_stoppable(entry: Entry) -> None:
    if entry.state is State.READY_FOR_CLEANING:
        raise Refused(
            f"compaction {entry.id} is {entry.state.label}: it is committed and readers use its result already"
        )
    if entry.state is not State.WORKING:
        raise Refused(f"compaction {entry.id} is {entry.state.label}; nobody works on it")
    if not (entry.worker_id or "").startswith(WORKER_PREFIX):
        raise Refused(
            f"compaction {entry.id} is working by {entry.worker_id}, a worker of Hive's own, which cannot be stopped from "
            "here; end its transaction with `compactor abort transaction`, and Hive ends the entry"
        )
