"""Rows of HIVE_LOCKS as values, read and written in the caller's transaction."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Row, insert, select

from compactor.base.ids import TxnId
from compactor.database.clock import now_ms
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.schema.free_text import fit_free_text
from compactor.metastore.schema.tables import HIVE_LOCKS

NEW_ROW = insert(HIVE_LOCKS)
NO_TXN = TxnId(0)  #: HL_TXNID of a lock without a transaction


class LockState(enum.Enum):
    """HL_LOCK_STATE."""

    ACQUIRED = "a"
    WAITING = "w"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRow:
    """One row of HIVE_LOCKS, or a lock elsewhere. Times are epoch milliseconds of the database's clock.

    ``statement`` is the text of the query that took the lock, where it is known.
    """

    id: int
    internal_id: int
    txn: TxnId
    database: str
    table: str | None
    partition: str | None
    type: LockType
    state: LockState
    last_heartbeat: int
    acquired_at: int | None
    user: str
    host: str
    agent: str | None
    blocked_by: tuple[int, int] | None
    statement: str | None = None

    def __str__(self) -> str:
        names = ".".join(name for name in (self.database, self.table, self.partition) if name is not None)
        return f"lock {self.id} ({self.type.name} on {names}, transaction {self.txn}, {self.user}@{self.host})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The state of a request.

    ``blockers`` are the earlier rows that it waits for; empty when it is acquired.
    """

    id: int
    state: LockState
    blockers: tuple[LockRow, ...] = ()

    @property
    def is_acquired(self) -> bool:
        return self.state is LockState.ACQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The user, host and agent that hold a lock."""

    user: str
    host: str
    agent: str | None = None


def insert_request(
    conn: Connection,
    lock_id: int,
    txn: TxnId,
    requests: Sequence[LockRequest],
    holder: Holder,
    blockers: Mapping[LockRequest, LockRow],
) -> Lock:
    """Writes the rows of one request."""
    rows = new_rows(lock_id, txn, requests, holder, blockers, now_ms(conn))
    conn.execute(NEW_ROW, [fit_free_text(conn, row) for row in rows])
    state = LockState.WAITING if blockers else LockState.ACQUIRED
    return Lock(id=lock_id, state=state, blockers=distinct(blockers.values()))


def new_rows(
    lock_id: int,
    txn: TxnId,
    requests: Sequence[LockRequest],
    holder: Holder,
    blockers: Mapping[LockRequest, LockRow],
    now: int,
) -> list[dict[str, object]]:
    """Returns the rows of one request, all waiting if one of them has a blocker."""
    state = LockState.WAITING if blockers else LockState.ACQUIRED
    return [
        {
            "HL_LOCK_EXT_ID": lock_id,
            "HL_LOCK_INT_ID": number,
            "HL_TXNID": txn,
            "HL_DB": request.database,
            "HL_TABLE": request.table,
            "HL_PARTITION": request.partition,
            "HL_LOCK_STATE": state.value,
            "HL_LOCK_TYPE": request.type.value,
            "HL_LAST_HEARTBEAT": now if txn == NO_TXN else 0,
            "HL_ACQUIRED_AT": None if blockers else now,
            "HL_USER": holder.user,
            "HL_HOST": holder.host,
            "HL_AGENT_INFO": holder.agent,
            **blocked_by(blockers.get(request)),
        }
        for number, request in enumerate(requests, start=1)
    ]


def read_rows(conn: Connection, *conditions: ColumnElement[bool]) -> list[LockRow]:
    """Returns the rows that meet ``conditions``, in the order in which they were requested."""
    order = (HIVE_LOCKS.c.HL_LOCK_EXT_ID, HIVE_LOCKS.c.HL_LOCK_INT_ID)
    return [_lock_row(row) for row in conn.execute(select(HIVE_LOCKS).where(*conditions).order_by(*order))]


#: A row with an unknown letter counts as EXCLUSIVE and granted, so that too many wait rather than too few.
_TYPES = {kind.value: kind for kind in LockType}
_STATES = {state.value: state for state in LockState}


def _lock_row(row: Row[tuple[object, ...]]) -> LockRow:
    blocked = row.HL_BLOCKEDBY_EXT_ID
    return LockRow(
        id=row.HL_LOCK_EXT_ID,
        internal_id=row.HL_LOCK_INT_ID,
        txn=TxnId(row.HL_TXNID),
        database=row.HL_DB,
        table=row.HL_TABLE,
        partition=row.HL_PARTITION,
        type=_TYPES.get(row.HL_LOCK_TYPE, LockType.EXCLUSIVE),
        state=_STATES.get(row.HL_LOCK_STATE, LockState.ACQUIRED),
        last_heartbeat=row.HL_LAST_HEARTBEAT,
        acquired_at=row.HL_ACQUIRED_AT,
        user=row.HL_USER,
        host=row.HL_HOST,
        agent=row.HL_AGENT_INFO,
        blocked_by=None if blocked is None else (blocked, row.HL_BLOCKEDBY_INT_ID),
    )


def request_of(row: LockRow) -> LockRequest:
    """Returns the request that led to the row."""
    return LockRequest(database=row.database, table=row.table, partition=row.partition, type=row.type)


def blocked_by(blocker: LockRow | None) -> dict[str, object]:
    """Returns the columns that name the row for which a lock waits."""
    return {
        "HL_BLOCKEDBY_EXT_ID": None if blocker is None else blocker.id,
        "HL_BLOCKEDBY_INT_ID": None if blocker is None else blocker.internal_id,
    }


def distinct(rows: Iterable[LockRow]) -> tuple[LockRow, ...]:
    """Returns each row once, in the order of their first occurrence."""
    return tuple({(row.id, row.internal_id): row for row in rows}.values())


def near(locks: Iterable[LockRequest | LockRow]) -> ColumnElement[bool]:
    """Returns the condition for rows in the databases of ``locks``; only these can conflict."""
    return HIVE_LOCKS.c.HL_DB.in_(sorted({lock.database for lock in locks}))
