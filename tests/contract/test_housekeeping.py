"""Rows that may be removed, and those that may not yet (Hive's housekeeping threads; PROTOCOL 8)."""

from __future__ import annotations

import pytest
from sqlalchemy import func, insert, select

from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import (
    MATERIALIZATION_REBUILD_LOCKS,
    MIN_HISTORY_LEVEL,
    MIN_HISTORY_WRITE_ID,
    TXN_TO_WRITE_ID,
    TXNS,
    WRITE_SET,
)
from compactor.metastore.transactions.transaction_rows import TxnType

ENTITY = Entity(database="default", table="t")
AT_ONCE = -60_000  #: hive.txn.opentxn.timeout under which every id counts as settled


def count(metastore: Metastore, table: object) -> int:
    with metastore.database.read() as conn:
        return int(conn.execute(select(func.count()).select_from(table)).scalar_one())  # type: ignore[arg-type]


def begin(metastore: Metastore, count: int = 1) -> list[TxnId]:
    return metastore.transactions.open("u", "h", count=count)


def update(metastore: Metastore, txn: TxnId, operation: str = "u") -> None:
    write_id = metastore.write_ids.allocate(txn, "default", "t")
    metastore.write_ids.add_component(txn, ENTITY, operation, write_id)


def test_the_write_set_stays_while_somebody_may_lose_against_it(metastore: Metastore) -> None:
    """Hive's performWriteSetGC: what committed before the oldest open transaction was opened."""
    old, young = begin(metastore, 2)
    update(metastore, young)
    metastore.transactions.commit(young)
    assert metastore.housekeeping.purge_write_set(open_txn_timeout_ms=AT_ONCE) == 0
    metastore.transactions.commit(old)
    assert metastore.housekeeping.purge_write_set(open_txn_timeout_ms=AT_ONCE) == 1
    assert count(metastore, WRITE_SET) == 0


@pytest.mark.usefixtures("hive4")
def test_the_write_set_stays_while_an_id_may_be_on_its_way(metastore: Metastore) -> None:
    """An id below the newest may have been drawn already by a transaction whose row isn't there yet (Hive 4)."""
    [txn] = begin(metastore)
    update(metastore, txn)
    metastore.transactions.commit(txn)
    assert metastore.housekeeping.purge_write_set(open_txn_timeout_ms=3_600_000) == 0
    assert metastore.housekeeping.purge_write_ids(open_txn_timeout_ms=3_600_000) == 0
    assert count(metastore, WRITE_SET) == count(metastore, TXN_TO_WRITE_ID) == 1


def test_history_of_open_transactions_stays(metastore: Metastore) -> None:
    """MIN_HISTORY_LEVEL: rows of ended transactions that somebody left would hold back every cleaner."""
    opened, ended = begin(metastore, 2)
    metastore.transactions.abort(ended, "x")
    with metastore.database.write() as conn:
        conn.execute(insert(MIN_HISTORY_LEVEL).values(MHL_TXNID=ended, MHL_MIN_OPEN_TXNID=opened))
    assert metastore.housekeeping.purge_min_history(open_txn_timeout_ms=AT_ONCE) == 1
    assert metastore.housekeeping.purge_min_history(open_txn_timeout_ms=AT_ONCE) == 0
    with metastore.database.read() as conn:
        assert conn.execute(select(MIN_HISTORY_LEVEL.c.MHL_TXNID)).scalars().all() == [opened]


def test_min_history_write_id(metastore: Metastore, store: str) -> None:
    if store.endswith("31"):
        assert metastore.housekeeping.purge_min_history(open_txn_timeout_ms=AT_ONCE) == 0  # it has no such table
        return
    opened, ended = begin(metastore, 2)
    metastore.transactions.commit(ended)
    with metastore.database.write() as conn:
        for txn in (opened, ended):
            row = {"MH_TXNID": txn, "MH_DATABASE": "default", "MH_TABLE": "t", "MH_WRITEID": 1}
            conn.execute(insert(MIN_HISTORY_WRITE_ID).values(**row))
    assert metastore.housekeeping.purge_min_history(open_txn_timeout_ms=AT_ONCE) == 1
    assert count(metastore, MIN_HISTORY_WRITE_ID) == 1


def test_rebuild_locks_that_nobody_keeps_alive(metastore: Metastore) -> None:
    """Hive's MaterializationsRebuildLockCleanerTask: silent, and of no open transaction."""
    silent_open, silent_ended, heard = begin(metastore, 3)
    now = metastore.now_ms()
    with metastore.database.write() as conn:
        for txn, at in ((silent_open, 0), (silent_ended, 0), (heard, now)):
            row = {"MRL_TXN_ID": txn, "MRL_DB_NAME": "d", "MRL_TBL_NAME": f"v{txn}", "MRL_LAST_HEARTBEAT": at}
            conn.execute(insert(MATERIALIZATION_REBUILD_LOCKS).values(**row))
    for txn in (silent_ended, heard):
        with metastore.database.write() as conn:
            conn.execute(TXNS.update().where(TXNS.c.TXN_ID == txn).values(TXN_STATE="a"))
    assert metastore.housekeeping.purge_rebuild_locks(60_000) == 1
    with metastore.database.read() as conn:
        left = conn.execute(select(MATERIALIZATION_REBUILD_LOCKS.c.MRL_TXN_ID)).scalars().all()
    assert sorted(left) == [silent_open, heard]


@pytest.mark.usefixtures("hive4")
def test_ended_transactions_are_forgotten_when_nothing_of_them_is_left(metastore: Metastore) -> None:
    """PROTOCOL 8, and Hive's AcidTxnCleanerService: not with components, not the largest, not what storage shows."""
    empty, full, done, shown, largest = begin(metastore, 5)
    update(metastore, full)
    for txn in (empty, full, shown, largest):
        metastore.transactions.abort(txn, "x")
    metastore.transactions.commit(done)
    assert metastore.housekeeping.forget_transactions([empty, full, largest], open_txn_timeout_ms=AT_ONCE) >= 2
    states = metastore.transactions.states([empty, full, done, shown, largest])
    assert states == {full: "a", shown: "a", largest: "a"}


@pytest.mark.usefixtures("hive4")
def test_the_number_of_a_forgotten_transaction_is_never_given_again(metastore: Metastore) -> None:
    """PROTOCOL 9: the largest row stays, or a new transaction would own an old ``_v<txn>``."""
    txns = begin(metastore, 3)
    for txn in txns:
        metastore.transactions.commit(txn)
    metastore.housekeeping.forget_transactions([], open_txn_timeout_ms=AT_ONCE)
    assert begin(metastore) == [txns[-1] + 1]


def test_replication_has_its_own_time(metastore: Metastore) -> None:
    [ordinary] = begin(metastore)
    [replicated] = metastore.transactions.open("u", "h", type=TxnType.REPL_CREATED)
    assert metastore.transactions.time_out(-60_000, repl_timeout_ms=60_000) == [ordinary]
    assert metastore.transactions.time_out(-60_000, repl_timeout_ms=-60_000) == [replicated]
