"""On the embedded metastore; ``tests/contract`` has the rules over every database."""

from __future__ import annotations

from sqlalchemy import insert, select

from compactor.compaction.queue_entry import Entity
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import MATERIALIZATION_REBUILD_LOCKS, TXN_TO_WRITE_ID, WRITE_SET

T = Entity(database="d", table="t")


def test_only_the_chosen_rows_of_the_history_go(metastore: Metastore) -> None:
    ids = [metastore.requests.did_not_initiate(T, f"reason {number}") for number in range(3)]
    assert metastore.housekeeping.purge_history([ids[0], ids[2], 99]) == 2
    assert [entry.id for entry in metastore.entries.history()] == [ids[1]]
    assert metastore.housekeeping.purge_history([]) == 0


def test_a_write_set_is_kept_for_those_who_were_open_when_it_was_written(metastore: Metastore) -> None:
    opened, writer = metastore.transactions.open("u", "h", count=2)
    metastore.write_ids.add_component(writer, T, "u", metastore.write_ids.allocate(writer, "d", "t"))
    metastore.transactions.commit(writer)
    assert metastore.housekeeping.purge_write_set(open_txn_timeout_ms=-1) == 0
    metastore.transactions.commit(opened)
    with metastore.database.read() as conn:
        assert len(conn.execute(select(WRITE_SET)).all()) == 1
    metastore.transactions.open("u", "h")
    assert metastore.housekeeping.purge_write_set(open_txn_timeout_ms=-1) == 1


def test_a_mapping_goes_when_all_below_is_committed(metastore: Metastore) -> None:
    first, second = metastore.transactions.open("u", "h", count=2)
    for txn in (first, second):
        metastore.write_ids.allocate(txn, "d", "t")
    metastore.transactions.commit(second)
    assert metastore.housekeeping.purge_write_ids(open_txn_timeout_ms=-1) == 0
    metastore.transactions.commit(first)
    assert metastore.housekeeping.purge_write_ids(open_txn_timeout_ms=-1) == 2
    with metastore.database.read() as conn:
        assert conn.execute(select(TXN_TO_WRITE_ID)).all() == []
    assert metastore.write_ids.next("d", "t") == 3


def test_rebuild_locks_of_the_silent_go(metastore: Metastore) -> None:
    [opened] = metastore.transactions.open("u", "h")
    row = {"MRL_DB_NAME": "d", "MRL_TBL_NAME": "v", "MRL_LAST_HEARTBEAT": 1}
    with metastore.database.write() as conn:
        conn.execute(insert(MATERIALIZATION_REBUILD_LOCKS), [row | {"MRL_TXN_ID": txn} for txn in (opened, 99)])
    assert metastore.housekeeping.purge_rebuild_locks(60_000) == 1
