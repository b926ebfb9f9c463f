"""Locks as rows of HIVE_LOCKS (``CheckLockFunction``).

First come, first served; all locks of a request are granted or none.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, bindparam, delete, literal_column, select, update

from compactor.base.errors import LockNotGranted, NotFound, Refused
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.database.prepared import send, send_all
from compactor.locking.lock_types import LockRequest, LockType, conflicts, overlap, sorted_requests
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
from compactor.metastore.schema.free_text import fit_free_text
from compactor.metastore.schema.tables import HIVE_LOCKS, NEXT_LOCK_ID, TXN_LOCK_TBL
from compactor.metastore.transactions import transaction_rows as txn_rows
from compactor.metastore.transactions.transaction_rows import must_be_open

_log = logging.getLogger(__name__)


# Built once, because every commit of a program runs it.
_HAS_LOCK = select(HIVE_LOCKS.c.HL_TXNID).where(HIVE_LOCKS.c.HL_TXNID == bindparam("of_txn")).limit(literal_column("1"))


def has_lock(conn: Connection, txn: TxnId) -> bool:
    """Returns true if ``txn`` holds a lock or waits for one."""
    return bool(send(conn, _HAS_LOCK, {"of_txn": txn}).rows)


class Locks:
    """Reads and writes HIVE_LOCKS.

    A partition is locked under every form of its name that writers use (PROTOCOL 9).
    """

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect
        # Hive 3, which has no TXN_LOCK_TBL, has no EXCL_WRITE either; its SHARED_WRITE takes that place.
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
        """Requests all of ``requests`` together; all wait if one of them must.

        ``txn`` 0 is a lock without a transaction, which needs its own heartbeat. With ``zero_wait_read`` a shared read
        never waits, with ``exclusive_ctas`` the lock on a table being created never waits (Hive's options). A request
        that may not wait leaves no row.

        Raises:
            TransactionAborted: the transaction is aborted.
            NotFound: the transaction is committed or unknown.
            Refused: nothing is requested.
            LockNotGranted: the request would have to wait, and the options forbid that.
        """
        with self._database.write() as conn:
            forms = self._forms_of_open(conn, txn, requests)
            lock_id = self._draw(conn)
            blockers = self._blockers(read_rows(conn, near(forms)), forms, txn, before=lock_id)
            for request, row in blockers.items():
                if zero_wait_read and txn != NO_TXN and request.type is LockType.SHARED_READ:
                    raise LockNotGranted(f"{request}: not granted without waiting; in the way: {row}")
                if exclusive_ctas and request.type in (LockType.EXCL_WRITE, LockType.EXCLUSIVE):
                    raise LockNotGranted(f"{request}: somebody else is creating the table; in the way: {row}")
            return insert_request(conn, lock_id, txn, forms, Holder(user=user, host=host, agent=agent), blockers)

    @retried
    def try_acquire(
        self, txn: TxnId, requests: Iterable[LockRequest], user: str, host: str, *, agent: str | None = None
    ) -> Lock | None:
        """Requests locks as ``acquire`` does, but returns None if they are not granted at once.

        Such a request leaves no row, so nobody queues behind it. The log names the blockers; ``blockers`` returns them.

        Raises:
            TransactionAborted: the transaction is aborted.
            NotFound: the transaction is committed or unknown.
            Refused: nothing is requested.
        """
        with self._database.write() as conn:
            forms = self._forms_of_open(conn, txn, requests)
            lock_id = self._draw(conn)
            blockers = self._blockers(read_rows(conn, near(forms)), forms, txn, before=lock_id)
            if not blockers:
                return insert_request(conn, lock_id, txn, forms, Holder(user=user, host=host, agent=agent), {})
        _log_blockers(txn, blockers)
        return None

    @retried
    def try_acquire_all(self, request_by_txn: Mapping[TxnId, LockRequest], user: str, host: str) -> frozenset[TxnId]:
        """Requests one shared lock for each of several transactions; returns the transactions that got theirs.

        It works as ``try_acquire``. A transaction that is not open gets no lock. Shared locks do not block each other.
        """
        if any(request.type is not LockType.SHARED_READ for request in request_by_txn.values()):
            raise AssertionError("only shared locks are requested together")
        with self._database.write() as conn:
            rows = txn_rows.locked_rows(conn, self._dialect, request_by_txn.keys())
            forms = {
                txn: self._forms_to_store([request_by_txn[txn]])
                for txn in request_by_txn
                if txn in rows and rows[txn].is_open
            }
            first = self._draw(conn, len(forms))
            rows_by_table = _by_table(
                read_rows(conn, near(r for requests in forms.values() for r in requests)) if forms else ()
            )
            granted: dict[TxnId, tuple[LockRequest, ...]] = {}
            for txn, requests in forms.items():
                blockers = self._blockers(_around(rows_by_table, requests[0]), requests, txn, before=first)
                if blockers:
                    _log_blockers(txn, blockers)
                else:
                    granted[txn] = requests
            now, holder = now_ms(conn), Holder(user=user, host=host)
            new = [
                fit_free_text(conn, row)
                for number, (txn, requests) in enumerate(granted.items(), start=first)
                for row in new_rows(number, txn, requests, holder, {}, now)
            ]
            send_all(conn, NEW_ROW, new)
        return frozenset(granted)

    def blockers(self, txn: TxnId, requests: Iterable[LockRequest]) -> tuple[LockRow, ...]:
        """Returns the rows for which these requests would have to wait now."""
        forms = self._forms_to_store(requests)
        with self._database.read() as conn:
            return distinct(self._blockers(read_rows(conn, near(forms)), forms, txn, before=None).values())

    @retried
    def check(self, lock_id: int) -> Lock:
        """Checks a waiting lock again, and acquires it if no earlier row blocks it.

        Raises:
            NotFound: the lock does not exist: it was released, or its transaction ended or timed out.
            TransactionAborted: its transaction has just been aborted.
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
        """Releases a lock or withdraws a waiting request; returns false if it no longer exists.

        Raises:
            Refused: an open transaction holds the lock, and its writes rely on it until it ends (as in Hive).
        """
        of_lock = HIVE_LOCKS.c.HL_LOCK_EXT_ID == lock_id
        free = (HIVE_LOCKS.c.HL_TXNID == NO_TXN) | (HIVE_LOCKS.c.HL_LOCK_STATE == LockState.WAITING.value)
        with self._database.write() as conn:
            if conn.execute(delete(HIVE_LOCKS).where(of_lock, free)).rowcount > 0:
                return True
            rows = read_rows(conn, of_lock)
        if rows:
            raise Refused(f"{rows[0]} belongs to an open transaction; commit or abort that, and the lock goes with it")
        return False

    def show(
        self,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        *,
        txn: TxnId | None = None,
    ) -> list[LockRow]:
        """Returns the locks on a database, a table, a partition or all, oldest first.

        A partition is found by any form of its name.

        As in Hive, the filters are exact and leave out locks on the objects above.
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
        """Returns those of ``txns`` that neither hold nor wait for a lock."""
        with self._database.read() as conn:
            return frozenset(txn for txn in txns if not has_lock(conn, txn))

    def awaited_exclusively(self, entities: Collection[Entity]) -> frozenset[Entity]:
        """Returns those of ``entities`` on or around which an EXCLUSIVE lock waits.

        Later readers wait behind it.
        """
        column = HIVE_LOCKS.c
        waits = (column.HL_LOCK_STATE == LockState.WAITING.value) & (column.HL_LOCK_TYPE == LockType.EXCLUSIVE.value)
        with self._database.read() as conn:
            waiting = read_rows(conn, waits, column.HL_DB.in_({entity.database for entity in entities}))
        return frozenset(entity for entity in entities if any(self._is_around(row, entity) for row in waiting))

    def _is_around(self, row: LockRow, entity: Entity) -> bool:
        read = LockRequest(
            database=entity.database, table=entity.table, partition=entity.partition, type=LockType.SHARED_READ
        )
        return any(overlap(form, row) for form in self._every_form([read]))

    def _forms_of_open(self, conn: Connection, txn: TxnId, requests: Iterable[LockRequest]) -> tuple[LockRequest, ...]:
        if txn != NO_TXN:
            must_be_open(conn, self._dialect, txn)
        forms = self._forms_to_store(requests)
        if not forms:
            raise Refused(f"transaction {txn} requests no lock; name at least one object")
        return forms

    def _forms_to_store(self, requests: Iterable[LockRequest]) -> tuple[LockRequest, ...]:
        """Returns ``requests`` as they are stored."""
        if self._semi_shared:
            weaker = {LockType.EXCL_WRITE: LockType.SHARED_WRITE}
            requests = [replace(request, type=weaker.get(request.type, request.type)) for request in requests]
        return sorted_requests(self._every_form(requests))

    def _every_form(self, requests: Iterable[LockRequest]) -> Iterator[LockRequest]:
        """Yields each request under every form in which writers record its partition."""
        for request in requests:
            for name in self._dialect.recorded_names(request.partition):
                yield replace(request, partition=name)

    def _draw(self, conn: Connection, count: int = 1) -> int:
        """Draws the next lock id before other locks are read; the counter's row keeps two requesters apart."""
        first = conn.execute(self._dialect.for_update(select(NEXT_LOCK_ID.c.NL_NEXT))).scalar_one()
        conn.execute(update(NEXT_LOCK_ID).values(NL_NEXT=first + count))
        return int(first)

    def _blockers(
        self, rows: Sequence[LockRow], requests: Iterable[LockRequest], txn: TxnId, *, before: int | None
    ) -> dict[LockRequest, LockRow]:
        """Returns, for each request that must wait, the first row that blocks it.

        Waiting rows block too: first come, first served. Rows of the same transaction or request never block.
        """
        earlier = [row for row in rows if (before is None or row.id < before) and (txn == NO_TXN or row.txn != txn)]
        blockers: dict[LockRequest, LockRow] = {}
        for request in requests:
            blocker = next((row for row in earlier if conflicts(request, row, semi_shared=self._semi_shared)), None)
            if blocker is not None:
                blockers[request] = blocker
        return blockers


def _by_table(rows: Iterable[LockRow]) -> dict[tuple[str, str | None], list[LockRow]]:
    by_table: dict[tuple[str, str | None], list[LockRow]] = defaultdict(list)
    for row in rows:
        by_table[row.database, row.table].append(row)
    return by_table


def _around(rows_by_table: Mapping[tuple[str, str | None], list[LockRow]], request: LockRequest) -> list[LockRow]:
    """Returns the locks on the table of ``request`` and on its database, which alone can block it."""
    return [*rows_by_table.get((request.database, None), ()), *rows_by_table.get((request.database, request.table), ())]


def _log_blockers(txn: TxnId, blockers: Mapping[LockRequest, LockRow]) -> None:
    _log.info("lock not granted to transaction %d: %s", txn, "; ".join(map(str, distinct(blockers.values()))))
