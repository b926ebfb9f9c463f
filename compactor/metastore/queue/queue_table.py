"""COMPACTION_QUEUE and its history within one transaction: locks, changes and moves rows.

Every change is a guarded UPDATE or DELETE along ``compaction.states.NEXT``. If it matches no row, it raises LostClaim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from compactor.acid import txn_states
from compactor.base.errors import LostClaim, NotSupported
from compactor.compaction.states import State
from compactor.database.clock import now_ms
from compactor.database.prepared import send
from compactor.metastore.queue import queue_rows
from compactor.metastore.queue.queue_rows import CQ, QUEUE
from compactor.metastore.schema.free_text import fit_free_text
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    NEXT_COMPACTION_QUEUE_ID,
)

if TYPE_CHECKING:
    from compactor.base.ids import TxnId
    from compactor.compaction.queue_entry import Entry
    from compactor.database.engine import Database
    from compactor.metastore.schema.dialect import Dialect
    from compactor.metastore.transactions import transaction_rows as txn_rows


@cache
def _row_of(dialect: Dialect) -> Select[Any]:
    return dialect.for_update(QUEUE.where(CQ.CQ_ID == bindparam("of_id")))


class QueueTable:
    """Reads and changes the rows of the queue on behalf of the stores that share it."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self.database = database
        self.dialect = dialect
        self.rows = queue_rows.QueueRows(dialect)

    def set_extra_columns(self, extra_columns: queue_rows.ExtraColumns) -> None:
        """Sets the store of values without a column in this schema; without it such a queue is read-only."""
        self.rows.extra_columns = extra_columns

    def forget_extra_columns(self, ids: Collection[int]) -> None:
        """Drops the extra values of entries that have left the history."""
        self.rows.forget(ids)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        if not self.rows.is_whole and self.rows.extra_columns is None:
            raise NotSupported(
                f"metastore {self.database.url}: its schema {' or '.join(self.dialect.schema_versions)} has no columns "
                "for a compaction's transaction, pool and errors; Compactor keeps them in its own state, which is not "
                "open: set state_url, or use a mode other than observe"
            )
        with self.database.write() as conn:
            yield conn

    def seen(self, conn: Connection, entry_id: int) -> Entry | None:
        """Returns the current entry without a lock on its row; None if it is not in the queue."""
        entries = self.rows.queued(conn.execute(QUEUE.where(CQ.CQ_ID == entry_id)).mappings())
        return entries[0] if entries else None

    def locked(self, conn: Connection, entry_id: int) -> Entry | None:
        entries = self.rows.queued(send(conn, _row_of(self.dialect), {"of_id": entry_id}).mappings())
        return entries[0] if entries else None

    def locked_all(self, conn: Connection, ids: Collection[int]) -> dict[int, Entry]:
        query = QUEUE.where(CQ.CQ_ID.in_(ids)).order_by(CQ.CQ_ID)
        locked_entries = self.rows.queued(conn.execute(self.dialect.for_update(query)).mappings())
        return {entry.id: entry for entry in locked_entries}

    def change(self, conn: Connection, entry: Entry, values: Mapping[str, object]) -> None:
        """Changes the row if its state and its worker are those of ``entry``.

        Raises:
            LostClaim: they differ, or the row is gone.
        """
        stored = self.rows.stored(COMPACTION_QUEUE, fit_free_text(conn, values)) or {"CQ_STATE": entry.state.value}
        if conn.execute(update(COMPACTION_QUEUE).where(*_as_known(entry)).values(**stored)).rowcount != 1:
            raise LostClaim(f"compaction {entry.id} is no longer {entry.state.label} by {entry.worker_id}")
        if values.get("CQ_STATE") != State.READY_FOR_CLEANING.value:
            self.rows.keep({entry.id: values})

    def end(self, conn: Connection, entry: Entry, state: State, error: str | None) -> None:
        query = self.dialect.for_update(select(COMPACTION_QUEUE).where(*_as_known(entry)))
        row = conn.execute(query).mappings().first()
        if row is None:
            raise LostClaim(f"compaction {entry.id} is no longer {entry.state.label} by {entry.worker_id}")
        ended = fit_free_text(conn, queue_rows.history_row(row, state, now_ms(conn), error))
        self.rows.keep({entry.id: {name: value for name, value in ended.items() if value is not None}})
        conn.execute(insert(COMPLETED_COMPACTIONS).values(**self.rows.stored(COMPLETED_COMPACTIONS, ended)))
        self.delete(conn, entry)

    def delete(self, conn: Connection, entry: Entry) -> None:
        if conn.execute(delete(COMPACTION_QUEUE).where(*_as_known(entry))).rowcount != 1:
            raise LostClaim(f"compaction {entry.id} is no longer {entry.state.label} by {entry.worker_id}")

    def draw(self, conn: Connection) -> int:
        counter = NEXT_COMPACTION_QUEUE_ID
        next_id = conn.execute(self.dialect.for_update(select(counter.c.NCQ_NEXT))).scalar_one()
        conn.execute(update(counter).values(NCQ_NEXT=next_id + 1))
        return int(next_id)


def must_be_open(entry: Entry, txn: TxnId, row: txn_rows.TxnRow | None, worker_id: str | None = None) -> None:
    """Checks that the transaction of a compaction is open.

    With ``worker_id`` it must also belong to that worker.

    Raises:
        LostClaim: the transaction has ended, or belongs to another worker.
    """
    if row is None or row.state != txn_states.OPEN:
        state = "gone" if row is None else txn_states.NAMES.get(row.state, row.state)
        raise LostClaim(f"compaction {entry.id}: its transaction {txn} is {state}, it must be open")
    if worker_id is not None and row.agent not in (None, worker_id):
        raise LostClaim(
            f"compaction {entry.id}: transaction {txn} was opened by {row.agent}, not by {worker_id}: the metastore was "
            "restored to an older copy, which used the number again"
        )


def must_be_ours(entry: Entry, worker_id: str, current: Entry | None) -> Entry:
    if current is None:
        raise LostClaim(f"compaction {entry.id} is no longer in the queue")
    if current.state is not State.WORKING or current.worker_id != worker_id:
        raise LostClaim(
            f"compaction {entry.id} is {current.state.label} by {current.worker_id}; it must be working by {worker_id}"
        )
    return current


def _as_known(entry: Entry) -> tuple[ColumnElement[bool], ...]:
    worker = CQ.CQ_WORKER_ID.is_(None) if entry.worker_id is None else CQ.CQ_WORKER_ID == entry.worker_id
    return (CQ.CQ_ID == entry.id, CQ.CQ_STATE == entry.state.value, worker)
