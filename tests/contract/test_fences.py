"""A lost or paused worker changes nothing: every guarded step of a compaction, and what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import IntegrityError, OperationalError

from compactor.base.errors import CommitUnknown, LostClaim, NotFound, Refused, TransactionAborted
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import NEXT, CompactionType, IllegalTransition, State
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.queue.commit_section import Committing, EntryCommit
from compactor.metastore.schema import tables as t
from compactor.metastore.transactions.transaction_rows import TxnType
from tests.support.committing import committing

ENTITY = Entity(database="default", table="t")
WORKER = "compactor-1"


def everything(metastore: Metastore) -> dict[str, list[Any]]:
    """Returns every row, except what our own state keeps beside them, which may be ahead of them."""
    there = [table for table in t.metadata.sorted_tables if metastore.dialect.has(table)]
    with metastore.database.read() as conn:
        return {table.name: conn.execute(select(table)).all() for table in there}


def is_committed(metastore: Metastore, txn: TxnId) -> bool:
    """Returns true if the transaction committed; Hive 3.1 keeps no row of one that did."""
    return metastore.transactions.state(txn) == ("c" if metastore.dialect.remembers_commits else None)


def create(metastore: Metastore, location: str = "/warehouse/t") -> Table:
    return metastore.embedded_catalog.create_table(NewTable("default", "t", location, [Column(name="a", type="int")]))


def insert(metastore: Metastore, entity: Entity = ENTITY, *, abort: bool = False) -> WriteId:
    [txn] = metastore.transactions.open("u", "h")
    write_id = metastore.write_ids.allocate(txn, entity.database, entity.table)
    metastore.write_ids.add_component(txn, entity, "i", write_id)
    if abort:
        metastore.transactions.abort(txn, "rollback")
    else:
        metastore.transactions.commit(txn)
    return write_id


def request(metastore: Metastore, entity: Entity = ENTITY, type: CompactionType = CompactionType.MAJOR) -> int:
    return metastore.requests.request(Request(entity=entity, type=type, initiator="compactor-test"))


def claim(metastore: Metastore, worker: str = WORKER) -> Entry:
    entry = metastore.claims.claim(worker, "test", pool_timeout_ms=0)
    assert entry is not None
    return entry


class Compaction:
    """One that is recorded and about to commit."""

    def __init__(self, metastore: Metastore) -> None:
        self.metastore = metastore
        self.table = create(metastore)
        self.highest = insert(metastore)
        request(metastore)
        entry = claim(metastore)
        [self.txn] = metastore.transactions.open("u", "h", type=TxnType.COMPACTION)
        self.entry = metastore.claims.record(entry, WORKER, self.txn, None, self.highest)

    def commit(self, body: Callable[[], None] = lambda: None) -> None:
        place: dict[str, Any] = {"table_id": self.table.id, "partition_id": None, "location": self.table.location}
        with committing(self.metastore, self.entry, WORKER, self.txn, **place):
            body()


@pytest.fixture
def compaction(metastore: Metastore) -> Compaction:
    return Compaction(metastore)


def _aborted(compaction: Compaction) -> None:
    compaction.metastore.transactions.abort(compaction.txn, "by hand")


def _taken_away(compaction: Compaction) -> None:
    _aborted(compaction)
    assert compaction.metastore.claims.requeue(compaction.entry.id, WORKER)


def _other_worker(compaction: Compaction) -> None:
    _taken_away(compaction)
    claim(compaction.metastore, "compactor-2")


def _waits_again(compaction: Compaction) -> None:
    """Queues the entry again, as somebody who left the worker's name in it."""
    with compaction.metastore.database.write() as conn:
        conn.execute(t.COMPACTION_QUEUE.update().values(CQ_STATE="i"))


def _of_another_transaction(compaction: Compaction) -> None:
    """Records another transaction by the same worker."""
    [other] = compaction.metastore.transactions.open("u", "h", type=TxnType.COMPACTION)
    compaction.metastore.claims.record(compaction.entry, WORKER, other, None, compaction.highest)


def _ended(compaction: Compaction) -> None:
    compaction.metastore.claims.finish(compaction.entry, State.FAILED, "cancelled")


def _dropped(compaction: Compaction) -> None:
    """Removes only the catalog rows: dropping the table would remove the queue row with it."""
    with compaction.metastore.database.write() as conn:
        conn.execute(t.TBLS.update().values(TBL_NAME="gone"))


def _made_again(compaction: Compaction) -> None:
    """Creates the table again; the old queue row stays, as when a table is dropped while the metastore's listener is
    off.
    """
    _dropped(compaction)
    create(compaction.metastore)


def _moved(compaction: Compaction) -> None:
    with compaction.metastore.database.write() as conn:
        conn.execute(t.SDS.update().values(LOCATION="/elsewhere"))


def _write_ids_begin_again(compaction: Compaction) -> None:
    with compaction.metastore.database.write() as conn:
        conn.execute(t.NEXT_WRITE_ID.delete())


def _next_is_the_highest(compaction: Compaction) -> None:
    """Sets the counter as if the table had been made again and written to once less."""
    with compaction.metastore.database.write() as conn:
        conn.execute(t.NEXT_WRITE_ID.update().values(NWI_NEXT=compaction.highest))


BREAKS = [_aborted, _taken_away, _other_worker, _waits_again, _of_another_transaction, _ended, _dropped, _made_again]
BREAKS += [_moved, _write_ids_begin_again, _next_is_the_highest]


@pytest.mark.parametrize("change", BREAKS)
def test_committing_does_nothing_when(change: Callable[[Compaction], None], compaction: Compaction) -> None:
    """PROTOCOL 5: our transaction open, the queue row ours, table and location as read, write IDs above; else LostClaim."""
    change(compaction)
    before = everything(compaction.metastore)
    named: list[str] = []
    with pytest.raises(LostClaim):
        compaction.commit(lambda: named.append("named"))
    assert not named
    assert everything(compaction.metastore) == before


#: What a statement of the critical section does, by what stands in it; the first that fits.
_SAYS = {
    "TXN_LOCK_TBL": "lock",
    "NTXN_NEXT": "newest",
    "MAX(TXNS.TXN_ID)": "newest",
    "FROM TXNS": "our transaction",
    "FROM COMPACTION_QUEUE": "our row",
    "FROM TBLS": "place",
    "FROM NEXT_WRITE_ID": "write IDs",
    "UPDATE COMPACTION_QUEUE": "ready",
}


def _says(statement: str) -> str | None:
    plain = " ".join(statement.upper().replace('"', "").replace("`", "").split())
    if "NTXN_NEXT" in plain and "FOR UPDATE" in plain:
        return "lock"  # Hive 3.1's counter stands for TXN_LOCK_TBL
    forgets = plain.startswith("DELETE")  # as Hive 3.1 does with the row of what commits
    return None if forgets else next((step for word, step in _SAYS.items() if word in plain), None)


def test_what_is_locked_and_read_in_which_order(compaction: Compaction, store: str) -> None:
    """PROTOCOL 5, 9: the transaction's row, the queue row, table and write IDs; then the body; then TXN_LOCK_TBL, the
    newest transaction after it, stamps; and what is decided by is locked."""
    engine = compaction.metastore.database.engine
    steps: list[str] = []
    locked: set[str] = set()

    def see(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if (step := _says(statement)) is not None:
            steps.append(step)
            locked.update([step] if "FOR UPDATE" in statement.upper() else [])

    def committed(conn: Any) -> None:
        steps.append("commit")

    event.listen(engine, "before_cursor_execute", see)
    event.listen(engine, "commit", committed)
    try:
        compaction.commit(lambda: steps.append("named"))
    finally:
        event.remove(engine, "before_cursor_execute", see)
        event.remove(engine, "commit", committed)
    steps = steps[: steps.index("commit") + 1]  # what is kept in our own state follows
    before, after = ["our transaction", "our row", "place", "write IDs"], ["newest", "ready", "commit"]
    if store == "sqlite":  # it has one writer at a time, who began with BEGIN IMMEDIATE
        assert steps == [*before, "named", *after]
    else:
        assert steps == [*before, "named", "lock", *after]
        assert locked >= {"our transaction", "our row"}


def _requeued(compaction: Compaction) -> None:
    _aborted(compaction)
    compaction.metastore.claims.requeue(compaction.entry.id, WORKER)


def _recorded_again(compaction: Compaction) -> None:
    compaction.metastore.claims.record(compaction.entry, WORKER, compaction.txn, None, compaction.highest)


def _stopped(compaction: Compaction) -> None:
    compaction.metastore.claims.abort_running(compaction.entry.id)


@pytest.mark.parametrize("step", [_recorded_again, Compaction.commit, _stopped, _requeued])
def test_the_transaction_is_locked_before_the_queue_row(
    step: Callable[[Compaction], None], compaction: Compaction, store: str
) -> None:
    """PROTOCOL 9: all that lock both take them in the same order, or two of them wait for each other."""
    engine = compaction.metastore.database.engine
    locked: list[str | None] = []

    def see(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if "FOR UPDATE" in statement.upper():
            locked.append(_says(statement))

    event.listen(engine, "before_cursor_execute", see)
    try:
        step(compaction)
    finally:
        event.remove(engine, "before_cursor_execute", see)
    of_row = locked.index("our row") if "our row" in locked else None
    if store == "sqlite":
        assert locked == []
    else:
        assert of_row is not None
        assert "our transaction" in locked[:of_row]
        assert "our transaction" not in locked[of_row:]


def test_committing_rolls_back_when_naming_fails(compaction: Compaction) -> None:
    """PROTOCOL 5: past its time, or failed: roll back."""
    before = everything(compaction.metastore)

    def fail() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        compaction.commit(fail)
    assert everything(compaction.metastore) == before
    compaction.commit()
    assert is_committed(compaction.metastore, compaction.txn)


def test_committing_stamps_the_newest_transaction(compaction: Compaction) -> None:
    """PROTOCOL 7.1: a reader opened before our commit is at or below CQ_NEXT_TXN_ID, so the gate waits for him."""
    [reader] = compaction.metastore.transactions.open("u", "h")
    compaction.commit()
    entry = compaction.metastore.entries.get(compaction.entry.id)
    assert entry.state is State.READY_FOR_CLEANING
    assert entry.next_txn_id == reader
    assert entry.commit_time is not None
    assert compaction.metastore.transactions.lowest_open(-60_000) == reader


def test_committing_twice_is_lost(compaction: Compaction) -> None:
    compaction.commit()
    with pytest.raises(LostClaim, match=r"is committed|is gone"):
        compaction.commit()


def test_a_lost_answer_is_unknown_whether_or_not_it_happened(compaction: Compaction) -> None:
    """PROTOCOL 5: a commit whose answer was lost is CommitUnknown; TXNS, or Hive 3.1's queue row, says what happened."""
    engine = compaction.metastore.database.engine

    def lose(conn: Any) -> None:
        conn.connection.dbapi_connection.commit()
        raise OperationalError("COMMIT", {}, Exception("the line is dead"))

    event.listen(engine, "commit", lose)
    try:
        with pytest.raises(CommitUnknown, match="the line is dead"):
            compaction.commit()
    finally:
        event.remove(engine, "commit", lose)
    assert is_committed(compaction.metastore, compaction.txn)
    assert compaction.metastore.commits.committed(compaction.entry, compaction.txn)
    assert compaction.metastore.entries.get(compaction.entry.id).state is State.READY_FOR_CLEANING


def test_what_did_not_commit_is_not_known_to_be_committed(compaction: Compaction) -> None:
    metastore = compaction.metastore
    assert not metastore.commits.committed(compaction.entry, compaction.txn)
    metastore.transactions.abort(compaction.txn, "worker lost")
    assert not metastore.commits.committed(compaction.entry, compaction.txn)
    assert metastore.commits.txn_state(compaction.entry) == "a"
    metastore.claims.requeue(compaction.entry.id, WORKER)
    assert not metastore.commits.committed(compaction.entry, compaction.txn)


def test_the_outcome_of_a_ready_entry_is_known(compaction: Compaction) -> None:
    compaction.commit()
    ready = compaction.metastore.entries.get(compaction.entry.id)
    assert compaction.metastore.commits.txn_state(ready) == "c"
    compaction.metastore.cleaning.mark_cleaned(ready, [], all_below=True)
    assert compaction.metastore.commits.committed(ready, compaction.txn)


def _several(metastore: Metastore) -> list[EntryCommit]:
    """Compactions of three partitions that are recorded and about to commit."""
    table = metastore.embedded_catalog.create_table(
        NewTable(
            "default", "p", "/w/p", [Column(name="a", type="int")], partition_keys=[Column(name="d", type="string")]
        )
    )
    commits = []
    for value in ("x", "y", "z"):
        part = metastore.embedded_catalog.add_partition(table, [value])
        entity = Entity(database="default", table="p", partition=part.name)
        highest = insert(metastore, entity)
        request(metastore, entity)
        entry = claim(metastore)
        [txn] = metastore.transactions.open("u", "h", type=TxnType.COMPACTION)
        commits.append(
            EntryCommit(
                entry=metastore.claims.record(entry, WORKER, txn, None, highest),
                worker_id=WORKER,
                txn=txn,
                table_id=table.id,
                partition_id=part.id,
                location=part.location,
            )
        )
    return commits


def test_several_are_committed_at_once_but_for_those_that_are_lost(metastore: Metastore) -> None:
    """PROTOCOL 5: each is checked for itself; those that hold get the stamps of one commit."""
    commits = _several(metastore)
    metastore.transactions.abort(commits[1].txn, "by hand")
    with metastore.commits.committing_all(commits) as found:
        held = [found[commit.entry.id] for commit in commits]
        assert [isinstance(one, Committing) for one in held] == [True, False, True]
        assert "aborted" in str(held[1])
    rows = [metastore.entries.get(commit.entry.id) for commit in commits]
    assert [row.state for row in rows] == [State.READY_FOR_CLEANING, State.WORKING, State.READY_FOR_CLEANING]
    newest = metastore.transactions.newest()
    assert [row.next_txn_id for row in rows] == [newest, None, newest]
    assert [metastore.commits.committed(row, c.txn) for row, c in zip(rows, commits, strict=True)] == [
        True,
        False,
        True,
    ]
    assert metastore.claims.requeue(commits[1].entry.id, WORKER)


def test_where_naming_fails_none_of_several_is_committed(metastore: Metastore) -> None:
    commits = _several(metastore)
    before = everything(metastore)
    with pytest.raises(ZeroDivisionError), metastore.commits.committing_all(commits):
        raise ZeroDivisionError
    assert everything(metastore) == before


@pytest.mark.usefixtures("hive4")
def test_rebalance_leaves_its_write_set(metastore: Metastore) -> None:
    """PROTOCOL 7.4: WRITE_SET with an op u row of it tells later that a rebalance committed; and it gets its stamps."""
    table = create(metastore)
    insert(metastore)
    request(metastore, type=CompactionType.REBALANCE)
    entry = claim(metastore)
    [txn] = metastore.transactions.open("u", "h", type=TxnType.REBALANCE_COMPACTION)
    own = metastore.write_ids.allocate(txn, "default", "t")
    metastore.write_ids.add_component(txn, ENTITY, "u", own)
    entry = metastore.claims.record(entry, WORKER, txn, None, own)
    with committing(metastore, entry, WORKER, txn, table_id=table.id, partition_id=None, location=table.location):
        pass
    found = everything(metastore)
    assert [(row.WS_TXNID, row.WS_OPERATION_TYPE) for row in found["WRITE_SET"]] == [(txn, "u")]
    assert [row.CTC_TXNID for row in found["COMPLETED_TXN_COMPONENTS"]] == [1]
    assert metastore.entries.get(entry.id).next_txn_id == txn


@pytest.mark.usefixtures("hive4")
def test_what_tells_of_a_rebalance_whose_transaction_is_forgotten(metastore: Metastore) -> None:
    """PROTOCOL 7.4: an op u row in WRITE_SET, which only a commit writes; a component that is left keeps its transaction."""
    create(metastore)
    [txn] = metastore.transactions.open("u", "h", type=TxnType.REBALANCE_COMPACTION)
    metastore.write_ids.add_component(txn, ENTITY, "u", metastore.write_ids.allocate(txn, "default", "t"))
    assert not metastore.commits.rebalance_committed(txn)
    with pytest.raises(IntegrityError), metastore.database.engine.begin() as conn:
        conn.execute(t.TXNS.delete().where(txn == t.TXNS.c.TXN_ID))
    metastore.transactions.commit(txn)
    assert metastore.commits.rebalance_committed(txn)
    assert not metastore.commits.rebalance_committed(TxnId(txn + 1))


def test_partition_is_checked_by_id(metastore: Metastore) -> None:
    table = metastore.embedded_catalog.create_table(
        NewTable(
            "default", "p", "/w/p", [Column(name="a", type="int")], partition_keys=[Column(name="d", type="string")]
        )
    )
    part = metastore.embedded_catalog.add_partition(table, ["a/b"])
    entity = Entity(database="default", table="p", partition=part.name)
    highest = insert(metastore, entity)
    request(metastore, entity)
    entry = claim(metastore)
    [txn] = metastore.transactions.open("u", "h", type=TxnType.COMPACTION)
    entry = metastore.claims.record(entry, WORKER, txn, None, highest)
    place: dict[str, Any] = {"table_id": table.id, "location": part.location}
    with (
        pytest.raises(LostClaim, match="re-created"),
        committing(metastore, entry, WORKER, txn, partition_id=part.id + 1, **place),
    ):
        pytest.fail("the body must not run")
    with committing(metastore, entry, WORKER, txn, partition_id=part.id, **place) as held:
        assert (held.entry_id, held.txn, held.highest_write_id) == (entry.id, txn, highest)


def test_record_needs_an_open_transaction_and_our_row(metastore: Metastore) -> None:
    create(metastore)
    request(metastore)
    entry = claim(metastore)
    [dead, alive] = metastore.transactions.open("u", "h", type=TxnType.COMPACTION, count=2)
    metastore.transactions.abort(dead, "x")
    before = everything(metastore)
    with pytest.raises(LostClaim, match="aborted"):
        metastore.claims.record(entry, WORKER, dead, None, WriteId(1))
    with pytest.raises(LostClaim, match="compactor-2"):
        metastore.claims.record(entry, "compactor-2", alive, None, WriteId(1))
    with pytest.raises(LostClaim, match="gone"):
        metastore.claims.record(entry, WORKER, TxnId(99), None, WriteId(1))
    assert everything(metastore) == before


def test_a_number_that_was_given_out_again_is_no_compactions(compaction: Compaction) -> None:
    """PROTOCOL 11.2.11: an older copy was put back while its worker was paused."""
    with compaction.metastore.database.write() as conn:
        conn.execute(t.TXNS.update().where(compaction.txn == t.TXNS.c.TXN_ID).values(TXN_AGENT_INFO="Unknown"))
    with pytest.raises(LostClaim, match="opened by Unknown"):
        compaction.commit(lambda: pytest.fail("nothing may be named"))


def test_requeue_only_after_the_transaction_is_aborted(compaction: Compaction) -> None:
    """PROTOCOL 6: abort its transaction, hide its files, only then i."""
    metastore, entry = compaction.metastore, compaction.entry
    with pytest.raises(Refused, match="not aborted"):
        metastore.claims.requeue(entry.id, WORKER)
    metastore.transactions.abort(compaction.txn, "worker lost")
    assert not metastore.claims.requeue(entry.id, "compactor")  # compared exactly, not by prefix
    assert metastore.claims.requeue(entry.id, WORKER)
    back = metastore.entries.get(entry.id)
    assert (back.state, back.worker_id, back.txn_id, back.start) == (State.INITIATED, None, None, None)
    assert not metastore.claims.requeue(entry.id, WORKER)


def test_worker_ids_say_that_they_are_ours(metastore: Metastore) -> None:
    """PROTOCOL 6: worker ids begin with compactor-, since a restarting Hive takes back those of its host."""
    with pytest.raises(Refused, match="compactor-"):
        metastore.claims.claim("host-1", "test", pool_timeout_ms=0)
    create(metastore)
    waiting = request(metastore)
    with pytest.raises(Refused, match="compactor-"):
        metastore.claims.claim_all({waiting: "host-1"}, "test")
    assert metastore.entries.get(waiting).state is State.INITIATED


@pytest.mark.parametrize("state", [state for state in State if state not in NEXT[State.WORKING]])
def test_finish_follows_the_table_of_states(state: State, compaction: Compaction) -> None:
    before = everything(compaction.metastore)
    with pytest.raises(IllegalTransition):
        compaction.metastore.claims.finish(compaction.entry, state)
    assert everything(compaction.metastore) == before


def test_finish_moves_the_row_once(compaction: Compaction) -> None:
    """PROTOCOL 6: no row vanishes without history."""
    metastore = compaction.metastore
    metastore.claims.finish(compaction.entry, State.FAILED, "rows in 3, rows out 2")
    ended = metastore.entries.get(compaction.entry.id)
    assert (ended.state, ended.error, ended.worker_id) == (State.FAILED, "rows in 3, rows out 2", WORKER)
    assert ended.end is not None
    assert metastore.entries.queue() == []
    with pytest.raises(LostClaim):
        metastore.claims.finish(compaction.entry, State.FAILED, "again")
    assert len(metastore.entries.history()) == 1


def test_cleaner_steps_are_only_for_ready_rows(compaction: Compaction) -> None:
    metastore = compaction.metastore
    for step in (
        lambda: metastore.cleaning.back_off(compaction.entry, 1, None),
        lambda: metastore.cleaning.mark_cleaned(compaction.entry, [], all_below=True),
    ):
        with pytest.raises(LostClaim, match="ready for cleaning"):
            step()
    assert metastore.cleaning.take([compaction.entry], 0) == []
    compaction.commit()
    ready = metastore.entries.get(compaction.entry.id)
    assert metastore.cleaning.take([ready], 0) == [ready]
    metastore.cleaning.mark_cleaned(ready, [], all_below=True)
    before = everything(metastore)
    with pytest.raises(LostClaim):
        metastore.cleaning.mark_cleaned(ready, [], all_below=True)
    assert everything(metastore) == before


def test_ids_are_never_handed_out_again(metastore: Metastore) -> None:
    """PROTOCOL 9: a plain key hands the largest id out again; a new transaction would own an old _v."""
    first = metastore.transactions.open("u", "h", count=3)
    with metastore.database.write() as conn:
        conn.execute(t.MIN_HISTORY_LEVEL.delete())
        conn.execute(t.TXNS.delete().where(t.TXNS.c.TXN_ID > 0))
    assert min(metastore.transactions.open("u", "h")) > max(first)


def test_forgetting_keeps_the_largest_and_what_nobody_looked_at(metastore: Metastore) -> None:
    """PROTOCOL 8, 9: the largest TXNS row is never deleted, nor an aborted one that storage was not asked about."""
    txns = metastore.transactions.open("u", "h", count=5)
    for txn in txns:
        metastore.transactions.abort(txn, "x")
    first = [0] if metastore.dialect.remembers_commits else []  # Hive 4's schema begins with a row
    assert [f.id for f in metastore.housekeeping.forgettable(-60_000)] == [*first, *txns[:-1]]
    forgotten = metastore.housekeeping.forget_transactions(set(txns) - {txns[1]}, open_txn_timeout_ms=-60_000)
    assert forgotten == 3 + len(first)
    assert metastore.transactions.states([0, *txns]) == {txns[1]: "a", txns[4]: "a"}
    assert metastore.transactions.open("u", "h") == [6]


def test_forgetting_keeps_what_has_components(metastore: Metastore) -> None:
    create(metastore)
    insert(metastore, abort=True)
    metastore.transactions.open("u", "h")
    metastore.housekeeping.forget_transactions([TxnId(1)], open_txn_timeout_ms=-60_000)
    assert metastore.transactions.state(TxnId(1)) == "a"


def test_young_transactions_are_not_forgotten(metastore: Metastore) -> None:
    for txn in metastore.transactions.open("u", "h", count=3):
        metastore.transactions.commit(txn)
    assert metastore.housekeeping.forget_transactions([], open_txn_timeout_ms=60_000) == 0


def test_unknown_transactions_are_named(metastore: Metastore) -> None:
    for step in (
        lambda: metastore.transactions.commit(TxnId(77)),
        lambda: metastore.transactions.heartbeat(TxnId(77)),
        lambda: metastore.write_ids.allocate(TxnId(77), "default", "t"),
    ):
        with pytest.raises(NotFound, match="77"):
            step()
    assert not metastore.transactions.abort(TxnId(77), "x")


def test_an_aborted_transaction_does_nothing_more(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    metastore.transactions.abort(txn, "x")
    before = everything(metastore)
    for step in (
        lambda: metastore.transactions.commit(txn),
        lambda: metastore.transactions.heartbeat(txn),
        lambda: metastore.write_ids.allocate(txn, "default", "t"),
        lambda: metastore.write_ids.add_component(txn, ENTITY, "i", WriteId(1)),
    ):
        with pytest.raises(TransactionAborted, match=str(txn)):
            step()
    assert everything(metastore) == before
