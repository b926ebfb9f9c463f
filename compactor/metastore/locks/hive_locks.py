"""Locks as rows of HIVE_LOCKS: first come, first served, all of a request or none (Hive's ``CheckLockFunction``)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, bindparam, delete, literal_column, select, update

from compactor.base.errors import LockNotGranted, NotFound, Refused
from compactor.base.ids import TxnId
from compactor.compaction.entry import Entity
from compactor.database.clock import now_ms
from compactor.database.engine import Database
from compactor.database.prepared import send, send_all
from compactor.database.retry import retried
from compactor.locking.lock_requests import LockRequest, sorted_requests
from compactor.locking.lock_types import LockType, conflicts, overlap
from compactor.metastore.locks.lock_rows import (
    NEW_ROW,
    NO_TXN,
    Holder,
    Lock,
    LockRow,
    LockState,
    blocked_by,
    distinct,
    insert_request,
    near,
    new_rows,
    read_rows,
    request_of,
)
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import HIVE_LOCKS, NEXT_LOCK_ID, TXN_LOCK_TBL
from compactor.metastore.transactions import transaction_rows as txn_rows
from compactor.metastore.transactions.transaction_rows import must_be_open

_log = logging.getLogger(__name__)


# Built once, since every commit of a program asks.
_HAS_LOCK = select(HIVE_LOCKS.c.HL_TXNID).where(HIVE_LOCKS.c.HL_TXNID == bindparam("of_txn")).limit(literal_column("1"))


def has_lock(conn: Connection, txn: TxnId) -> bool:
    """Returns true if ``txn`` holds a lock or waits for one, on any object."""
    return bool(send(conn, _HAS_LOCK, {"of_txn": txn}).rows)


class Locks:
    """HIVE_LOCKS. A partition is locked under every form of its name that writers use (PROTOCOL 9)."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect
        # Hive 3, which has no TXN_LOCK_TBL, knows no EXCL_WRITE: its SHARED_WRITE is that.
        self._semi_shared = not dialect.has(TXN_LOCK_TBL)

    @retried
    def acquire(
        self,
        txn: TxnId,
        requests: Iterable[LockRequest],
        user: str,
        host: str,
        *,
        agent: str | None = None,
        zero_wait_read: bool = False,
        exclusive_ctas: bool = False,
    ) -> Lock:
        """Requests all of ``requests`` at once; they wait together if one of them must.

        ``txn`` 0 is a lock without a transaction, which lives by its own heartbeat. With ``zero_wait_read`` a shared
        read never waits, and with ``exclusive_ctas`` the lock on the table being created does not (Hive's options of
        these names): such a request leaves no row.

        Raises:
            TransactionAborted: the transaction is aborted.
            NotFound: it is committed or unknown.
            Refused: nothing is requested.
            LockNotGranted: it would have to wait, and the options forbid that.
        """
        with self._database.write() as conn:
            wanted = self._wanted(conn, txn, requests)
            lock_id = self._draw(conn)
            blockers = self._blockers(read_rows(conn, near(wanted)), wanted, txn, before=lock_id)
            for request, row in blockers.items():
                if zero_wait_read and txn != NO_TXN and request.type is LockType.SHARED_READ:
                    raise LockNotGranted(f"{request}: not granted without waiting; in the way: {row}")
                if exclusive_ctas and request.type in (LockType.EXCL_WRITE, LockType.EXCLUSIVE):
                    raise LockNotGranted(f"{request}: the table is being made by somebody else; in the way: {row}")
            return insert_request(conn, lock_id, txn, wanted, Holder(user=user, host=host, agent=agent), blockers)

    @retried
    def try_acquire(
        self, txn: TxnId, requests: Iterable[LockRequest], user: str, host: str, *, agent: str | None = None
    ) -> Lock | None:
        """Requests locks as ``acquire`` does, but returns None if they are not granted at once.

        Such a request leaves no row, so nobody queues behind it. The log names the blockers; ``blockers`` returns them.

        Raises:
            TransactionAborted: the transaction is aborted.
            NotFound: it is committed or unknown.
            Refused: nothing is requested.
        """
        with self._database.write() as conn:
            wanted = self._wanted(conn, txn, requests)
            lock_id = self._draw(conn)
            blockers = self._blockers(read_rows(conn, near(wanted)), wanted, txn, before=lock_id)
            if not blockers:
                return insert_request(conn, lock_id, txn, wanted, Holder(user=user, host=host, agent=agent), {})
        _not_granted(txn, blockers)
        return None

    @retried
    def try_acquire_all(self, wanted: Mapping[TxnId, LockRequest], user: str, host: str) -> frozenset[TxnId]:
        """Requests one lock for each of several transactions, as ``try_acquire`` does; returns those granted.

        A transaction that is not open gets none. They do not block each other: all are shared locks.
        """
        if any(request.type is not LockType.SHARED_READ for request in wanted.values()):
            raise AssertionError("only shared locks are asked for together")
        with self._database.write() as conn:
            rows = txn_rows.locked_rows(conn, self._dialect, wanted.keys())
            asked = {txn: self._adapted([wanted[txn]]) for txn in wanted if txn in rows and rows[txn].is_open}
            first = self._draw(conn, len(asked))
            held = _by_table(read_rows(conn, near(r for requests in asked.values() for r in requests)) if asked else ())
            granted: dict[TxnId, tuple[LockRequest, ...]] = {}
            for txn, requests in asked.items():
                blockers = self._blockers(_around(held, requests[0]), requests, txn, before=first)
                if blockers:
                    _not_granted(txn, blockers)
                else:
                    granted[txn] = requests
            now, holder = now_ms(conn), Holder(user=user, host=host)
            new = [
                row
                for number, (txn, requests) in enumerate(granted.items(), start=first)
                for row in new_rows(number, txn, requests, holder, {}, now)
            ]
            send_all(conn, NEW_ROW, new)
        return frozenset(granted)

    def blockers(self, txn: TxnId, requests: Iterable[LockRequest]) -> tuple[LockRow, ...]:
        """Returns the rows for which these requests would have to wait now."""
        wanted = self._adapted(requests)
        with self._database.read() as conn:
            return distinct(self._blockers(read_rows(conn, near(wanted)), wanted, txn, before=None).values())

    @retried
    def check(self, lock_id: int) -> Lock:
        """Looks again at a lock that waits; it is acquired once no earlier row blocks it.

        Raises:
            NotFound: there is no such lock: released, or its transaction ended or timed out.
            TransactionAborted: its transaction was aborted just now.
        """
        with self._database.write() as conn:
            own = read_rows(conn, HIVE_LOCKS.c.HL_LOCK_EXT_ID == lock_id)
            if not own:
                raise NotFound(f"lock {lock_id} is not there: it was released, or its transaction ended or timed out")
            txn = own[0].txn
            if txn != NO_TXN:
                must_be_open(conn, self._dialect, txn)
            rows = read_rows(conn, near(own))
            if all(row.state is LockState.ACQUIRED for row in own):
                return Lock(id=lock_id, state=LockState.ACQUIRED)
            requests = [request_of(row) for row in own]
            blockers = self._blockers(rows, requests, txn, before=lock_id)
            of_lock = HIVE_LOCKS.c.HL_LOCK_EXT_ID == lock_id
            for row, request in zip(own, requests, strict=True):
                blocker = blockers.get(request)
                values = blocked_by(blocker)
                if not blockers:
                    values |= {"HL_LOCK_STATE": LockState.ACQUIRED.value, "HL_ACQUIRED_AT": now_ms(conn)}
                of_row = update(HIVE_LOCKS).where(of_lock, HIVE_LOCKS.c.HL_LOCK_INT_ID == row.internal_id)
                conn.execute(of_row.values(**values))
        state = LockState.WAITING if blockers else LockState.ACQUIRED
        return Lock(id=lock_id, state=state, blockers=distinct(blockers.values()))

    @retried
    def heartbeat(self, lock_id: int) -> None:
        """Records a heartbeat of a lock without a transaction.

        Raises:
            NotFound: there is no such lock.
        """
        with self._database.write() as conn:
            of_lock = update(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_LOCK_EXT_ID == lock_id, HIVE_LOCKS.c.HL_TXNID == NO_TXN)
            if conn.execute(of_lock.values(HL_LAST_HEARTBEAT=now_ms(conn))).rowcount == 0:
                raise NotFound(f"lock {lock_id} without a transaction is not there: it was released, or it timed out")

    @retried
    def release(self, lock_id: int) -> bool:
        """Releases a lock, or withdraws a request that waits; returns false if it was already gone.

        Raises:
            Refused: an open transaction holds it; it goes when that ends, since its writes rely on it (as in Hive).
        """
        of_lock = HIVE_LOCKS.c.HL_LOCK_EXT_ID == lock_id
        free = (HIVE_LOCKS.c.HL_TXNID == NO_TXN) | (HIVE_LOCKS.c.HL_LOCK_STATE == LockState.WAITING.value)
        with self._database.write() as conn:
            if conn.execute(delete(HIVE_LOCKS).where(of_lock, free)).rowcount > 0:
                return True
            held = read_rows(conn, of_lock)
        if held:
            raise Refused(f"{held[0]} belongs to an open transaction; commit or abort that, and the lock goes with it")
        return False

    def show(
        self,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        *,
        txn: TxnId | None = None,
    ) -> list[LockRow]:
        """Returns the locks of a database, a table, a partition (in any form of its name) or of all, oldest first.

        The filters are exact: locks on the objects above do not show, as in Hive.
        """
        column = HIVE_LOCKS.c
        conditions: list[ColumnElement[bool]] = []
        if database is not None:
            conditions.append(column.HL_DB == database)
        if table is not None:
            conditions.append(column.HL_TABLE == table)
        if partition is not None:
            conditions.append(column.HL_PARTITION.in_(self._dialect.recorded_names(partition)))
        if txn is not None:
            conditions.append(column.HL_TXNID == txn)
        with self._database.read() as conn:
            return read_rows(conn, *conditions)

    def without(self, txns: Collection[TxnId]) -> frozenset[TxnId]:
        """Returns those of ``txns`` that neither hold a lock nor wait for one, on any object."""
        with self._database.read() as conn:
            return frozenset(txn for txn in txns if not has_lock(conn, txn))

    def awaited_exclusively(self, entities: Collection[Entity]) -> frozenset[Entity]:
        """Returns those of ``entities`` that a waiting EXCLUSIVE lock is on or around: all later readers wait behind it."""
        column = HIVE_LOCKS.c
        waits = (column.HL_LOCK_STATE == LockState.WAITING.value) & (column.HL_LOCK_TYPE == LockType.EXCLUSIVE.value)
        with self._database.read() as conn:
            waiting = read_rows(conn, waits, column.HL_DB.in_({entity.database for entity in entities}))
        return frozenset(entity for entity in entities if any(self._touches(row, entity) for row in waiting))

    def _touches(self, row: LockRow, entity: Entity) -> bool:
        read = LockRequest(
            database=entity.database, table=entity.table, partition=entity.partition, type=LockType.SHARED_READ
        )
        return any(overlap(form, row) for form in self._in_every_form([read]))

    def _wanted(self, conn: Connection, txn: TxnId, requests: Iterable[LockRequest]) -> tuple[LockRequest, ...]:
        if txn != NO_TXN:
            must_be_open(conn, self._dialect, txn)
        wanted = self._adapted(requests)
        if not wanted:
            raise Refused(f"transaction {txn} asked for no lock at all; name at least one object")
        return wanted

    def _adapted(self, requests: Iterable[LockRequest]) -> tuple[LockRequest, ...]:
        """Returns ``requests`` as they are stored."""
        if self._semi_shared:
            weaker = {LockType.EXCL_WRITE: LockType.SHARED_WRITE}
            requests = [replace(request, type=weaker.get(request.type, request.type)) for request in requests]
        return sorted_requests(self._in_every_form(requests))

    def _in_every_form(self, requests: Iterable[LockRequest]) -> Iterator[LockRequest]:
        """Yields each request under every form in which writers record its partition."""
        for request in requests:
            for name in self._dialect.recorded_names(request.partition):
                yield replace(request, partition=name)

    def _draw(self, conn: Connection, count: int = 1) -> int:
        """Draws the next lock's id, before other locks are read: the counter's row keeps two requesters apart."""
        found = conn.execute(self._dialect.for_update(select(NEXT_LOCK_ID.c.NL_NEXT))).scalar_one()
        conn.execute(update(NEXT_LOCK_ID).values(NL_NEXT=found + count))
        return int(found)

    def _blockers(
        self, rows: Sequence[LockRow], wanted: Iterable[LockRequest], txn: TxnId, *, before: int | None
    ) -> dict[LockRequest, LockRow]:
        """Returns, for each request that must wait, the first row that blocks it.

        Rows that only wait count too: first come, first served. Rows of the same transaction or request never count.
        """
        earlier = [row for row in rows if (before is None or row.id < before) and (txn == NO_TXN or row.txn != txn)]
        found: dict[LockRequest, LockRow] = {}
        for request in wanted:
            blocker = next((row for row in earlier if conflicts(request, row, semi_shared=self._semi_shared)), None)
            if blocker is not None:
                found[request] = blocker
        return found


def _by_table(rows: Iterable[LockRow]) -> dict[tuple[str, str | None], list[LockRow]]:
    found: dict[tuple[str, str | None], list[LockRow]] = defaultdict(list)
    for row in rows:
        found[row.database, row.table].append(row)
    return found


def _around(held: Mapping[tuple[str, str | None], list[LockRow]], request: LockRequest) -> list[LockRow]:
    """Returns the locks of the table of ``request`` and of its database, the only ones that can block it."""
    return [*held.get((request.database, None), ()), *held.get((request.database, request.table), ())]


def _not_granted(txn: TxnId, blockers: Mapping[LockRequest, LockRow]) -> None:
    _log.info("lock not granted to transaction %d: %s", txn, "; ".join(map(str, distinct(blockers.values()))))
