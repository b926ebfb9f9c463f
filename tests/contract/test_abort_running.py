"""A compaction that somebody works on is aborted: never half of it, whoever comes first (PROTOCOL 5 and 6)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import select, update

from compactor.base.errors import CompactorError, LostClaim, NotFound, Refused, TransactionAborted
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.queue.worker_claims import ABORT_MESSAGE
from compactor.metastore.schema import tables as t
from compactor.metastore.transactions.transaction_rows import TxnType
from tests.support.committing import committing
from tests.support.patience import PATIENCE

ENTITY = Entity(database="default", table="t")
WORKER = "compactor-worker-h-1"


@pytest.fixture
def table(metastore: Metastore) -> Table:
    created = metastore.embedded_catalog.create_table(NewTable("default", "t", "/w/t", [Column(name="a", type="int")]))
    [txn] = metastore.transactions.open("u", "h")
    write_id = metastore.write_ids.allocate(txn, "default", "t")
    metastore.write_ids.add_component(txn, ENTITY, "i", write_id)
    metastore.transactions.commit(txn)
    return created


@pytest.fixture
def claimed(metastore: Metastore, table: Table) -> Entry:
    metastore.requests.request(Request(entity=ENTITY, type=CompactionType.MAJOR, initiator="compactor-test"))
    entry = metastore.claims.claim(WORKER, "1", pool_timeout_ms=0)
    assert entry is not None
    return entry


def begin(metastore: Metastore) -> TxnId:
    return metastore.transactions.open("u", "h", type=TxnType.COMPACTION, agent=WORKER)[0]


@pytest.fixture
def recorded(metastore: Metastore, claimed: Entry) -> Entry:
    return metastore.claims.record(claimed, WORKER, begin(metastore), None, WriteId(1))


def commit(metastore: Metastore, table: Table, entry: Entry, body: Callable[[], None] = lambda: None) -> None:
    assert entry.txn_id is not None
    with committing(
        metastore, entry, WORKER, entry.txn_id, table_id=table.id, partition_id=None, location=table.location
    ):
        body()


def ended(metastore: Metastore) -> list[tuple[State, str | None]]:
    assert metastore.entries.queue() == []
    return [(entry.state, entry.error) for entry in metastore.entries.history()]


def test_its_transaction_and_its_row_go_together(metastore: Metastore, table: Table, recorded: Entry) -> None:
    """The transaction is aborted and the row marked; the worker can do nothing more; it ends when storage is tidy."""
    assert recorded.txn_id is not None
    assert metastore.claims.abort_running(recorded.id) is State.WORKING
    with metastore.database.read() as conn:
        row = conn.execute(select(t.TXNS).where(recorded.txn_id == t.TXNS.c.TXN_ID)).one()
    assert (row.TXN_STATE, row.TXN_META_INFO) == ("a", ABORT_MESSAGE)
    marked = metastore.entries.get(recorded.id)
    assert (marked.state, marked.error, marked.worker_id) == (State.WORKING, ABORT_MESSAGE, WORKER)
    with pytest.raises(TransactionAborted):
        metastore.transactions.heartbeat(recorded.txn_id)
    with pytest.raises(LostClaim):
        commit(metastore, table, recorded)
    with pytest.raises(Refused, match="already scheduled"):  # nobody works there before it is tidy
        metastore.requests.request(Request(entity=ENTITY, type=CompactionType.MAJOR, initiator="compactor-test"))
    assert not metastore.claims.end_aborted(recorded.id, "compactor-another")
    assert metastore.claims.end_aborted(recorded.id, WORKER)
    assert ended(metastore) == [(State.ABORTED, ABORT_MESSAGE)]
    assert not metastore.claims.end_aborted(recorded.id, WORKER)


def test_twice_is_as_once(metastore: Metastore, recorded: Entry) -> None:
    for _ in range(2):
        assert metastore.claims.abort_running(recorded.id) is State.WORKING


def test_repair_ends_it_instead_of_queueing_it_again(metastore: Metastore, recorded: Entry) -> None:
    """PROTOCOL 6: cancelled is ``x``; a crash between the abort and the end is made good by the next pass."""
    metastore.claims.abort_running(recorded.id)
    assert metastore.claims.requeue(recorded.id, WORKER)
    assert ended(metastore) == [(State.ABORTED, ABORT_MESSAGE)]


@pytest.mark.parametrize("fate", [State.FAILED, State.REFUSED])
def test_what_fails_of_it_was_aborted(fate: State, metastore: Metastore, recorded: Entry) -> None:
    metastore.claims.abort_running(recorded.id)
    metastore.claims.finish(recorded, fate, "the directory is not there")
    assert ended(metastore) == [(State.ABORTED, ABORT_MESSAGE)]


def test_without_a_recorded_transaction_it_ends_at_once(metastore: Metastore, claimed: Entry) -> None:
    """Nothing is staged before the transaction is recorded (PROTOCOL 3.2), and recording finds the row gone."""
    opened, other = begin(metastore), metastore.transactions.open("u", "h", agent="compactor-worker-h-2")[0]
    assert metastore.claims.abort_running(claimed.id) is State.ABORTED
    assert ended(metastore) == [(State.ABORTED, ABORT_MESSAGE)]
    assert metastore.transactions.states([opened, other]) == {opened: "a", other: "o"}
    late = begin(metastore)
    with pytest.raises(LostClaim):
        metastore.claims.record(claimed, WORKER, late, None, WriteId(1))


def test_what_is_committed_stays(metastore: Metastore, table: Table, recorded: Entry) -> None:
    commit(metastore, table, recorded)
    before = metastore.entries.get(recorded.id)
    with pytest.raises(Refused, match="committed and readers already use its result"):
        metastore.claims.abort_running(recorded.id)
    assert metastore.entries.get(recorded.id) == before


def test_a_commit_at_this_moment_wins(metastore: Metastore, table: Table, recorded: Entry) -> None:
    """PROTOCOL 5: naming holds the transaction's row; whoever aborts waits for it and finds it committed."""
    told: list[object] = []

    def abort() -> None:
        try:
            told.append(metastore.claims.abort_running(recorded.id))
        except CompactorError as error:
            told.append(error)

    aborter = threading.Thread(target=abort)

    def name() -> None:
        aborter.start()
        aborter.join(0.5)
        assert told == []  # it waits

    commit(metastore, table, recorded, name)
    aborter.join(PATIENCE)
    assert [type(answer) for answer in told] == [Refused]
    entry = metastore.entries.get(recorded.id)
    assert (entry.state, entry.error) == (State.READY_FOR_CLEANING, None)
    committed = "c" if metastore.dialect.remembers_commits else None  # Hive 3.1 keeps no row of it
    assert metastore.transactions.state(recorded.txn_id or TxnId(0)) == committed


def test_workers_of_hive_are_hives(metastore: Metastore, recorded: Entry) -> None:
    with metastore.database.write() as conn:
        conn.execute(update(t.COMPACTION_QUEUE).values(CQ_WORKER_ID="host-17"))
    with pytest.raises(Refused, match="a worker of Hive's own"):
        metastore.claims.abort_running(recorded.id)
    assert metastore.transactions.state(recorded.txn_id or TxnId(0)) == "o"


def test_what_nobody_works_on(metastore: Metastore, table: Table) -> None:
    waiting = metastore.requests.request(Request(entity=ENTITY, type=CompactionType.MAJOR, initiator="compactor-test"))
    with pytest.raises(Refused, match="no worker has it"):
        metastore.claims.abort_running(waiting)
    with pytest.raises(NotFound, match="compaction 99 is not in the queue"):
        metastore.claims.abort_running(99)
