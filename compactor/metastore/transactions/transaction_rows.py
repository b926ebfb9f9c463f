"""Rows that change when a user transaction or compaction begins and ends.

Everything here runs in the caller's database transaction. Order of locks (PROTOCOL 9): TXNS row, queue row, TXN_LOCK_TBL,
NEXT_WRITE_ID, NOTIFICATION_SEQUENCE.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Delete,
    Insert,
    Select,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from compactor.acid import txn_states
from compactor.base.errors import Disagreement, NotFound, TransactionAborted, TransactionTimedOut
from compactor.base.ids import TxnId
from compactor.database.prepared import send, send_all
from compactor.metastore.schema.dialect import Dialect, one_of
from compactor.metastore.schema.free_text import fit_free_text
from compactor.metastore.schema.tables import (
    HIVE_LOCKS,
    MATERIALIZATION_REBUILD_LOCKS,
    MIN_HISTORY_LEVEL,
    MIN_HISTORY_WRITE_ID,
    TXN_COMPONENTS,
    TXNS,
    WRITE_SET,
)

_ROW = (TXNS.c.TXN_STATE, TXNS.c.TXN_TYPE, TXNS.c.TXN_AGENT_INFO)  #: the columns of a ``TxnRow``
_META_LENGTH = 128  #: TXN_META_INFO
TIMED_OUT = "heartbeat time-out"  #: TXN_META_INFO of a transaction that timed out


class TxnType(enum.IntEnum):
    """TXN_TYPE (Hive's thrift ``TxnType``)."""

    DEFAULT = 0
    REPL_CREATED = 1
    READ_ONLY = 2
    COMPACTION = 3
    MATER_VIEW_REBUILD = 4
    SOFT_DELETE = 5
    REBALANCE_COMPACTION = 6

    @classmethod
    def _missing_(cls, value: object) -> TxnType:
        """Takes a type of a newer Hive for one that writes."""
        return cls.DEFAULT

    @property
    def compacts(self) -> bool:
        return self in (TxnType.COMPACTION, TxnType.REBALANCE_COMPACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnRow:
    """State and type of one row of TXNS; ``agent`` is the process that opened it, if the row was locked."""

    state: str
    type: TxnType
    agent: str | None = None

    @property
    def is_open(self) -> bool:
        return self.state == txn_states.OPEN


AT_ONCE = 10_000  #: numbers in one statement; PostgreSQL takes 65,535


def locked_row(conn: Connection, dialect: Dialect, txn: TxnId) -> TxnRow | None:
    """Locks and returns the row of ``txn``; None if it does not exist."""
    rows = send(conn, _row_of(dialect), {"of_txn": txn}).rows
    return TxnRow(state=rows[0][0], type=TxnType(rows[0][1] or 0), agent=rows[0][2]) if rows else None


def locked_rows(conn: Connection, dialect: Dialect, txns: Collection[TxnId]) -> dict[TxnId, TxnRow]:
    """Locks and returns the existing rows of ``txns``, in the order of their ids, in one statement."""
    query = select(TXNS.c.TXN_ID, *_ROW).where(TXNS.c.TXN_ID.in_(txns))
    rows = conn.execute(dialect.for_update(query.order_by(TXNS.c.TXN_ID)))
    return {TxnId(row[0]): TxnRow(state=row[1], type=TxnType(row[2] or 0), agent=row[3]) for row in rows}


@cache  # building a statement costs more than running it
def _row_of(dialect: Dialect) -> Select[Any]:
    return dialect.for_update(select(*_ROW).where(TXNS.c.TXN_ID == bindparam("of_txn")))


def must_be_open(conn: Connection, dialect: Dialect, txn: TxnId, agent: str | None = None) -> TxnRow:
    """Locks and returns the row of ``txn``; everything that writes for a transaction calls this.

    Args:
        agent: the process that must have opened it; see ``must_be_of``.

    Raises:
        TransactionAborted: it is aborted.
        NotFound: it is committed or unknown.
        Disagreement: another process opened it.
    """
    row = locked_row(conn, dialect, txn)
    must_be_of(row, txn, agent)
    if row is not None and row.state == txn_states.ABORTED:
        raise aborted_error(conn, txn)
    if row is None or row.state != txn_states.OPEN:
        raise NotFound(f"transaction {txn} is not open: it is committed, or there is no such transaction")
    return row


def must_all_be_open(conn: Connection, dialect: Dialect, txns: Collection[TxnId]) -> None:
    """Locks the rows of several transactions in the order of their ids, and checks that all are open.

    Raises:
        TransactionAborted, NotFound: as ``must_be_open``, for the first one that is not open.
    """
    rows = locked_rows(conn, dialect, txns)
    for txn in txns:
        if txn not in rows or not rows[txn].is_open:
            must_be_open(conn, dialect, txn)


def must_be_of(row: TxnRow | None, txn: TxnId, agent: str | None) -> None:
    """Checks that ``agent`` opened ``row``, the row of ``txn``; None skips the check.

    A database that was restored to an older copy uses numbers again. A process that was paused meanwhile would commit or
    abort the work of another one (PROTOCOL 11.2).

    Raises:
        Disagreement: another process opened it.
    """
    if row is not None and agent is not None and row.agent != agent:
        raise Disagreement(
            f"transaction {txn} was opened by {agent}, but the database says by {row.agent or 'another process'}: the "
            "metastore was restored to an older copy, which used the number again. Nothing was named, committed or "
            "aborted; begin again"
        )


def unknown_error(txn: TxnId) -> NotFound:
    """Returns the error for a transaction without a row."""
    return NotFound(f"transaction {txn} has no row in TXNS; it never existed, or it ended and was forgotten")


def aborted_error(conn: Connection, txn: TxnId) -> TransactionAborted:
    """Returns the error for an aborted transaction, which depends on the recorded reason."""
    reason = conn.execute(select(TXNS.c.TXN_META_INFO).where(TXNS.c.TXN_ID == txn)).scalar()
    if reason == TIMED_OUT:
        return TransactionTimedOut(
            f"transaction {txn} is aborted: it had no heartbeat for hive.txn.timeout; begin again"
        )
    return TransactionAborted(
        f"transaction {txn} is aborted: it timed out, lost to another writer, or somebody aborted it; begin again"
    )


def lowest_open_id(conn: Connection) -> TxnId | None:
    """Returns the lowest TXN_ID in state ``o``, of all types."""
    return conn.execute(select(func.min(TXNS.c.TXN_ID)).where(TXNS.c.TXN_STATE == txn_states.OPEN)).scalar()


def write_set(conn: Connection, txn: TxnId, commit_id: TxnId, *, everything: bool = False) -> None:
    """Records the objects in which ``txn`` updated or deleted, for transactions that commit later.

    With ``everything`` also objects into which it only inserted, as Hive 4 does with ``hive.txn.use.minhistorylevel``
    false, and Hive 4.2 with ``hive.txn.use.minhistorywriteid`` true.
    """
    send(conn, _TOUCHED[everything], {"of_txn": txn, "of_commit": commit_id})


def _touched(operations: str) -> Insert:
    components = TXN_COMPONENTS.c
    touched = (
        select(
            components.TC_DATABASE,
            components.TC_TABLE,
            components.TC_PARTITION,
            components.TC_TXNID,
            bindparam("of_commit", type_=BigInteger),
            components.TC_OPERATION_TYPE,
        )
        .distinct()
        .where(components.TC_TXNID == bindparam("of_txn"), one_of(components.TC_OPERATION_TYPE, operations))
    )
    columns = ["WS_DATABASE", "WS_TABLE", "WS_PARTITION", "WS_TXNID", "WS_COMMIT_ID", "WS_OPERATION_TYPE"]
    return insert(WRITE_SET).from_select(columns, touched)


_TOUCHED = {False: _touched("ud"), True: _touched("udi")}


def mark_committed(conn: Connection, dialect: Dialect, txns: Sequence[TxnId]) -> None:
    """Marks the transactions committed (``c``) and deletes their components, locks and history rows."""
    forget_components(conn, txns)
    _delete_rows_of_open(conn, dialect, txns)
    dialect.forget_committed(conn, txns)


def mark_aborted(conn: Connection, dialect: Dialect, txn: TxnId, reason: str) -> bool:
    """Marks an open transaction aborted (``o`` -> ``a``); returns false if it was not open.

    Its locks and history rows are deleted; its components stay until storage has none of its files.
    """
    guarded = update(TXNS).where(TXNS.c.TXN_ID == txn, TXNS.c.TXN_STATE == txn_states.OPEN)
    values = fit_free_text(conn, {"TXN_STATE": txn_states.ABORTED, "TXN_META_INFO": reason[:_META_LENGTH]})
    changed = conn.execute(guarded.values(**values)).rowcount == 1
    if changed:
        _delete_rows_of_open(conn, dialect, [txn])
    return changed


def forget_components(conn: Connection, txns: Sequence[TxnId]) -> None:
    """Deletes the components of transactions that have never written anything."""
    send_all(conn, _NO_COMPONENTS, [{"of_txn": txn} for txn in txns])


def _delete_rows_of_open(conn: Connection, dialect: Dialect, txns: Sequence[TxnId]) -> None:
    for table, statement in _ROWS_OF_OPEN.items():
        if dialect.has(table):
            send_all(conn, statement, [{"of_txn": txn} for txn in txns])


def _without(column: Column[int]) -> Delete:
    return delete(column.table).where(column == bindparam("of_txn"))


_NO_COMPONENTS = _without(TXN_COMPONENTS.c.TC_TXNID)
#: The statements that delete the rows of an open transaction, by table.
_ROWS_OF_OPEN: dict[Table, Delete] = {
    HIVE_LOCKS: _without(HIVE_LOCKS.c.HL_TXNID),
    MIN_HISTORY_LEVEL: _without(MIN_HISTORY_LEVEL.c.MHL_TXNID),
    MIN_HISTORY_WRITE_ID: _without(MIN_HISTORY_WRITE_ID.c.MH_TXNID),
    MATERIALIZATION_REBUILD_LOCKS: _without(MATERIALIZATION_REBUILD_LOCKS.c.MRL_TXN_ID),
}
