"""Removal of rows that are no longer needed: history, write sets, mappings, components, transactions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, and_, delete, func, select

from compactor.acid import txn_states
from compactor.base.ids import TxnId
from compactor.database.clock import silent_before_ms
from compactor.database.engine import Database, retried
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    MATERIALIZATION_REBUILD_LOCKS,
    MIN_HISTORY_LEVEL,
    MIN_HISTORY_WRITE_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
    WRITE_SET,
)
from compactor.metastore.transactions import transaction_rows as txn_rows
from compactor.metastore.transactions.open_limits import OPEN_TXN_TIMEOUT_MS

_CTC = COMPLETED_TXN_COMPONENTS.c
_T2W = TXN_TO_WRITE_ID.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgettable:
    """An ended transaction without components, to forget once storage has none of its files (PROTOCOL 8)."""

    id: TxnId
    state: str  #: ``a`` or ``c``
    started: int
    last_heartbeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows of the tables that housekeeping keeps small."""

    completed_txn_components: int
    txn_to_write_id: int
    write_set: int
    ended_transactions: int  #: aborted or committed, without components
    stale_history: int  #: rows of MIN_HISTORY_LEVEL of ended transactions, which block cleaners forever


class Housekeeping:
    """Removes rows. Each purge is one writing transaction and returns the number of removed rows."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    @retried
    def purge_history(self, ids: Collection[int]) -> int:
        """Deletes these rows of COMPLETED_COMPACTIONS; ``compaction.history_retention`` chooses them."""
        chosen = sorted(ids)
        with self._database.write() as conn:
            return sum(
                conn.execute(
                    delete(COMPLETED_COMPACTIONS).where(COMPLETED_COMPACTIONS.c.CC_ID.in_(chosen[at : at + 500]))
                ).rowcount
                for at in range(0, len(chosen), 500)
            )

    @retried
    def purge_write_set(self, *, open_txn_timeout_ms: int = OPEN_TXN_TIMEOUT_MS) -> int:
        """Deletes write sets that were committed before the oldest open transaction began.

        They can no longer conflict.

        An id that was drawn within the time-out may belong to a transaction whose row does not exist yet.
        """
        with self._database.write() as conn:
            edge = self._lowest_open(conn, open_txn_timeout_ms)
            return conn.execute(delete(WRITE_SET).where(WRITE_SET.c.WS_COMMIT_ID < edge)).rowcount

    @retried
    def purge_min_history(self, *, open_txn_timeout_ms: int = OPEN_TXN_TIMEOUT_MS) -> int:
        """Deletes rows of MIN_HISTORY_LEVEL and MIN_HISTORY_WRITE_ID whose transaction has ended.

        Hive normally removes them at the end of a transaction. Rows that stay would block cleaners forever.
        """
        opened = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == txn_states.OPEN)
        with self._database.write() as conn:
            settled = self._dialect.settled(conn, open_txn_timeout_ms)
            gone = 0
            for column in (MIN_HISTORY_LEVEL.c.MHL_TXNID, MIN_HISTORY_WRITE_ID.c.MH_TXNID):
                if self._dialect.has(column.table):
                    ended = delete(column.table).where(column <= settled, column.not_in(opened))
                    gone += conn.execute(ended).rowcount
            return gone

    @retried
    def purge_rebuild_locks(self, timeout_ms: int) -> int:
        """Deletes rows of MATERIALIZATION_REBUILD_LOCKS without a heartbeat for ``timeout_ms``.

        Rows of open transactions stay (Hive's ``MaterializationsRebuildLockCleanerTask``).
        """
        locks = MATERIALIZATION_REBUILD_LOCKS.c
        opened = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == txn_states.OPEN)
        with self._database.write() as conn:
            silent = locks.MRL_LAST_HEARTBEAT < silent_before_ms(conn, timeout_ms)
            stale = delete(MATERIALIZATION_REBUILD_LOCKS).where(silent, locks.MRL_TXN_ID.not_in(opened))
            return conn.execute(stale).rowcount

    @retried
    def purge_write_ids(self, *, open_txn_timeout_ms: int = OPEN_TXN_TIMEOUT_MS) -> int:
        """Deletes mappings that no write-id list needs.

        Their transactions are below all open, aborted and still read ones.

        In each table they go from the lowest write ID upward without a gap. Hive's readers take the highest mapping as
        watermark: if a mapping below a purged one stayed, they would miss the rows of the purged one.
        """
        with self._database.write() as conn:
            mark = self._needed_from(conn, open_txn_timeout_ms)
            tables = select(_T2W.T2W_DATABASE, _T2W.T2W_TABLE).distinct()
            gone = 0
            for row in conn.execute(tables.where(_T2W.T2W_TXNID < mark)).all():
                here = and_(_T2W.T2W_DATABASE == row.T2W_DATABASE, _T2W.T2W_TABLE == row.T2W_TABLE)
                kept = conn.execute(select(func.min(_T2W.T2W_WRITEID)).where(here, _T2W.T2W_TXNID >= mark)).scalar()
                old = delete(TXN_TO_WRITE_ID).where(here, _T2W.T2W_TXNID < mark)
                gone += conn.execute(old if kept is None else old.where(_T2W.T2W_WRITEID < kept)).rowcount
            return gone

    @retried
    def purge_components(self) -> int:
        """Deletes redundant rows of COMPLETED_TXN_COMPONENTS.

        For each entity two rows stay: the one with the highest write ID, and the highest one that updated or deleted
        (Hive's ``removeDuplicateCompletedTxnComponents``). Rows without a write ID (Trino's) rank by the write ID of
        their transaction. They go too if the last successful compaction covered it.
        """
        with self._database.write() as conn:
            rows = conn.execute(_ranked_components()).all()
            seen: set[tuple[str, str, str | None, bool]] = set()
            surplus: list[tuple[ColumnElement[bool], ...]] = []
            covered = _compacted_up_to(conn)
            gone = 0
            for row in rows:
                entity = (row.CTC_DATABASE, row.CTC_TABLE, row.CTC_PARTITION)
                newest, changes = (*entity, False), (*entity, True)
                below = row.write_id is not None and row.write_id <= covered.get(entity, 0)
                is_needed = newest not in seen or (row.CTC_UPDATE_DELETE == "Y" and changes not in seen)
                if is_needed and not (row.CTC_WRITEID is None and below):
                    seen |= {newest, changes} if row.CTC_UPDATE_DELETE == "Y" else {newest}
                    if row.copies > 1:
                        gone += _remove_copies(conn, row)
                    continue
                surplus.append(_is_equal_to(row))
            for condition in surplus:
                gone += conn.execute(delete(COMPLETED_TXN_COMPONENTS).where(*condition)).rowcount
            return gone

    def counts(self) -> Counts:
        """Returns the numbers of rows."""
        history = MIN_HISTORY_LEVEL.c.MHL_TXNID
        opened = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == txn_states.OPEN)
        with self._database.read() as conn:
            settled = self._dialect.settled(conn, OPEN_TXN_TIMEOUT_MS)

            def count(table: Table, *conditions: ColumnElement[bool]) -> int:
                return int(conn.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one())

            return Counts(
                completed_txn_components=count(COMPLETED_TXN_COMPONENTS),
                txn_to_write_id=count(TXN_TO_WRITE_ID),
                write_set=count(WRITE_SET),
                ended_transactions=count(TXNS, *self._forgettable(conn, OPEN_TXN_TIMEOUT_MS)),
                stale_history=count(MIN_HISTORY_LEVEL, history <= settled, history.not_in(opened)),
            )

    def forgettable(self, open_txn_timeout_ms: int = OPEN_TXN_TIMEOUT_MS) -> list[Forgettable]:
        """Returns the transactions that ``forget_transactions`` may forget.

        So storage can be checked first.
        """
        with self._database.read() as conn:
            query = select(TXNS).where(*self._forgettable(conn, open_txn_timeout_ms)).order_by(TXNS.c.TXN_ID)
            return [
                Forgettable(
                    id=TxnId(row.TXN_ID),
                    state=row.TXN_STATE,
                    started=row.TXN_STARTED,
                    last_heartbeat=row.TXN_LAST_HEARTBEAT,
                )
                for row in conn.execute(query)
            ]

    @retried
    def forget_transactions(self, aborted: Collection[TxnId], *, open_txn_timeout_ms: int = OPEN_TXN_TIMEOUT_MS) -> int:
        """Deletes ended transactions without components below the low boundary.

        These are committed ones, and ``aborted``.

        The largest row always stays, or its id could be allocated again (PROTOCOL 9). ``aborted`` has only transactions
        without files in storage, because a forgotten transaction counts as committed.
        """
        proven = set(aborted)
        with self._database.write() as conn:
            candidates = select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE).where(*self._forgettable(conn, open_txn_timeout_ms))
            chosen = [
                row.TXN_ID
                for row in conn.execute(candidates)
                if row.TXN_STATE == txn_states.COMMITTED or row.TXN_ID in proven
            ]
            for at in range(0, len(chosen), 500):
                part = chosen[at : at + 500]
                gone = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_ID.in_(part), TXNS.c.TXN_STATE == txn_states.ABORTED)
                conn.execute(delete(TXN_TO_WRITE_ID).where(_T2W.T2W_TXNID.in_(gone)))
                conn.execute(delete(TXNS).where(TXNS.c.TXN_ID.in_(part)))
            return len(chosen)

    def _forgettable(self, conn: Connection, open_txn_timeout_ms: int) -> tuple[ColumnElement[bool], ...]:
        largest = conn.execute(select(func.max(TXNS.c.TXN_ID))).scalar() or 0
        boundary = min(self._dialect.settled(conn, open_txn_timeout_ms), largest)
        conditions = [
            TXNS.c.TXN_STATE.in_((txn_states.ABORTED, txn_states.COMMITTED)),
            TXNS.c.TXN_ID < boundary,
            TXNS.c.TXN_ID.not_in(select(TXN_COMPONENTS.c.TC_TXNID)),
        ]
        if self._dialect.has(MIN_HISTORY_WRITE_ID):
            conditions.append(TXNS.c.TXN_ID.not_in(select(MIN_HISTORY_WRITE_ID.c.MH_TXNID)))
        return tuple(conditions)

    def _lowest_open(self, conn: Connection, open_txn_timeout_ms: int) -> int:
        """Returns the id below which every transaction has ended."""
        settled = self._dialect.settled(conn, open_txn_timeout_ms)
        lowest = txn_rows.lowest_open_id(conn)
        return settled + 1 if lowest is None else min(lowest, settled + 1)

    def _needed_from(self, conn: Connection, open_txn_timeout_ms: int) -> int:
        """Returns the lowest transaction whose mapping may still be read.

        Hive's ``CleanTxnToWriteIdTableFunction`` does the same.
        """
        unfinished = select(func.min(TXNS.c.TXN_ID)).where(TXNS.c.TXN_STATE != txn_states.COMMITTED)
        marks = (
            conn.execute(unfinished).scalar(),
            conn.execute(select(func.min(WRITE_SET.c.WS_TXNID))).scalar(),
            conn.execute(select(func.min(MIN_HISTORY_LEVEL.c.MHL_MIN_OPEN_TXNID))).scalar(),
            conn.execute(select(func.min(_CTC.CTC_TXNID)).where(_CTC.CTC_WRITEID.is_(None))).scalar(),
            self._dialect.settled(conn, open_txn_timeout_ms) + 1,
        )
        return min(mark for mark in marks if mark is not None)


def _ranked_components() -> Select[Any]:
    """Returns the query for distinct rows with a write ID, highest first.

    A row without one gets that of its transaction.
    """
    mapped = select(_T2W.T2W_WRITEID).where(
        _T2W.T2W_TXNID == _CTC.CTC_TXNID, _T2W.T2W_DATABASE == _CTC.CTC_DATABASE, _T2W.T2W_TABLE == _CTC.CTC_TABLE
    )
    write_id = func.coalesce(_CTC.CTC_WRITEID, mapped.scalar_subquery())
    columns = (
        _CTC.CTC_TXNID,
        _CTC.CTC_DATABASE,
        _CTC.CTC_TABLE,
        _CTC.CTC_PARTITION,
        _CTC.CTC_WRITEID,
        _CTC.CTC_UPDATE_DELETE,
    )
    query = select(*columns, write_id.label("write_id"), func.count().label("copies"))
    return query.group_by(*columns).order_by(
        func.coalesce(write_id, 0).desc(), _CTC.CTC_WRITEID.is_(None), _CTC.CTC_TXNID.desc()
    )


def _compacted_up_to(conn: Connection) -> dict[tuple[str, str | None, str | None], int]:
    done = COMPLETED_COMPACTIONS.c
    query = select(done.CC_DATABASE, done.CC_TABLE, done.CC_PARTITION, func.max(done.CC_HIGHEST_WRITE_ID))
    query = query.where(done.CC_STATE == "s").group_by(done.CC_DATABASE, done.CC_TABLE, done.CC_PARTITION)
    return {(row[0], row[1], row[2]): row[3] or 0 for row in conn.execute(query)}


def _is_equal_to(row: Row[Any]) -> tuple[ColumnElement[bool], ...]:
    """Returns the conditions for rows equal to ``row`` except for their time."""
    names = ("CTC_TXNID", "CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION", "CTC_WRITEID", "CTC_UPDATE_DELETE")
    return tuple(_CTC[name].is_not_distinct_from(getattr(row, name)) for name in names)


def _remove_copies(conn: Connection, row: Row[Any]) -> int:
    """Keeps one of several equal rows, with the time of the first; returns the number of removed rows."""
    first = conn.execute(select(func.min(_CTC.CTC_TIMESTAMP)).where(*_is_equal_to(row))).scalar_one()
    conn.execute(delete(COMPLETED_TXN_COMPONENTS).where(*_is_equal_to(row)))
    names = ("CTC_TXNID", "CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION", "CTC_WRITEID", "CTC_UPDATE_DELETE")
    values = {name: getattr(row, name) for name in names}
    conn.execute(COMPLETED_TXN_COMPONENTS.insert().values(CTC_TIMESTAMP=first, **values))
    return int(row.copies) - 1
