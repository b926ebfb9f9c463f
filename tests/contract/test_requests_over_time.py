"""The request time through the states of a request, and the answers of an empty metastore."""

from __future__ import annotations

from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore
from compactor.metastore.transactions.transaction_rows import TxnType
from tests.support.candidates import candidates_of
from tests.support.committing import committing

ENTITY = Entity(database="default", table="t")
WORKER = "compactor-1"


def asked(metastore: Metastore) -> Entry:
    request = Request(entity=ENTITY, type=CompactionType.MAJOR, initiator="compactor-test")
    return metastore.entries.get(metastore.requests.request(request))


def claimed(metastore: Metastore) -> Entry:
    entry = metastore.claims.claim(WORKER, "test", pool_timeout_ms=0)
    assert entry is not None
    return entry


def test_the_time_of_a_request_stays_to_the_end(metastore: Metastore) -> None:
    """CQ_ENQUEUE_TIME: set once, kept when it is worked on, given back, worked on again and failed."""
    at = asked(metastore).enqueue_time
    assert at is not None
    assert 0 <= metastore.now_ms() - at < 60_000
    entry = claimed(metastore)
    assert (entry.state, entry.enqueue_time) == (State.WORKING, at)
    assert metastore.claims.requeue(entry.id, WORKER)
    assert metastore.entries.get(entry.id).enqueue_time == at
    metastore.claims.finish(claimed(metastore), State.FAILED, "broken")
    [ended] = metastore.entries.history()
    assert (ended.state, ended.enqueue_time) == (State.FAILED, at)


def test_the_time_of_a_request_stays_when_it_is_cleaned(metastore: Metastore) -> None:
    table = metastore.embedded_catalog.create_table(NewTable("default", "t", "/w/t", [Column(name="a", type="int")]))
    [writer] = metastore.transactions.open("u", "h")
    write_id = metastore.write_ids.allocate(writer, "default", "t")
    metastore.write_ids.add_component(writer, ENTITY, "i", write_id)
    metastore.transactions.commit(writer)
    at = asked(metastore).enqueue_time
    [txn] = metastore.transactions.open("u", "h", type=TxnType.COMPACTION)
    entry = metastore.claims.record(claimed(metastore), WORKER, txn, None, write_id)
    with committing(metastore, entry, WORKER, txn, table_id=table.id, partition_id=None, location=table.location):
        pass
    ready = metastore.entries.get(entry.id)
    assert (ready.state, ready.enqueue_time) == (State.READY_FOR_CLEANING, at)
    metastore.cleaning.mark_cleaned(ready, [], all_below=True)
    [ended] = metastore.entries.history()
    assert (ended.state, ended.enqueue_time) == (State.SUCCEEDED, at)


def test_nothing_is_there_to_be_found(metastore: Metastore) -> None:
    assert metastore.claims.claim(WORKER, "test", pool_timeout_ms=0) is None
    assert metastore.cleaning.ready_for_cleaning(metastore.now_ms()) == []
    assert candidates_of(metastore) == []
    assert metastore.locks.show() == []


def test_the_snapshot_of_a_metastore_in_which_nobody_wrote(metastore: Metastore) -> None:
    valid = metastore.transactions.snapshot(open_txn_timeout_ms=-60_000)
    assert (valid.open, valid.aborted) == (frozenset(), frozenset())
    assert valid.high_watermark == metastore.transactions.newest()
    for txn in metastore.transactions.open("u", "h", count=3):
        metastore.transactions.commit(txn)
    later = metastore.transactions.snapshot(open_txn_timeout_ms=-60_000)
    assert later.open == frozenset()
    assert later.high_watermark == TxnId(valid.high_watermark + 3)
