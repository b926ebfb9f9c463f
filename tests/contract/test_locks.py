from __future__ import annotations

import pytest
from sqlalchemy import delete

from compactor.base.errors import LockNotGranted, NotFound, Refused, TransactionAborted
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.locks.lock_rows import NO_TXN, LockState
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import HIVE_LOCKS

R, W, X, E = LockType


def ask(type: LockType, table: str | None = "t", partition: str | None = None) -> LockRequest:
    return LockRequest(database="default", table=table, partition=partition, type=type)


@pytest.fixture
def txns(metastore: Metastore) -> list[TxnId]:
    return metastore.transactions.open("u", "h", count=4)


def acquire(metastore: Metastore, txn: TxnId, *requests: LockRequest) -> LockState:
    return metastore.locks.acquire(txn, requests, "u", "h").state


#: Hive 4: requested beside existing.
MATRIX = {
    (R, R): True, (R, W): True, (R, X): True, (R, E): False,
    (W, R): True, (W, W): True, (W, X): False, (W, E): False,
    (X, R): True, (X, W): False, (X, X): False, (X, E): False,
    (E, R): False, (E, W): False, (E, X): False, (E, E): False,
}  # fmt: skip


@pytest.mark.parametrize(("requested", "existing"), MATRIX)
def test_matrix(requested: LockType, existing: LockType, store: str, metastore: Metastore, txns: list[TxnId]) -> None:
    """Hive 3.1 has no EXCL_WRITE: its SHARED_WRITE is that, and so two of them don't stand beside each other."""
    acquire(metastore, txns[0], ask(existing))
    granted = acquire(metastore, txns[1], ask(requested)) is LockState.ACQUIRED
    hive3 = store.endswith("31")
    assert granted is (MATRIX[requested, existing] and not (hive3 and (requested, existing) == (W, W)))
    assert not hive3 or X not in {row.type for row in metastore.locks.show()}


def test_first_come_first_served(metastore: Metastore, txns: list[TxnId]) -> None:
    """A reader behind a waiting EXCLUSIVE waits too, though only another reader holds the table."""
    assert acquire(metastore, txns[0], ask(R)) is LockState.ACQUIRED
    exclusive = metastore.locks.acquire(txns[1], [ask(E)], "u", "h")
    reader = metastore.locks.acquire(txns[2], [ask(R)], "u", "h")
    assert [lock.state for lock in (exclusive, reader)] == [LockState.WAITING] * 2
    assert [row.txn for row in reader.blockers] == [txns[1]]
    metastore.transactions.commit(txns[0])
    assert not metastore.locks.check(reader.id).is_acquired
    assert metastore.locks.check(exclusive.id).is_acquired
    metastore.transactions.commit(txns[1])
    assert metastore.locks.check(reader.id).is_acquired


def test_transactions_without_a_lock(metastore: Metastore, txns: list[TxnId]) -> None:
    """PROTOCOL 11.15: one that waits for a lock reads nothing yet."""
    held, waiting, elsewhere, without = txns
    acquire(metastore, held, ask(E))
    assert acquire(metastore, waiting, ask(R)) is LockState.WAITING
    acquire(metastore, elsewhere, ask(R, "u"))
    assert metastore.locks.without(frozenset(txns)) == {without}
    assert metastore.locks.without(frozenset()) == frozenset()


def test_all_or_nothing(metastore: Metastore, txns: list[TxnId]) -> None:
    acquire(metastore, txns[0], ask(X, "b"))
    lock = metastore.locks.acquire(txns[1], [ask(W, "a"), ask(W, "b"), ask(W, "c")], "u", "h")
    rows = [row for row in metastore.locks.show() if row.id == lock.id]
    assert {row.state for row in rows} == {LockState.WAITING}
    assert [row.blocked_by for row in rows] == [None, (1, 1), None]
    metastore.transactions.abort(txns[0], "x")
    assert metastore.locks.check(lock.id).is_acquired
    rows = [row for row in metastore.locks.show() if row.id == lock.id]
    assert {(row.state, row.blocked_by, row.acquired_at is None) for row in rows} == {(LockState.ACQUIRED, None, False)}


def test_table_covers_its_partitions(metastore: Metastore, txns: list[TxnId]) -> None:
    acquire(metastore, txns[0], ask(E, "t", "p=1"))
    assert acquire(metastore, txns[1], ask(R, "t", "p=2")) is LockState.ACQUIRED
    assert acquire(metastore, txns[2], ask(R)) is LockState.WAITING
    assert acquire(metastore, txns[3], ask(R, None)) is LockState.ACQUIRED  # a shared read of the database passes


def test_both_forms_of_an_escaped_name_conflict(metastore: Metastore, txns: list[TxnId]) -> None:
    """PROTOCOL 9: Hive's twice escaped rows and stored ones (Trino's) both meet ours."""
    acquire(metastore, txns[0], ask(R, "t", "p=a%3Db"))
    with metastore.database.write() as conn:
        conn.execute(delete(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_PARTITION == "p=a%3Db"))  # as Hive writes it
    ours = metastore.locks.try_acquire(txns[1], [ask(E, "t", "p=a%3Db")], "u", "h")
    assert ours is None


def test_own_locks_never_conflict(metastore: Metastore, txns: list[TxnId]) -> None:
    acquire(metastore, txns[0], ask(R))
    assert acquire(metastore, txns[0], ask(E)) is LockState.ACQUIRED


def test_a_tried_lock_leaves_no_row_and_names_who_holds(
    metastore: Metastore, txns: list[TxnId], caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL 5: tried, withdrawn when not granted at once, so that no reader ever queues behind it."""
    acquire(metastore, txns[0], ask(R))
    with caplog.at_level("INFO"):
        assert metastore.locks.try_acquire(txns[1], [ask(E)], "u", "h") is None
    assert f"transaction {txns[0]}, u@h" in caplog.text
    assert [row.txn for row in metastore.locks.blockers(txns[1], [ask(E)])] == [txns[0]]
    assert [row.txn for row in metastore.locks.show()] == [txns[0]]
    assert acquire(metastore, txns[2], ask(R)) is LockState.ACQUIRED
    lock = metastore.locks.try_acquire(txns[1], [ask(W)], "u", "h")
    assert lock is not None
    assert lock.is_acquired


def test_waiting_exclusive(metastore: Metastore, txns: list[TxnId]) -> None:
    """PROTOCOL 3.2: where an EXCLUSIVE request waits behind us, we yield."""
    entity = Entity(database="default", table="t", partition="p=1")
    other = Entity(database="default", table="t", partition="p=2")
    acquire(metastore, txns[0], ask(R, "t", "p=1"))
    assert not metastore.locks.awaited_exclusively([entity])
    acquire(metastore, txns[1], ask(E, "t", "p=1"))
    assert metastore.locks.awaited_exclusively([entity])
    assert not metastore.locks.awaited_exclusively([other])
    acquire(metastore, txns[2], ask(E))
    assert metastore.locks.awaited_exclusively([other])


def test_released_and_gone(metastore: Metastore, txns: list[TxnId]) -> None:
    lock = metastore.locks.acquire(NO_TXN, [ask(E)], "u", "h")
    assert metastore.locks.release(lock.id)
    assert not metastore.locks.release(lock.id)
    with pytest.raises(NotFound, match=f"lock {lock.id}"):
        metastore.locks.check(lock.id)


def test_locks_without_a_transaction_live_by_their_own_heartbeat(metastore: Metastore) -> None:
    lock = metastore.locks.acquire(NO_TXN, [ask(E)], "u", "h")
    other = metastore.locks.acquire(NO_TXN, [ask(R)], "u", "h")
    assert (lock.is_acquired, other.is_acquired) == (True, False)
    metastore.locks.heartbeat(lock.id)
    metastore.transactions.time_out(60_000)
    assert len(metastore.locks.show()) == 2
    metastore.transactions.time_out(-60_000)
    assert metastore.locks.show() == []
    with pytest.raises(NotFound):
        metastore.locks.heartbeat(lock.id)


def test_dead_transactions_get_no_lock(metastore: Metastore, txns: list[TxnId]) -> None:
    metastore.transactions.abort(txns[0], "x")
    with pytest.raises(TransactionAborted):
        acquire(metastore, txns[0], ask(R))
    with pytest.raises(Refused, match="no lock"):
        acquire(metastore, txns[1])


def test_the_lock_of_an_open_transaction_goes_with_it(metastore: Metastore, txns: list[TxnId]) -> None:
    """Hive's TxnOpenException: what a transaction wrote relies on its locks. One that waits may be withdrawn."""
    held = metastore.locks.acquire(txns[0], [ask(E)], "u", "h")
    waiting = metastore.locks.acquire(txns[1], [ask(E)], "u", "h")
    with pytest.raises(Refused, match="open transaction"):
        metastore.locks.release(held.id)
    assert metastore.locks.release(waiting.id)
    assert [row.id for row in metastore.locks.show()] == [held.id]
    metastore.transactions.abort(txns[0], "x")
    assert not metastore.locks.release(held.id)


def test_zero_wait_reads_leave_no_row(metastore: Metastore, txns: list[TxnId]) -> None:
    acquire(metastore, txns[0], ask(E))
    with pytest.raises(LockNotGranted, match=f"default.t -> SHARED_READ.*transaction {txns[0]}"):
        metastore.locks.acquire(txns[1], [ask(R)], "u", "h", zero_wait_read=True)
    assert [row.txn for row in metastore.locks.show()] == [txns[0]]
    waits = metastore.locks.acquire(txns[1], [ask(X)], "u", "h", zero_wait_read=True)
    assert not waits.is_acquired  # only reads are refused
    without = metastore.locks.acquire(NO_TXN, [ask(R)], "u", "h", zero_wait_read=True)
    assert not without.is_acquired  # only within a transaction


@pytest.mark.usefixtures("hive4")
def test_a_second_create_table_as_does_not_wait(metastore: Metastore, txns: list[TxnId]) -> None:
    metastore.locks.acquire(txns[0], [ask(X)], "u", "h", exclusive_ctas=True)
    with pytest.raises(LockNotGranted, match="somebody else is creating the table"):
        metastore.locks.acquire(txns[1], [ask(X)], "u", "h", exclusive_ctas=True)


def test_shown_by_database_table_partition_and_transaction(metastore: Metastore, txns: list[TxnId]) -> None:
    acquire(metastore, txns[0], ask(R, None))
    acquire(metastore, txns[1], ask(R), ask(R, "t", "p=a%3Db"))
    acquire(metastore, txns[2], ask(R, "u"))
    show = metastore.locks.show
    forms = sorted(name for name in metastore.dialect.recorded_names("p=a%3Db") if name is not None)
    assert len(show()) == len(show("default")) == 3 + len(forms)
    assert show("other") == []
    assert [row.partition for row in show("default", "t")] == [None, *forms]
    assert [row.partition for row in show("default", "t", "p=a%3Db")] == forms
    assert [row.table for row in show(txn=txns[2])] == ["u"]
