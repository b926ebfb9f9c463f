"""On the embedded metastore; ``tests/contract`` has the rules over every database."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from compactor.base.ids import TxnId
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.locks.lock_rows import LockState
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import HIVE_LOCKS


def want(type: LockType, table: str | None = "t") -> list[LockRequest]:
    return [LockRequest(database="d", table=table, type=type)]


def two(metastore: Metastore) -> tuple[TxnId, TxnId]:
    first, second = metastore.transactions.open("u", "h", count=2)
    return first, second


def test_the_second_waits_for_the_first(metastore: Metastore) -> None:
    first, second = two(metastore)
    held = metastore.locks.acquire(first, want(LockType.EXCLUSIVE), "ada", "box")
    waits = metastore.locks.acquire(second, want(LockType.SHARED_READ), "bob", "box")
    assert (held.state, held.blockers) == (LockState.ACQUIRED, ())
    assert (waits.is_acquired, [row.txn for row in waits.blockers]) == (False, [first])
    assert str(waits.blockers[0]) == f"lock {held.id} (EXCLUSIVE on d.t, transaction {first}, ada@box)"
    metastore.transactions.commit(first)
    assert metastore.locks.check(waits.id).is_acquired


def test_readers_share(metastore: Metastore) -> None:
    first, second = two(metastore)
    for txn in (first, second):
        assert metastore.locks.acquire(txn, want(LockType.SHARED_READ), "u", "h").is_acquired
    assert len(metastore.locks.show()) == 2
    assert metastore.locks.blockers(second, want(LockType.SHARED_READ)) == ()


def test_an_aborted_transaction_holds_nothing(metastore: Metastore) -> None:
    first, _ = two(metastore)
    metastore.locks.acquire(first, want(LockType.EXCLUSIVE, None), "u", "h")
    metastore.transactions.abort(first, "by a test")
    assert metastore.locks.show() == []


@pytest.mark.parametrize("letter", [{"HL_LOCK_TYPE": "z"}, {"HL_LOCK_TYPE": "e", "HL_LOCK_STATE": "z"}])
def test_a_row_of_another_kind_holds_its_own_object(metastore: Metastore, letter: dict[str, str]) -> None:
    """PROTOCOL 10: one such row ended every role."""
    first, second = two(metastore)
    metastore.locks.acquire(first, want(LockType.SHARED_READ), "u", "h")
    with metastore.database.write() as conn:
        conn.execute(update(HIVE_LOCKS).values(letter))
    (shown,) = metastore.locks.show()
    assert (shown.type, shown.state) == (LockType.EXCLUSIVE, LockState.ACQUIRED)
    granted = {
        table: metastore.locks.try_acquire(second, want(LockType.SHARED_READ, table), "u", "h")
        for table in ("t", "other")
    }
    assert (granted["t"], granted["other"] is None) == (None, False)
