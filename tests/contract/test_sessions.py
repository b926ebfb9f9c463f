"""Concurrent sessions: which one waits, which one loses, and what each sees (the behaviours of Hive 4's lock tests)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import delete

from compactor.base.errors import LockNotGranted, TransactionAborted
from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.locks.lock_manager import wait_for
from compactor.metastore.locks.lock_rows import LockState
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import MIN_HISTORY_LEVEL, TXNS
from tests.support.aborted import aborted_of
from tests.support.candidates import candidates_of
from tests.support.sessions import Session

pytestmark = pytest.mark.usefixtures("hive4")
Begin = Callable[..., Session]
#: Writers stand beside each other and the first committer wins.
STRICT, LOOSE = ({"hive__txn__xlock__write": value} for value in ("true", "false"))


@pytest.fixture
def begin(metastore: Metastore) -> Begin:
    """Opens a session with these settings."""
    return lambda **settings: Session(metastore, **settings)


def held(metastore: Metastore) -> list[tuple[str | None, str | None, str, str]]:
    return [(row.table, row.partition, row.type.value, row.state.value) for row in metastore.locks.show()]


# --- who waits --------------------------------------------------------------------------------------------------


def test_drop_waits_for_a_reader_and_gets_its_lock_after_it(begin: Begin, metastore: Metastore) -> None:
    reader, dropper = begin(), begin()
    assert reader.run("select a from t")
    assert not dropper.run("drop table t")
    assert [(row.txn, row.type) for row in dropper.blockers] == [(reader.txn, LockType.SHARED_READ)]
    reader.rollback()
    assert dropper.granted()
    assert held(metastore) == [(None, None, "r", "a"), ("t", None, "e", "a")]


def test_drop_database_waits_for_a_writer_of_a_table(begin: Begin) -> None:
    writer, dropper = begin(), begin()
    assert writer.run("update t set a = 5 where b = 6")
    assert not dropper.run("drop database default")
    writer.commit()
    assert dropper.granted()


def test_create_table_does_not_wait_for_a_drop_of_another(begin: Begin) -> None:
    dropper, creator = begin(), begin()
    assert dropper.run("drop table t")
    assert creator.run("create table n (a int)")


def test_what_changes_nothing_of_rows_takes_no_lock(begin: Begin, metastore: Metastore) -> None:
    session = begin()
    for text in ("alter table t compact 'major'", "alter table t touch", "create database d", "drop view v", "show locks",
                 "create connector c type 'x'", "alter database d set owner user x", "explain select * from t"):  # fmt: skip
        assert session.run(text), text
    assert metastore.locks.show() == []


def test_readers_behind_a_waiting_writer_wait(begin: Begin) -> None:
    """First come, first served, and the database's own readers too."""
    reader, dropper, late, other = begin(), begin(), begin(), begin()
    assert reader.run("select * from part")
    assert not dropper.run("alter table part drop partition (p = 1)")
    assert not late.run("select * from part")
    assert other.run("select * from part where p = 2")
    reader.commit()
    assert not late.granted()
    assert dropper.granted()
    dropper.commit()
    assert late.granted()


def test_blockers_are_recorded(begin: Begin, metastore: Metastore) -> None:
    """HL_BLOCKEDBY_EXT_ID and HL_BLOCKEDBY_INT_ID; cleared when the lock is granted."""
    one, two = begin(), begin()
    one.run("drop table t")
    two.run("drop table t")
    rows = {(row.txn, row.table): row for row in metastore.locks.show()}
    blocker = rows[one.txn, "t"]
    assert rows[two.txn, "t"].blocked_by == (blocker.id, blocker.internal_id)
    assert rows[two.txn, None].blocked_by is None
    one.commit()
    assert two.granted()
    assert [row.blocked_by for row in metastore.locks.show()] == [None, None]


def test_the_number_of_tries_is_bounded(begin: Begin, metastore: Metastore) -> None:
    """hive.lock.numretries: then the request is withdrawn and who stands in the way is told."""
    one, two = begin(), begin()
    one.run("drop table t")
    two.run("select 1")
    naps: list[float] = []
    request = [LockRequest(database="default", table="t", type=LockType.SHARED_READ)]
    with pytest.raises(
        LockNotGranted, match=rf"not granted within 0\.3 s.*EXCLUSIVE on default\.t, transaction {one.txn}"
    ):
        wait_for(metastore.locks, two.txn, request, "u", "h", times=(100, 200), sleep=naps.append)
    assert naps == [0.1, 0.2]
    assert {row.txn for row in metastore.locks.show()} == {one.txn}


def test_a_lock_that_comes_free_while_waiting(begin: Begin, metastore: Metastore) -> None:
    one, two = begin(), begin()
    one.run("drop table t")
    two.run("select 1")
    request = [LockRequest(database="default", table="t", type=LockType.SHARED_READ)]
    lock = wait_for(metastore.locks, two.txn, request, "u", "h", times=(1, 2, 4), sleep=lambda nap: _end(one))
    assert lock.is_acquired


def _end(session: Session) -> None:
    if session.txn:
        session.commit()


def test_a_session_that_times_out_while_it_waits(begin: Begin, metastore: Metastore) -> None:
    one, two = begin(), begin()
    one.run("drop table t")
    assert not two.run("select * from t")
    metastore.transactions.abort(two.txn, "heartbeat time-out")
    assert {row.txn for row in metastore.locks.show()} == {one.txn}


# --- who loses --------------------------------------------------------------------------------------------------

#: What two sessions do at the same time, and whether the one that commits later loses.
OVERLAPPING = {
    "update, update": ("update t set a = 1", "update t set a = 2", True),
    "update, delete": ("update t set a = 1", "delete from t", True),
    "delete, update": ("delete from t", "update t set a = 1", True),
    "delete, delete": ("delete from t", "delete from t", True),
    "insert, update": ("insert into t values (1)", "update t set a = 1", False),
    "insert, insert": ("insert into t values (1)", "insert into t values (1)", False),
    "other tables": ("update t set a = 1", "update u set a = 1", False),
    "other partitions": ("delete from part where p = 1", "delete from part where p = 2", False),
    "same partition": ("delete from part where p = 1", "update part set a = 1 where p = 1", True),
    "one partition of all": ("delete from part", "delete from part where p = 2", True),
    "merges that update": (
        "merge into t using u on t.a = u.a when matched then update set a = 1",
        "merge into t using u on t.a = u.a when matched then delete",
        True,
    ),
    "merges that insert": (
        "merge into t using u on t.a = u.a when not matched then insert values (1)",
        "merge into t using u on t.a = u.a when not matched then insert values (1)",
        False,
    ),
    "insert and merge that inserts": (
        "insert into t values (1)",
        "merge into t using u on t.a = u.a when not matched then insert values (1)",
        False,
    ),
    "insert and merge of three": (
        "insert into t values (1)",
        "merge into t using u on t.a = u.a when matched and u.a = 1 then delete when matched then update set a = 1 "
        "when not matched then insert values (1)",
        False,
    ),
}


@pytest.mark.parametrize("case", OVERLAPPING)
def test_first_committer_wins(case: str, begin: Begin, metastore: Metastore) -> None:
    """Row changes on one object conflict; inserts never do, so two merges may insert the same row twice."""
    first, second, loses = OVERLAPPING[case]
    one, two = begin(**LOOSE), begin(**LOOSE)
    assert one.run(first)
    assert two.run(second)
    one.commit()
    txn = two.txn
    if not loses:
        two.commit()
        return
    with pytest.raises(TransactionAborted, match="committed first"):
        two.commit()
    assert metastore.transactions.state(txn) == "a"
    assert metastore.locks.show() == []


@pytest.mark.parametrize("case", [name for name, (_, _, loses) in OVERLAPPING.items() if loses])
def test_whoever_comes_after_the_commit_does_not_lose(case: str, begin: Begin) -> None:
    first, second, _ = OVERLAPPING[case]
    one, two = begin(**LOOSE), begin(**LOOSE)
    one.run(first)
    one.commit()
    two.run(second)
    two.commit()


@pytest.mark.parametrize("case", [name for name, (_, _, loses) in OVERLAPPING.items() if loses])
def test_nobody_loses_against_what_was_rolled_back(case: str, begin: Begin) -> None:
    first, second, _ = OVERLAPPING[case]
    one, two = begin(**LOOSE), begin(**LOOSE)
    one.run(first)
    two.run(second)
    one.rollback()
    two.commit()


def test_merges_that_insert_do_conflict_where_that_is_wanted(begin: Begin) -> None:
    """hive.txn.xlock.mergeinsert: with exclusive writers the second waits, with shared ones it loses."""
    merge = "merge into t using u on t.a = u.a when not matched then insert values (1)"
    wanted = {"hive__txn__xlock__mergeinsert": "true"}
    one, two = begin(**wanted, **STRICT), begin(**wanted, **STRICT)
    assert one.run(merge)
    assert not two.run(merge)
    one.commit()
    assert two.granted()
    two.rollback()
    three, four = begin(**wanted, **LOOSE), begin(**wanted, **LOOSE)
    assert three.run(merge)
    assert four.run(merge)
    three.commit()
    with pytest.raises(TransactionAborted):
        four.commit()


def test_the_snapshot_of_a_session_that_waited_is_stale(begin: Begin) -> None:
    """Locks alone don't save a session whose snapshot is older than what it waited for: it loses at commit."""
    one, two = begin(**STRICT), begin(**STRICT)
    one.run("update t set a = 1")
    assert not two.run("update t set a = 2")
    one.commit()
    assert two.granted()
    with pytest.raises(TransactionAborted, match="committed first"):
        two.commit()


# --- who sees what ----------------------------------------------------------------------------------------------


def visible(metastore: Metastore, session: Session, table: str = "t") -> list[int]:
    """Returns those of the given write IDs that the session sees."""
    assert session.snapshot is not None
    valid = metastore.write_ids.valid("default", table, session.snapshot)
    return [w for w in range(1, 10) if w <= valid.high_watermark and valid.is_valid(w)]


def test_nothing_of_an_open_transaction_is_seen(begin: Begin, metastore: Metastore) -> None:
    writer, reader = begin(), begin()
    writer.run("insert into t values (1)")
    reader.run("select * from t")
    assert visible(metastore, reader) == []
    writer.commit()
    assert visible(metastore, reader) == []  # the snapshot stays what it was
    later = begin()
    later.run("select * from t")
    assert visible(metastore, later) == [1]


def test_a_younger_transaction_that_commits_first_is_no_reason_to_see_the_older(
    begin: Begin, metastore: Metastore
) -> None:
    old, middle, young = begin(), begin(), begin()
    for session in (old, middle, young):
        session.run("insert into t values (1)")
    young.commit()
    reader = begin()
    reader.run("select * from t")
    assert visible(metastore, reader) == [3]
    old.commit()
    middle.rollback()
    last = begin()
    last.run("select * from t")
    assert visible(metastore, last) == [1, 3]


def test_a_session_sees_its_own_writes(begin: Begin, metastore: Metastore) -> None:
    other, session = begin(), begin()
    other.run("insert into t values (1)")
    session.run("insert into t values (1)")
    assert visible(metastore, session) == [2]


def test_what_is_seen_of_other_tables_does_not_depend_on_this_one(begin: Begin, metastore: Metastore) -> None:
    one, two = begin(), begin()
    one.run("insert into t values (1)")
    two.run("insert into u values (1)")
    two.commit()
    reader = begin()
    reader.run("select * from t, u")
    assert (visible(metastore, reader, "t"), visible(metastore, reader, "u")) == ([], [1])


def test_components_of_what_committed(begin: Begin, metastore: Metastore) -> None:
    """COMPLETED_TXN_COMPONENTS names each object once per transaction; nothing of what was rolled back."""
    session = begin(**LOOSE)
    session.run("insert into part partition (p=1) select 1")
    session.run("delete from part where p = 2")
    session.commit()
    lost = begin()
    lost.run("insert into u values (1)")
    lost.rollback()
    names = candidates_of(metastore)
    assert Entity(database="default", table="part", partition="p=1") in names
    assert Entity(database="default", table="part", partition="p=2") in names
    assert aborted_of(metastore, Entity(database="default", table="u")).count == 1


def test_locks_go_with_the_end_of_the_transaction(begin: Begin, metastore: Metastore) -> None:
    for end in (Session.commit, Session.rollback):
        session = begin()
        session.run("update t set a = 1")
        session.run("select * from u")
        assert {row.state for row in metastore.locks.show()} == {LockState.ACQUIRED}
        end(session)
        assert metastore.locks.show() == []


def _forget_row(metastore: Metastore, *txns: int) -> None:
    with metastore.database.write() as conn:
        for table, key in ((MIN_HISTORY_LEVEL, "MHL_TXNID"), (TXNS, "TXN_ID")):
            conn.execute(delete(table).where(table.c[key].in_(txns)))


def test_an_id_that_is_missing_may_be_about_to_appear(metastore: Metastore) -> None:
    """A process that draws an id inserts its row a moment later: until then readers take the id for open, one or many."""
    first, *between, last = metastore.transactions.open("u", "h", count=6)
    _forget_row(metastore, *between)
    young = metastore.transactions.snapshot(open_txn_timeout_ms=30_000)
    assert young.open >= {first, *between, last}
    metastore.transactions.commit(last)
    assert not any(metastore.transactions.snapshot(open_txn_timeout_ms=30_000).is_valid(txn) for txn in between)


def test_after_its_time_a_missing_id_is_none(metastore: Metastore) -> None:
    """Later than hive.txn.opentxn.timeout nobody may insert its row any more, so it holds nothing back."""
    first, between, last = metastore.transactions.open("u", "h", count=3)
    for txn in (first, last):
        metastore.transactions.commit(txn)
    _forget_row(metastore, between)
    assert metastore.transactions.snapshot(open_txn_timeout_ms=-60_000).open == frozenset()


def test_very_many_time_out_at_once(metastore: Metastore) -> None:
    txns = [txn for _ in range(3) for txn in metastore.transactions.open("u", "h", count=100)]
    request = LockRequest(database="default", table="t", type=LockType.SHARED_READ)
    for txn in txns[::60]:
        metastore.locks.acquire(txn, [request], "u", "h")
    assert metastore.transactions.time_out(-60_000) == txns
    assert metastore.locks.show() == []
    assert metastore.transactions.open_transactions() == []


def test_write_ids_that_were_given_in_another_order_than_transactions(begin: Begin, metastore: Metastore) -> None:
    """An older transaction may draw a higher write ID than a younger one: the list judges by transaction."""
    base, older, reader, younger = begin(), begin(), begin(), begin()
    base.run("insert into t values (1)")
    base.commit()
    older.run("select 1")
    reader.run("select * from t")
    younger.run("insert into t values (1)")
    older.run("insert into t values (1)")
    assert visible(metastore, reader) == [1]
    older.commit()
    assert visible(metastore, reader) == [1]
    reader.run("insert into t values (1)")
    assert visible(metastore, reader) == [1, 4]  # its own
    younger.commit()
    assert visible(metastore, reader) == [1, 4]
    late = begin()
    late.run("select * from t")
    reader.rollback()
    assert visible(metastore, late) == [1, 2, 3]
