"""The figures that the database counts are those of the rows, read one by one."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from compactor.base.ids import WriteId
from compactor.compaction.lost_count import last_message
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import COMPLETED_COMPACTIONS
from compactor.metastore.transactions.components import AbortFigures
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.state.state_database import OwnState

WORKER = "compactor-1"


def entity(number: int) -> Entity:
    return Entity(database="default", table="t", partition=f"d={number}")


def request(metastore: Metastore, number: int) -> int:
    asked = Request(entity=entity(number), type=CompactionType.MAJOR, initiator="compactor-test")
    return metastore.requests.request(asked)


def worked_on(metastore: Metastore, number: int) -> Entry:
    entry = metastore.claims.claim(WORKER, "9.9", pool_timeout_ms=0, ids=[request(metastore, number)])
    assert entry is not None
    [txn] = metastore.transactions.open("u", "h", type=TxnType.COMPACTION, agent=WORKER)
    return metastore.claims.record(entry, WORKER, txn, None, WriteId(1))


@pytest.fixture
def entries(metastore: Metastore, state: OwnState) -> dict[State, int]:
    """Two requests, one worked on; ended are one of each of four states."""
    for end in (State.FAILED, State.REFUSED):
        metastore.claims.finish(worked_on(metastore, 1), end, "its reason")
    metastore.requests.did_not_initiate(entity(1), "its reason")
    metastore.claims.abort_request(request(metastore, 1))
    worked_on(metastore, 2)
    request(metastore, 3)
    request(metastore, 4)
    return {State.INITIATED: 2, State.WORKING: 1}


def test_states_are_counted_as_the_rows_say(metastore: Metastore, entries: dict[State, int]) -> None:
    """Hive 3.1 has no code for two of the states: what is kept beside its rows says them."""
    assert metastore.entries.count_queued() == entries
    ended = metastore.entries.history()
    assert metastore.entries.count_ended().states == {entry.state: 1 for entry in ended}
    assert len(ended) == 4


def test_the_oldest_of_a_state_has_its_time(metastore: Metastore, entries: dict[State, int]) -> None:
    initiated, working = metastore.entries.queue(states=(State.INITIATED,)), metastore.entries.working()
    assert metastore.entries.oldest(State.INITIATED) == initiated[0]
    assert initiated[0].enqueue_time is not None
    assert metastore.entries.oldest(State.WORKING) == working[0]
    assert metastore.entries.oldest(State.READY_FOR_CLEANING) is None


def test_what_is_late_and_what_failed_lately(metastore: Metastore, entries: dict[State, int]) -> None:
    now = metastore.now_ms()
    assert (metastore.entries.count_working_since(now + 1), metastore.entries.count_working_since(now - 60_000)) == (
        1,
        0,
    )
    figures = metastore.entries
    assert [figures.count_ended(at).failed_lately for at in (now - 60_000, now + 60_000)] == [1, 0]


def test_versions_of_workers(metastore: Metastore, entries: dict[State, int]) -> None:
    now = metastore.now_ms()
    for since, there in ((now - 60_000, {"9.9"}), (now + 60_000, set())):
        assert metastore.entries.worker_versions(since) == there
        assert metastore.entries.count_ended(began_from=since).worker_versions == there


def test_only_the_last_compaction_of_each_counts_as_lost(metastore: Metastore, state: OwnState) -> None:
    for number in (1, 2):
        metastore.claims.finish(worked_on(metastore, number), State.FAILED, last_message(3, "gone"))
    metastore.claims.finish(worked_on(metastore, 3), State.FAILED, "no space")
    assert metastore.entries.count_ended().lost_out == 2
    metastore.claims.finish(worked_on(metastore, 2), State.REFUSED)
    assert metastore.entries.count_ended().lost_out == 1


def test_rows_that_are_not_ours_to_read_are_not_counted(metastore: Metastore, entries: dict[State, int]) -> None:
    with metastore.database.write() as conn:
        conn.execute(update(COMPLETED_COMPACTIONS).values(CC_TYPE="#"))
    assert metastore.entries.count_ended().states == {}


def test_transactions_are_counted(metastore: Metastore) -> None:
    assert metastore.transactions.open_figures() == (0, None)
    assert metastore.components.abort_figures() == AbortFigures()
    for number in (1, 1, 2):
        [txn] = metastore.transactions.open("u", "h")
        write_id = metastore.write_ids.allocate(txn, "default", "t")
        metastore.write_ids.add_component(txn, entity(number), "i", write_id)
        metastore.transactions.abort(txn, "rollback")
    [left] = metastore.transactions.open("u", "h")
    aborts, opened = metastore.components.aborts(), metastore.transactions.open_transactions()
    oldest = min(one.oldest_start for one in aborts.values())
    assert metastore.components.abort_figures() == AbortFigures(total=3, most=2, oldest_start=oldest)
    assert {e.partition: one.count for e, one in aborts.items()} == {"d=1": 2, "d=2": 1}
    assert metastore.transactions.open_figures() == (1, opened[0].started)
    assert opened[0].id == left
