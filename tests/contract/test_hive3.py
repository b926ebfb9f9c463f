"""What Hive 3.1's schema has no room for is refused by name, and everything that is there is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compactor.compaction.entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType, State
from compactor.errors import NotSupported
from compactor.ids import TxnId, WriteId
from compactor.metastore import tables as t
from compactor.metastore.catalog import Column
from compactor.metastore.store import Metastore, open_metastore
from compactor.metastore.transactions import TxnType

pytestmark = pytest.mark.usefixtures("hive3")

T = Entity(database="default", table="t")


def queued(metastore: Metastore, state: State = State.INITIATED) -> Entry:
    """A row as Hive 3.1 writes it."""
    row = {"CQ_ID": 7, "CQ_DATABASE": "default", "CQ_TABLE": "t", "CQ_STATE": state.value, "CQ_TYPE": "a"}
    with metastore.database.write() as conn:
        conn.execute(t.COMPACTION_QUEUE.insert().values(metastore.dialect.row(t.COMPACTION_QUEUE, row)))
    return metastore.compactions.entry(7)


def committing(metastore: Metastore, entry: Entry) -> None:
    with metastore.compactions.committing(entry, "compactor-1", TxnId(1), table_id=1, partition_id=None, location="/t"):
        pytest.fail("nothing may be named there")


#: Everything that changes the queue or its history.
ACTS: list[Callable[[Metastore, Entry], Any]] = [
    lambda m, e: m.compactions.request(Request(entity=T, type=CompactionType.MAJOR, initiator="compactor-1")),
    lambda m, e: m.compactions.abort_request(e.id),
    lambda m, e: m.compactions.did_not_initiate(T, "why"),
    lambda m, e: m.compactions.claim("compactor-1", "test", pool_timeout_ms=0),
    lambda m, e: m.compactions.record(e, "compactor-1", TxnId(1), None, WriteId(1)),
    lambda m, e: m.compactions.set_job(e, "compactor-1", "job"),
    committing,
    lambda m, e: m.compactions.requeue(e.id, "compactor-1"),
    lambda m, e: m.compactions.finish(e, State.FAILED, "why"),
    lambda m, e: m.compactions.mark_cleaner_start(e),
    lambda m, e: m.compactions.back_off(e, 1, None),
    lambda m, e: m.compactions.mark_cleaned(e, [], all_below=True),
]


@pytest.mark.parametrize("act", ACTS)
def test_nothing_is_compacted(act: Callable[[Metastore, Entry], Any], metastore: Metastore) -> None:
    entry = queued(metastore, State.READY_FOR_CLEANING if act in ACTS[-3:] else State.WORKING)
    with pytest.raises(NotSupported, match=r"Hive 3\.1 does not understand"):
        act(metastore, entry)
    assert metastore.compactions.entry(7) == entry


def test_it_is_opened_for_reading_only(metastore: Metastore, url: str) -> None:
    with pytest.raises(NotSupported, match=r"schema 3\.1\.0: Hive 3\.1 .* mode observe"):
        open_metastore("default", url)
    observer = open_metastore("default", url, read_only=True)
    assert observer.schema_version == "3.1.0"
    assert "default" in observer.catalog.databases()
    observer.close()


def test_the_queue_and_its_history_are_read(metastore: Metastore) -> None:
    ended = {"CC_ID": 6, "CC_DATABASE": "default", "CC_TABLE": "t", "CC_STATE": "s", "CC_TYPE": "i", "CC_END": 5}
    with metastore.database.write() as conn:
        row = metastore.dialect.row(t.COMPLETED_COMPACTIONS, ended)
        conn.execute(t.COMPLETED_COMPACTIONS.insert().values(row))
    entry = queued(metastore)
    assert metastore.compactions.queue(states=[State.INITIATED]) == [entry]
    assert (entry.entity, entry.type, entry.state) == (T, CompactionType.MAJOR, State.INITIATED)
    assert (entry.pool, entry.txn_id, entry.commit_time, entry.retry_retention) == (None, None, None, 0)
    [past] = metastore.compactions.history(T)
    assert (past.id, past.state, past.end, past.error) == (6, State.SUCCEEDED, 5, None)
    assert metastore.compactions.ready_for_cleaning(0) == []


def test_candidates_and_aborts_are_read(metastore: Metastore) -> None:
    metastore.catalog.create_table("default", "t", "/t", [Column(name="a", type="int")])
    committed, aborted = metastore.transactions.open("u", "h", count=2)
    for txn in (committed, aborted):
        metastore.write_ids.add_component(txn, T, "i", metastore.write_ids.allocate(txn, "default", "t"))
    metastore.transactions.commit(committed)
    metastore.transactions.abort(aborted, "rollback")
    assert metastore.compactions.candidates(10) == [T]
    assert metastore.compactions.aborts()[T].count == 1
    assert metastore.compactions.aborted(T).count == 1


def test_what_committed_leaves_no_row(metastore: Metastore) -> None:
    """Ids come from NEXT_TXN_ID, so the newest is known though its row is gone."""
    first, second = metastore.transactions.open("u", "h", count=2)
    metastore.transactions.commit(second)
    assert metastore.transactions.states([first, second]) == {first: "o"}
    assert metastore.transactions.newest() == second
    snapshot = metastore.transactions.snapshot()
    assert (snapshot.high_watermark, snapshot.open) == (second, {first})


def test_types_of_hive_4_are_ordinary_there(metastore: Metastore) -> None:
    metastore.transactions.open("u", "h", type=TxnType.COMPACTION)
    assert [txn.type for txn in metastore.transactions.open_transactions()] == [TxnType.DEFAULT]


def test_two_deletes_do_not_conflict(metastore: Metastore) -> None:
    txns = metastore.transactions.open("u", "h", count=2)
    for txn in txns:
        metastore.write_ids.add_component(txn, T, "d", metastore.write_ids.allocate(txn, "default", "t"))
    for txn in txns:
        metastore.transactions.commit(txn)
    assert metastore.transactions.states(txns) == {}
