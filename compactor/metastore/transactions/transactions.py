"""Transactions as rows of TXNS: open, heartbeat, commit, abort, time out, and snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, case, delete, func, insert, select, update

from compactor.acid import txn_states
from compactor.acid.write_ids import ValidTxnList
from compactor.base.errors import NotFound, Refused, TryAgain
from compactor.base.ids import TxnId
from compactor.database.clock import now_ms, silent_before_ms
from compactor.database.engine import Database, retried
from compactor.metastore.notifications import transaction_events
from compactor.metastore.notifications.notification_log import Notifications
from compactor.metastore.notifications.write_events import CommitNews, Write
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.free_text import fit_free_text
from compactor.metastore.schema.tables import HIVE_LOCKS, MIN_HISTORY_LEVEL, TXNS
from compactor.metastore.transactions import commit_rows
from compactor.metastore.transactions import transaction_rows as txn_rows
from compactor.metastore.transactions.open_limits import OPEN_TXN_TIMEOUT_MS, OpenLimit, TxnLimits
from compactor.metastore.transactions.shown_transactions import (
    KeyValue,
    NewTransaction,
    OpenTransaction,
)
from compactor.metastore.transactions.transaction_rows import (
    TIMED_OUT,
    TxnRow,
    TxnType,
    aborted_error,
    must_be_of,
    must_be_open,
    unknown_error,
)

TIMEOUT_MS = 300_000  #: ``hive.txn.timeout``
REPL_TIMEOUT_MS = 11 * 86_400_000  #: ``hive.repl.txn.timeout``


class Transactions:
    """Reads and writes TXNS and the rows that depend on it."""

    def __init__(
        self,
        database: Database,
        dialect: Dialect,
        limits: TxnLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        notifications: Notifications | None = None,
    ) -> None:
        self._database = database
        self._dialect = dialect
        self._limits = limits or TxnLimits()
        self._room = OpenLimit(self._limits, clock)
        self._clock = clock
        self._notifications = notifications or Notifications(dialect)

    @retried
    def open(
        self,
        user: str,
        host: str,
        *,
        type: TxnType = TxnType.DEFAULT,
        agent: str | None = None,
        count: int = 1,
    ) -> list[TxnId]:
        """Opens transactions, each with its MIN_HISTORY_LEVEL row; returns their ids in ascending order.

        One call opens at most ``hive.txn.max.open.batch`` of them, however many are requested, as in Hive.

        Raises:
            Refused: ``count`` is below 1, or ``hive.max.open.txns`` are open.
        """
        if count < 1:
            raise Refused(f"{count} transactions at once: open at least one")
        opening = NewTransaction(user=user, host=host, type=type, agent=agent)
        return self.open_all([opening] * min(count, self._limits.max_batch))

    @retried
    def open_all(self, openings: Sequence[NewTransaction]) -> list[TxnId]:
        """Opens one transaction for each of ``openings``, in order, as ``open`` does; all or none.

        Raises:
            Refused: ``hive.max.open.txns`` are open.
        """
        started_at = self._clock()
        with self._database.write() as conn:
            self._room.check(conn)
            self._dialect.lock_transactions(conn, exclusive=False)
            now = now_ms(conn)
            ids = self._dialect.open_transactions(
                conn, [fit_free_text(conn, opening.row(self._dialect.last_type, now)) for opening in openings]
            )
            if self._limits.min_history_level:
                lowest = txn_rows.lowest_open_id(conn)
                history = [{"MHL_TXNID": txn, "MHL_MIN_OPEN_TXNID": lowest} for txn in ids]
                conn.execute(insert(MIN_HISTORY_LEVEL), history)
        self._abort_if_late(ids, openings, started_at)
        self._room.opened(len(ids))
        return ids

    def _abort_if_late(self, ids: Sequence[TxnId], openings: Sequence[NewTransaction], started_at: float) -> None:
        """Aborts transactions whose rows came too late, because a snapshot may count their ids as never used.

        Ids can be drawn long before their rows exist. Hive's ``OpenTxnsFunction`` removes the rows. But the housekeeper may
        have taken the largest of them for settled, and have forgotten those below it: the largest row always stays.

        Raises:
            TryAgain: they are aborted; open other transactions.
        """
        took_ms = (self._clock() - started_at) * 1000
        harmless = all(o.type is TxnType.READ_ONLY for o in openings) or not self._dialect.draws_early
        if harmless or took_ms < self._limits.open_timeout_ms:
            return
        with self._database.write() as conn:
            conn.execute(delete(MIN_HISTORY_LEVEL).where(MIN_HISTORY_LEVEL.c.MHL_TXNID.in_(ids)))
            late = update(TXNS).where(TXNS.c.TXN_ID.in_(ids), TXNS.c.TXN_STATE == txn_states.OPEN)
            conn.execute(late.values(TXN_STATE=txn_states.ABORTED))
        raise TryAgain(
            f"opening {len(ids)} transactions took {took_ms:.0f} ms, longer than hive.txn.opentxn.timeout "
            f"({self._limits.open_timeout_ms} ms); they are aborted"
        )

    @retried
    def commit(self, txn: TxnId, key_value: KeyValue | None = None, *, agent: str | None = None) -> None:
        """Makes the writes of ``txn`` visible; does nothing if it is already committed.

        ``key_value`` is set in the same database transaction (Hive's ``CommitTxnRequest.keyValue``); ``agent`` is the
        process that must have opened ``txn``.

        A transaction that updated or deleted loses to another one that did so on the same object and committed after
        ``txn`` was opened: the first committer wins (Hive's ``CommitTxnFunction`` without ``hive.txn.xlock.write``).

        Raises:
            TransactionAborted: it is aborted, or loses and is aborted now.
            NotFound: the transaction is unknown.
            Disagreement: another process opened it.
            Refused: ``key_value`` names a property that does not exist; the transaction stays open.
        """
        with self._database.write() as conn:
            row = txn_rows.locked_row(conn, self._dialect, txn)
            must_be_of(row, txn, agent)
            if row is None and self._dialect.is_remembered(conn, txn):
                return
            if row is None:
                raise unknown_error(txn)
            if row.state == txn_states.COMMITTED:
                return
            if row.state == txn_states.ABORTED:
                raise aborted_error(conn, txn)
            winner = self._commit_unless_lost(conn, txn, row.type)
            if winner is None and key_value is not None:
                commit_rows.set_property(conn, key_value)
        if winner is not None:
            raise commit_rows.lost_error(txn, winner)

    @contextmanager
    def committing(
        self,
        txn: TxnId,
        written: Sequence[Write] = (),
        first: Sequence[commit_rows.InTransaction] = (),
        *,
        agent: str | None = None,
    ) -> Iterator[None]:
        """Commits ``txn`` at the end of the block, whose body gives its files their final names.

        Meanwhile the row of ``txn`` is locked in state ``o``, so nobody can abort, time out or forget it. A process that
        was paused before this can name nothing (PROTOCOL 14.1). The body must not touch a database.

        Args:
            written: the writes of ``txn``; their statistics are no longer exact, and events go to the notification log.
            first: functions that run in the same database transaction before the body.
            agent: the process that must have opened ``txn``.

        Raises:
            TransactionAborted: it is aborted, or loses (WriteConflict), mostly before the body runs.
            NotFound: it is committed or unknown.
            Disagreement: another process opened it, or the database does not know its writes.
            CommitUnknown: the answer to the commit was lost.
        """
        write_ids = {write.entity: write.write_id for write in written}
        with self._database.write() as conn:
            row = must_be_open(conn, self._dialect, txn, agent)
            for work in first:
                work(conn)
            commit_rows.must_have_written(conn, txn, write_ids)
            winner = commit_rows.conflict(conn, self._dialect, txn)
            if winner is None:
                commit_rows.unmark_statistics(conn, self._dialect, write_ids)
                news = self._notifications.read(conn, written)
                yield
                winner = self._commit_unless_lost(conn, txn, row.type, news)
            else:
                self._mark_aborted(conn, [txn], "write conflicts")
        if winner is not None:
            raise commit_rows.lost_error(txn, winner)

    @retried
    def abort(
        self, txn: TxnId, reason: str, first: Callable[[TxnId], object] | None = None, *, agent: str | None = None
    ) -> bool:
        """Aborts ``txn``; returns false if it has ended already or never existed.

        Its components stay until cleaned.

        ``first`` is called with the newest transaction before the locks are released, while ``txn`` is open and its row
        locked. It must not touch a database.

        Args:
            agent: the process that must have opened ``txn``.

        Raises:
            Disagreement: another process opened it.
        """
        with self._database.write() as conn:
            row = txn_rows.locked_row(conn, self._dialect, txn)
            must_be_of(row, txn, agent)
            if first is not None and row is not None and row.is_open:
                first(self._dialect.newest(conn))
            return bool(self._mark_aborted(conn, [txn], reason))

    @retried
    def give_back(self, txns: Collection[TxnId], reason: str, *, agent: str) -> None:
        """Aborts those ``txns`` that ``agent`` opened and that are still open, and deletes their components.

        They were opened in advance. No file has their write IDs or can get them after this, so nothing needs cleaning.
        """
        with self._database.write() as conn:
            rows = txn_rows.locked_rows(conn, self._dialect, txns)
            own = [txn for txn in sorted(rows) if rows[txn].is_open and rows[txn].agent == agent]
            txn_rows.forget_components(conn, own)
            self._mark_aborted(conn, own, reason)

    def not_compactions(self) -> frozenset[TxnId]:
        """Returns the transactions with a row in TXNS that are certainly not compactions."""
        kinds = [int(kind) for kind in TxnType if kind.compacts]
        with self._database.read() as conn:
            rows = conn.execute(select(TXNS.c.TXN_ID).where(func.coalesce(TXNS.c.TXN_TYPE, 0).not_in(kinds)))
            return frozenset(map(TxnId, rows.scalars()))

    @contextmanager
    def timing_out(self, txn: TxnId, timeout_ms: int) -> Iterator[TxnId | None]:
        """Aborts ``txn`` at the end of the block, whose body runs before the locks are released.

        Yields the newest transaction. If ``txn`` has ended or had a heartbeat within ``timeout_ms``, it yields None and
        aborts nothing. The row of ``txn`` stays locked, so ``txn`` can do nothing meanwhile. The body must not touch a
        database.
        """
        with self._database.write() as conn:
            row = txn_rows.locked_row(conn, self._dialect, txn)
            heard = conn.execute(select(TXNS.c.TXN_LAST_HEARTBEAT).where(TXNS.c.TXN_ID == txn)).scalar()
            if row is None or not row.is_open or (heard or 0) >= silent_before_ms(conn, timeout_ms):
                yield None
                return
            yield self._dialect.newest(conn)
            self._mark_aborted(conn, [txn], TIMED_OUT)

    @contextmanager
    def holding(self, txn: TxnId) -> Iterator[None]:
        """Keeps ``txn`` and its locks until the block ends: nobody can abort it or time it out meanwhile.

        The body must not touch a database.

        Raises:
            TransactionAborted: it is aborted.
            NotFound: it is committed or unknown.
        """
        with self._database.write() as conn:
            must_be_open(conn, self._dialect, txn)
            yield

    @retried
    def heartbeat(self, txn: TxnId) -> None:
        """Records a heartbeat of ``txn``.

        Raises:
            TransactionAborted: it is aborted.
            NotFound: it is committed or unknown.
        """
        with self._database.write() as conn:
            guarded = update(TXNS).where(TXNS.c.TXN_ID == txn, TXNS.c.TXN_STATE == txn_states.OPEN)
            if conn.execute(guarded.values(TXN_LAST_HEARTBEAT=now_ms(conn))).rowcount == 1:
                return
            if self._must_exist(conn, txn).state == txn_states.ABORTED:
                raise aborted_error(conn, txn)
        raise NotFound(f"transaction {txn} is committed; a heartbeat is only for an open one")

    @retried
    def heartbeat_all(self, txns: Sequence[TxnId]) -> dict[TxnId, str | None]:
        """Records a heartbeat of ``txns``; returns the states of ended ones, None for one without a row."""
        these = TXNS.c.TXN_ID.in_(txns)
        with self._database.write() as conn:
            alive = update(TXNS).where(these, TXNS.c.TXN_STATE == txn_states.OPEN)
            if conn.execute(alive.values(TXN_LAST_HEARTBEAT=now_ms(conn))).rowcount == len(txns):
                return {}
            rows = conn.execute(select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE).where(these)).all()
        states: dict[TxnId, str] = {TxnId(row.TXN_ID): row.TXN_STATE for row in rows}
        return {txn: states.get(txn) for txn in txns if states.get(txn) != txn_states.OPEN}

    def state(self, txn: TxnId) -> str | None:
        """Returns ``o``, ``a`` or ``c``.

        Returns None for a transaction without a row, which may be ended and forgotten.
        """
        with self._database.read() as conn:
            return conn.execute(select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == txn)).scalar()

    def states(self, txns: Sequence[TxnId]) -> dict[TxnId, str]:
        """Returns the states of the ``txns`` with a row, in one statement."""
        with self._database.read() as conn:
            rows = conn.execute(select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID.in_(txns)))
            return {TxnId(row.TXN_ID): row.TXN_STATE for row in rows}

    def rows(self, txns: Collection[TxnId]) -> dict[TxnId, TxnRow]:
        """Returns state and type of the ``txns`` with a row.

        ``txns`` may hold any numbers from names of directories.
        """
        if not txns:
            return {}
        numbers = sorted(txns)
        columns = select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE, TXNS.c.TXN_TYPE)
        with self._database.read() as conn:
            return {
                TxnId(row[0]): TxnRow(state=row[1], type=TxnType(row[2] or 0))
                for at in range(0, len(numbers), txn_rows.AT_ONCE)
                for row in conn.execute(columns.where(TXNS.c.TXN_ID.in_(numbers[at : at + txn_rows.AT_ONCE])))
            }

    def snapshot(self, own: TxnId | None = None, *, open_txn_timeout_ms: int | None = None) -> ValidTxnList:
        """Returns the snapshot of a reader that starts now; open compactions count as open, like every writer.

        With ``own`` the list ends at that transaction, which sees its own writes (Hive's
        ``TxnCommonUtils.createValidReadTxnList``). A missing id below a young row counts as open, because its row may be
        about to appear (``GetOpenTxnsListHandler``). A row is young for ``open_txn_timeout_ms``, by default the site's
        ``hive.txn.opentxn.timeout``.
        """
        timeout = self._limits.open_timeout_ms if open_txn_timeout_ms is None else open_txn_timeout_ms
        with self._database.read() as conn:
            low = self._dialect.settled(conn, timeout)
            high = self._dialect.newest(conn)
            writes = func.coalesce(TXNS.c.TXN_TYPE, 0) != TxnType.READ_ONLY
            unfinished = select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE).where(TXNS.c.TXN_STATE != txn_states.COMMITTED, writes)
            rows = conn.execute(unfinished).all()
            young = set(conn.execute(select(TXNS.c.TXN_ID).where(TXNS.c.TXN_ID > low)).scalars())
        opened = {TxnId(row.TXN_ID) for row in rows if row.TXN_STATE != txn_states.ABORTED}
        opened |= {TxnId(txn) for txn in range(low + 1, high) if txn not in young}
        aborted = {TxnId(row.TXN_ID) for row in rows if row.TXN_STATE == txn_states.ABORTED}
        if own is not None:
            high = min(own, high)
            opened, aborted = {t for t in opened if t < own}, {t for t in aborted if t < own}
        return ValidTxnList(high_watermark=high, open=frozenset(opened), aborted=frozenset(aborted))

    def lowest_open(self, open_txn_timeout_ms: int = OPEN_TXN_TIMEOUT_MS) -> TxnId:
        """Returns the cleaner's gate: no transaction below it is open, of any type (PROTOCOL 7.1).

        It is the minimum of the lowest row in ``o`` and 1 + the newest id older than the time-out. Rows of higher ids may
        still be about to appear.
        """
        with self._database.read() as conn:
            settled = self._dialect.settled(conn, open_txn_timeout_ms)
            lowest = txn_rows.lowest_open_id(conn)
        return TxnId(settled + 1) if lowest is None else min(lowest, TxnId(settled + 1))

    def newest(self) -> TxnId:
        """Returns the largest TXN_ID allocated so far."""
        with self._database.read() as conn:
            return self._dialect.newest(conn)

    def open_transactions(self) -> list[OpenTransaction]:
        """Returns every open transaction, oldest first."""
        return self._in_state(txn_states.OPEN)

    def open_figures(self) -> tuple[int, int | None]:
        """Returns the number of open transactions and the start of the oldest (epoch ms)."""
        query = select(func.count(), func.min(TXNS.c.TXN_STARTED)).where(TXNS.c.TXN_STATE == txn_states.OPEN)
        with self._database.read() as conn:
            number, oldest = conn.execute(query).one()
        return int(number), oldest

    def unfinished(self) -> list[OpenTransaction]:
        """Returns open transactions, and aborted ones that are not yet forgotten, oldest first."""
        return self._in_state(txn_states.OPEN, txn_states.ABORTED)

    def aborted(self) -> dict[TxnId, int]:
        """Returns every aborted transaction that is not yet forgotten, with its start (epoch ms)."""
        with self._database.read() as conn:
            rows = conn.execute(select(TXNS.c.TXN_ID, TXNS.c.TXN_STARTED).where(TXNS.c.TXN_STATE == txn_states.ABORTED))
            return {TxnId(row.TXN_ID): row.TXN_STARTED for row in rows}

    def _in_state(self, *states: str) -> list[OpenTransaction]:
        with self._database.read() as conn:
            rows = conn.execute(select(TXNS).where(TXNS.c.TXN_STATE.in_(states)).order_by(TXNS.c.TXN_ID))
            return [
                OpenTransaction(
                    id=TxnId(row.TXN_ID),
                    user=row.TXN_USER,
                    host=row.TXN_HOST,
                    type=TxnType(row.TXN_TYPE or 0),
                    started=row.TXN_STARTED,
                    last_heartbeat=row.TXN_LAST_HEARTBEAT,
                    agent=row.TXN_AGENT_INFO,
                    state=row.TXN_STATE,
                )
                for row in rows
            ]

    @retried
    def time_out(
        self,
        timeout_ms: int = TIMEOUT_MS,
        *,
        repl_timeout_ms: int = REPL_TIMEOUT_MS,
        spared: Collection[TxnId] = (),
        among: Collection[TxnId] | None = None,
    ) -> list[TxnId]:
        """Aborts transactions, and deletes locks without one, that had no heartbeat within their time-out.

        Args:
            spared: transactions that stay open at any age (PROTOCOL 11.5).
            among: abort only these, and delete no locks; None for all.
        """
        with self._database.write() as conn:
            heard, silent_before = HIVE_LOCKS.c.HL_LAST_HEARTBEAT, silent_before_ms(conn, timeout_ms)
            if among is None:
                conn.execute(delete(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_TXNID == 0, heard < silent_before))
            replicated = TXNS.c.TXN_TYPE == TxnType.REPL_CREATED
            deadline = case((replicated, silent_before_ms(conn, repl_timeout_ms)), else_=silent_before)
            expired = select(TXNS.c.TXN_ID).where(
                TXNS.c.TXN_STATE == txn_states.OPEN, TXNS.c.TXN_LAST_HEARTBEAT < deadline
            )
            ids = conn.execute(self._dialect.for_update(expired.order_by(TXNS.c.TXN_ID))).scalars().all()
            silent = [TxnId(txn) for txn in ids if txn not in spared and (among is None or txn in among)]
            return self._mark_aborted(conn, silent, TIMED_OUT)

    def _mark_aborted(self, conn: Connection, txns: Sequence[TxnId], reason: str) -> list[TxnId]:
        """Aborts ``txns``, writes the events, and returns those that were open."""
        aborted = [txn for txn in txns if txn_rows.mark_aborted(conn, self._dialect, txn, reason)]
        if aborted:
            self._notifications.write(conn, transaction_events.on_abort(aborted))
        return aborted

    def _commit_unless_lost(
        self, conn: Connection, txn: TxnId, type: TxnType, written: CommitNews | None = None
    ) -> TxnId | None:
        """Commits ``txn``; or aborts it and returns the transaction to which it loses."""
        self._dialect.lock_transactions(conn, exclusive=True)
        commit_id = self._dialect.newest(conn)
        winner = commit_rows.conflict(conn, self._dialect, txn)
        if winner is not None:
            self._mark_aborted(conn, [txn], "write conflicts")
            return winner
        # Without MIN_HISTORY_LEVEL Hive uses WRITE_SET to find every transaction that wrote.
        by_write_ids = self._limits.min_history_write_id is True
        everything = by_write_ids or not self._limits.min_history_level
        commit_rows.complete(conn, self._dialect, txn, type, commit_id, everything=everything)
        self._notifications.write(conn, transaction_events.on_commit(txn, self._dialect, written))
        return None

    def _must_exist(self, conn: Connection, txn: TxnId) -> TxnRow:
        row = txn_rows.locked_row(conn, self._dialect, txn)
        if row is None:
            raise unknown_error(txn)
        return row
