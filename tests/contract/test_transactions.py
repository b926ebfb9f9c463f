from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select

from compactor.base.errors import NotFound, Refused, TransactionAborted, WriteConflict
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables as t
from compactor.metastore.transactions.commit_rows import check_not_overwritten
from compactor.metastore.transactions.open_limits import TxnLimits
from compactor.metastore.transactions.shown_transactions import KeyValue, NewTransaction
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.metastore.transactions.transactions import Transactions

T = Entity(database="default", table="t")
P1, P2 = (Entity(database="default", table="t", partition=f"p={n}") for n in (1, 2))


def writer(metastore: Metastore, operation: str = "i", entity: Entity = T) -> TxnId:
    [txn] = metastore.transactions.open("u", "h")
    write_id = metastore.write_ids.allocate(txn, entity.database, entity.table)
    metastore.write_ids.add_component(txn, entity, operation, write_id)
    return txn


def test_first_committer_wins(metastore: Metastore) -> None:
    first, second = writer(metastore, "d"), writer(metastore, "u")
    metastore.transactions.commit(second)
    with pytest.raises(TransactionAborted, match=f"transaction {second}"):
        metastore.transactions.commit(first)
    assert metastore.transactions.state(first) == "a"
    with metastore.database.read() as conn:
        reason = conn.execute(t.TXNS.select().where(t.TXNS.c.TXN_ID == first)).one().TXN_META_INFO
        committed = conn.execute(t.COMPLETED_TXN_COMPONENTS.select()).all()
    assert reason == "write conflicts"
    assert [row.CTC_TXNID for row in committed] == [second]


@pytest.mark.usefixtures("hive4")
def test_two_deletes_conflict(metastore: Metastore) -> None:
    """Hive 4 writes an UPDATE as a delete too; Hive 3.1 lets both delete, since a row is gone only once."""
    first, second = writer(metastore, "d"), writer(metastore, "d")
    metastore.transactions.commit(second)
    with pytest.raises(TransactionAborted, match=f"transaction {second}"):
        metastore.transactions.commit(first)


@pytest.mark.parametrize(("mine", "theirs"), [("i", "d"), ("d", "i")])
def test_inserts_never_conflict(mine: str, theirs: str, metastore: Metastore) -> None:
    first, second = writer(metastore, mine), writer(metastore, theirs)
    metastore.transactions.commit(second)
    metastore.transactions.commit(first)
    assert "a" not in metastore.transactions.states([first, second]).values()


def test_transactions_are_opened_ahead_and_given_back(metastore: Metastore) -> None:
    txns = metastore.transactions.open("u", "h", agent="mine", count=4)
    write_ids = metastore.write_ids.allocate_all([txns[3], *txns[:3]], "default", "T")
    assert write_ids == dict(zip(txns, (1, 2, 3, 4), strict=True))
    metastore.write_ids.add_components(write_ids, T, "i")
    metastore.transactions.commit(txns[0])
    metastore.transactions.abort(txns[1], "it failed")
    metastore.transactions.give_back(txns, "not used", agent="another's")
    assert [one.id for one in metastore.transactions.open_transactions()] == txns[2:]
    metastore.transactions.give_back(txns, "not used", agent="mine")
    assert metastore.transactions.states(txns[1:]) == dict.fromkeys(txns[1:], "a")
    with metastore.database.read() as conn:
        components = conn.execute(select(t.TXN_COMPONENTS.c.TC_TXNID)).scalars().all()
        assert components == [txns[1]], "one that failed may have files"
        assert conn.execute(select(t.COMPLETED_TXN_COMPONENTS.c.CTC_WRITEID)).scalars().all() == [1]
    with pytest.raises(TransactionAborted):
        metastore.write_ids.allocate_all(txns[3:], "default", "other")
    with pytest.raises(TransactionAborted):
        metastore.write_ids.add_components({txns[3]: WriteId(4)}, T, "i")
    assert metastore.write_ids.next("default", "other") == 1


@pytest.mark.parametrize(
    ("theirs", "where", "is_hidden"), [("u", P1, True), ("u", T, True), ("u", P2, False), ("d", P1, False)]
)
def test_what_was_overwritten_hides_write_ids_drawn_before(
    metastore: Metastore, theirs: str, where: Entity, is_hidden: bool
) -> None:
    first, second = writer(metastore, "i", P1), writer(metastore, theirs, where)
    check = check_not_overwritten(first, [P1])
    with metastore.database.read() as conn:
        check(conn)
    metastore.transactions.commit(second)
    with metastore.database.read() as conn:
        if not is_hidden:
            check(conn)
            return
        with pytest.raises(WriteConflict, match=f"transaction {second} "):
            check(conn)


def test_other_partitions_and_later_transactions_do_not_conflict(metastore: Metastore) -> None:
    first, second = writer(metastore, "u", P1), writer(metastore, "d", P2)
    metastore.transactions.commit(second)
    metastore.transactions.commit(first)
    metastore.transactions.commit(writer(metastore, "d", P1))


def test_commits_have_times(metastore: Metastore) -> None:
    before = metastore.now_ms()
    first, second = writer(metastore), writer(metastore, entity=P1)
    metastore.transactions.commit(second)
    after = metastore.now_ms()
    times = metastore.write_ids.commit_times("Default", "T")
    assert list(times) == [2]
    assert before - 1500 <= times[WriteId(2)] <= after + 1500  # a column may have whole seconds
    metastore.transactions.abort(first, "not wanted")
    assert list(metastore.write_ids.commit_times("default", "t")) == [2]
    assert metastore.write_ids.commit_times("default", "other") == {}


def test_commit_is_idempotent(metastore: Metastore) -> None:
    txn = writer(metastore)
    metastore.transactions.commit(txn)
    metastore.transactions.commit(txn)
    with metastore.database.read() as conn:
        assert len(conn.execute(t.COMPLETED_TXN_COMPONENTS.select()).all()) == 1


def test_what_is_done_before_its_locks_go_is_done_of_an_open_one_alone(metastore: Metastore) -> None:
    """PROTOCOL 6: of one that committed nothing may be hidden."""
    [txn, committed, newest] = metastore.transactions.open("u", "h", count=3)
    metastore.transactions.commit(committed)
    done: list[TxnId] = []
    for ended in (committed, TxnId(99)):
        assert not metastore.transactions.abort(ended, "x", done.append)
    assert done == []
    assert metastore.transactions.abort(txn, "x", done.append)
    assert not metastore.transactions.abort(txn, "x", done.append)
    assert done == [newest]


def test_a_transaction_that_is_held_open_is_not_timed_out(metastore: Metastore) -> None:
    """PROTOCOL 11.15: nobody ends it meanwhile, and its locks with it."""
    [txn, committed] = metastore.transactions.open("u", "h", count=2)
    metastore.transactions.commit(committed)
    with ThreadPoolExecutor(1) as pool:
        with metastore.transactions.holding(txn):
            aborted = pool.submit(metastore.transactions.abort, txn, "timed out")
            assert [metastore.transactions.state(txn) for _ in range(20)] == ["o"] * 20
            assert not aborted.done()
        assert aborted.result()
    with pytest.raises(TransactionAborted), metastore.transactions.holding(txn):
        raise AssertionError("it is aborted")
    with pytest.raises(NotFound), metastore.transactions.holding(committed):
        raise AssertionError("it is committed")


def test_snapshot_sees_neither_open_nor_aborted(metastore: Metastore) -> None:
    a, b, c, d = metastore.transactions.open("u", "h", count=4)
    metastore.transactions.commit(a)
    metastore.transactions.abort(b, "x")
    metastore.transactions.commit(d)
    assert str(metastore.transactions.snapshot()) == f"{d}:{c}:{c}:{b}"
    assert str(metastore.transactions.snapshot(own=c)) == f"{c}:9223372036854775807::{b}"


def test_open_compactions_are_never_visible(metastore: Metastore) -> None:
    """A directory counts once its transaction is valid; the one that plans leaves its own out too."""
    [txn] = metastore.transactions.open("u", "h", type=TxnType.COMPACTION)
    [other] = metastore.transactions.open("u", "h", type=TxnType.REBALANCE_COMPACTION)
    assert metastore.transactions.snapshot().open == {txn, other}


def test_read_only_transactions_hold_the_gate_but_no_snapshot(metastore: Metastore) -> None:
    """PROTOCOL 7.1: the gate counts all types, a snapshot leaves read-only ones out."""
    [reader] = metastore.transactions.open("u", "h", type=TxnType.READ_ONLY)
    metastore.transactions.commit(writer(metastore))
    assert metastore.transactions.snapshot().open == frozenset()
    assert metastore.transactions.lowest_open(-60_000) == reader


def test_gate_without_open_transactions_is_above_the_newest(metastore: Metastore) -> None:
    for txn in metastore.transactions.open("u", "h", count=3):
        metastore.transactions.commit(txn)
    assert metastore.transactions.lowest_open(-60_000) == 4


@pytest.mark.usefixtures("hive4")
def test_gate_counts_only_ids_that_are_older_than_the_timeout(metastore: Metastore) -> None:
    """PROTOCOL 7.1: ids still being opened; so nothing is cleaned within a second of its commit."""
    for txn in metastore.transactions.open("u", "h", count=3):
        metastore.transactions.commit(txn)
    assert metastore.transactions.lowest_open(60_000) == 1
    metastore.transactions.open("u", "h")  # an id below it may still be on its way
    assert metastore.transactions.lowest_open(60_000) == 1


@pytest.mark.usefixtures("hive4")
def test_missing_ids_below_a_young_row_count_as_open(metastore: Metastore) -> None:
    a, b, c = metastore.transactions.open("u", "h", count=3)
    for txn in (a, c):
        metastore.transactions.commit(txn)
    with metastore.database.write() as conn:
        conn.execute(t.TXNS.delete().where(t.TXNS.c.TXN_ID == b))
    assert metastore.transactions.snapshot(open_txn_timeout_ms=60_000).open == {b}
    assert metastore.transactions.snapshot(open_txn_timeout_ms=-60_000).open == frozenset()


def test_time_out_aborts_the_silent_and_drops_their_locks(metastore: Metastore) -> None:
    [silent] = metastore.transactions.open("u", "h")
    [copied] = metastore.transactions.open("u", "h", type=TxnType.REPL_CREATED)
    assert metastore.transactions.time_out(60_000) == []
    assert metastore.transactions.time_out(-60_000, among=[]) == []
    assert metastore.transactions.time_out(-60_000, among=[silent]) == [silent]
    assert metastore.transactions.states([silent, copied]) == {silent: "a", copied: "o"}


def test_heartbeat_keeps_alive(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    with metastore.database.write() as conn:
        conn.execute(t.TXNS.update().values(TXN_LAST_HEARTBEAT=1))
    metastore.transactions.heartbeat(txn)
    assert metastore.transactions.time_out(60_000) == []


def test_a_batch_of_transactions_is_bounded(metastore: Metastore) -> None:
    with pytest.raises(Refused, match="0 transactions"):
        metastore.transactions.open("u", "h", count=0)


def limited(metastore: Metastore, **limits: Any) -> Transactions:
    return Transactions(metastore.database, metastore.dialect, TxnLimits(**limits))


def test_one_call_opens_a_batch_at_most(metastore: Metastore) -> None:
    """Hive's ``hive.txn.max.open.batch``: who asks for more gets that many."""
    assert len(limited(metastore, max_batch=3).open("u", "h", count=5)) == 3


@pytest.mark.parametrize("at_once", [True, False])
def test_of_transactions_that_are_opened_together_each_is_whose_it_was_opened_for(
    metastore: Metastore, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its agent a worker is known to live (PROTOCOL 6), also where many rows are not told their ids."""
    if not at_once:
        sql = metastore.database.engine.dialect
        monkeypatch.setattr(sql, "insert_executemany_returning_sort_by_parameter_order", False, raising=False)
    openings = [
        NewTransaction(user="u", host="h", type=TxnType.COMPACTION, agent=f"worker-{n * 7 % 10}") for n in range(10)
    ]
    ids = metastore.transactions.open_all(openings)
    assert ids == sorted(set(ids))
    agents = {txn.id: txn.agent for txn in metastore.transactions.open_transactions()}
    assert [agents[txn] for txn in ids] == [opening.agent for opening in openings]


def test_only_so_many_transactions_may_be_open(metastore: Metastore) -> None:
    """Hive's ``hive.max.open.txns``: refused at the limit, and opened again below nine tenths of it."""
    now = 0.0
    transactions = Transactions(metastore.database, metastore.dialect, TxnLimits(max_open=10), clock=lambda: now)
    ids = transactions.open("u", "h", count=10)
    with pytest.raises(
        Refused, match=r"^Maximum allowed number of open transactions has been reached\. See hive\.max\."
    ):
        transactions.open("u", "h")
    for ended, is_open in ((ids[:1], False), (ids[1:2], True)):
        metastore.transactions.commit(*ended)
        now += 2.0  # counted once a second, as in Hive
        if is_open:
            assert len(transactions.open("u", "h")) == 1
        else:
            with pytest.raises(Refused, match="9 are open, 10 are allowed"):
                transactions.open("u", "h")


def test_without_min_history_level_write_set_says_who_wrote(metastore: Metastore) -> None:
    """Hive 4 with ``hive.txn.use.minhistorylevel`` false: no such row, but one of WRITE_SET for an INSERT too."""
    transactions = limited(metastore, min_history_level=False)
    [txn] = transactions.open("u", "h")
    metastore.write_ids.add_component(txn, T, "i", metastore.write_ids.allocate(txn, "default", "t"))
    with metastore.database.read() as conn:
        assert conn.execute(t.MIN_HISTORY_LEVEL.select()).all() == []
    transactions.commit(txn)
    [other] = transactions.open("u", "h")
    with metastore.database.read() as conn:
        assert [(row.WS_TXNID, row.WS_OPERATION_TYPE) for row in conn.execute(t.WRITE_SET.select())] == [(txn, "i")]
    transactions.commit(other)


@pytest.mark.usefixtures("hive4")
def test_ids_that_came_too_late_are_taken_back(metastore: Metastore) -> None:
    """PROTOCOL 7.1, Hive's ``OpenTxnsFunction``: a snapshot counts an id that did not come in time as one never to be."""
    if not metastore.dialect.draws_early:
        assert metastore.database.kind == "sqlite"  # one writer at a time: an id and its row come together
        return
    times = iter((0.0, 0.0, 2.0, 10.0, 10.0, 10.5, 20.0))  # begun, counted, done; and once more
    transactions = Transactions(metastore.database, metastore.dialect, clock=lambda: next(times))
    [txn] = transactions.open("u", "h")
    with metastore.database.read() as conn:
        assert conn.execute(select(t.TXNS.c.TXN_ID).where(t.TXNS.c.TXN_STATE == "o")).scalars().all() == [txn]
        assert conn.execute(select(t.MIN_HISTORY_LEVEL.c.MHL_TXNID)).scalars().all() == [txn]


@pytest.mark.usefixtures("hive4")
def test_the_largest_id_stays_though_it_came_too_late(metastore: Metastore) -> None:
    """PROTOCOL 9: until it is taken back it is the largest row, and a housekeeper forgets those below it.

    Without any of them the database looks like an older copy, and new snapshots end before what has committed.
    """
    if not metastore.dialect.draws_early:
        assert metastore.database.kind == "sqlite"
        return
    ended = metastore.transactions.open("u", "h", count=3)
    for txn in ended:
        metastore.transactions.commit(txn)
    calls = itertools.count()
    newest: list[TxnId] = []

    def clock() -> float:
        """Says 0 s when the first try begins and looks for room, 2 s at its end, and 10 s from the next try on."""
        call = next(calls)
        if call == 2:
            with metastore.database.write() as conn:
                conn.execute(t.TXNS.update().values(TXN_STARTED=1))
            metastore.housekeeping.forget_transactions([])
        if call == 3:
            newest.append(metastore.marks.present("default").newest)
        return (0.0, 0.0, 2.0, 10.0)[min(call, 3)]

    transactions = Transactions(metastore.database, metastore.dialect, clock=clock)
    [txn] = transactions.open("u", "h")
    assert ended[-1] < newest[0] < txn
    assert metastore.transactions.states([*ended, newest[0], txn]) == {newest[0]: "a", txn: "o"}


def test_a_heartbeat_of_many_names_those_that_ended(metastore: Metastore) -> None:
    """Like Hive's ``heartbeatTxnRange``: all alive in one statement, or who is not."""
    ids = metastore.transactions.open("u", "h", count=5)
    with metastore.database.write() as conn:
        conn.execute(t.TXNS.update().values(TXN_LAST_HEARTBEAT=1))
    assert metastore.transactions.heartbeat_all(ids) == {}
    assert metastore.transactions.time_out(60_000) == []
    metastore.transactions.abort(ids[1], "x")
    metastore.transactions.commit(ids[3])
    beyond = TxnId(ids[-1] + 1)
    ended = metastore.transactions.heartbeat_all([*ids, beyond])
    assert ended == {ids[1]: "a", ids[3]: metastore.transactions.state(ids[3]), beyond: None}


def test_a_heartbeat_of_many_keeps_the_living_alive(metastore: Metastore) -> None:
    ids = metastore.transactions.open("u", "h", count=3)
    metastore.transactions.abort(ids[1], "x")
    with metastore.database.write() as conn:
        conn.execute(t.TXNS.update().values(TXN_LAST_HEARTBEAT=1))
    metastore.transactions.heartbeat_all(ids)
    assert metastore.transactions.time_out(60_000) == []
    assert metastore.transactions.states(ids) == {ids[0]: "o", ids[1]: "a", ids[2]: "o"}


@pytest.fixture
def table(metastore: Metastore) -> Table:
    parameters = {"_metaOffset": "1", "offset": "1"}
    columns = [Column(name="a", type="int")]
    return metastore.embedded_catalog.create_table(NewTable("default", "t", "/w/t", columns, parameters=parameters))


def offset(metastore: Metastore) -> dict[str, str]:
    return dict(metastore.catalog.table("default", "t").parameters)


def test_a_property_changes_with_the_commit(metastore: Metastore, table: Table) -> None:
    """Hive's ``TestHiveMetaStoreTxns.testTxNWithKeyValue``."""
    txn = writer(metastore)
    metastore.transactions.commit(txn, KeyValue(table_id=table.id, key="_metaOffset", value="7"))
    assert offset(metastore) == {"_metaOffset": "7", "offset": "1"}


@pytest.mark.parametrize(("key", "off"), [("offset", 0), ("_metaOther", 0), ("_metaOffset", 1)])
def test_a_property_that_is_not_there_is_refused_and_nothing_committed(
    metastore: Metastore, table: Table, key: str, off: int
) -> None:
    txn = writer(metastore)
    with pytest.raises(Refused, match=key):
        metastore.transactions.commit(txn, KeyValue(table_id=table.id + off, key=key, value="7"))
    assert metastore.transactions.state(txn) == "o"
    assert offset(metastore) == {"_metaOffset": "1", "offset": "1"}


def test_a_transaction_that_loses_sets_no_property(metastore: Metastore, table: Table) -> None:
    first, second = writer(metastore, "u"), writer(metastore, "u")
    metastore.transactions.commit(second)
    with pytest.raises(TransactionAborted):
        metastore.transactions.commit(first, KeyValue(table_id=table.id, key="_metaOffset", value="7"))
    assert offset(metastore) == {"_metaOffset": "1", "offset": "1"}


def test_a_reader_holds_write_ids_while_it_is_open(metastore: Metastore, store: str) -> None:
    """PROTOCOL 7.5: MIN_HISTORY_WRITE_ID says from where on a reader may look; its end takes the row along."""
    metastore.transactions.commit(writer(metastore))
    opened = writer(metastore)
    metastore.transactions.commit(writer(metastore))
    [reader] = metastore.transactions.open("u", "h")
    for name in ("t", "other"):
        valid = metastore.write_ids.valid("default", name, metastore.transactions.snapshot(reader))
        metastore.write_ids.hold(reader, valid)
        metastore.write_ids.hold(reader, valid)
    if store.endswith("31"):
        return  # it has no such table, and nothing was raised
    with metastore.database.read() as conn:
        rows = conn.execute(t.MIN_HISTORY_WRITE_ID.select().order_by(t.MIN_HISTORY_WRITE_ID.c.MH_TABLE)).all()
    assert [(row.MH_TXNID, row.MH_TABLE, row.MH_WRITEID) for row in rows] == [(reader, "other", 1), (reader, "t", 2)]
    metastore.transactions.abort(reader, "x")
    with metastore.database.read() as conn:
        assert conn.execute(t.MIN_HISTORY_WRITE_ID.select()).all() == []
    metastore.transactions.commit(opened)


def test_write_ids_count_per_table_and_are_given_once(metastore: Metastore) -> None:
    a, b = metastore.transactions.open("u", "h", count=2)
    assert metastore.write_ids.next("default", "t") == 1
    assert metastore.write_ids.allocate(a, "default", "T") == 1
    assert metastore.write_ids.allocate(a, "Default", "t") == 1
    assert metastore.write_ids.allocate(b, "default", "t") == 2
    assert metastore.write_ids.allocate(b, "default", "other") == 1
    assert metastore.write_ids.allocated_to(b) == [("default", "other", 1), ("default", "t", 2)]
    assert metastore.write_ids.transactions("default", "t") == {1: a, 2: b}


def test_write_ids_of_many_transactions_at_once(metastore: Metastore) -> None:
    """More than fit into one statement."""
    txns = metastore.transactions.open("u", "h", count=3)
    wanted = [
        (txn, "default", name, metastore.write_ids.allocate(txn, "default", name)) for txn in txns for name in "ab"
    ]
    unknown = [TxnId(txns[-1] + number) for number in range(1, 1200)]
    assert sorted(metastore.write_ids.allocated_to_all([*unknown, *txns])) == sorted(wanted)
    assert metastore.write_ids.allocated_to_all([]) == []


def test_aborted_transactions_with_their_starts_and_write_ids(metastore: Metastore) -> None:
    first, second, third = metastore.transactions.open("u", "h", count=3)
    written = metastore.write_ids.allocate(first, "default", "a")
    metastore.write_ids.allocate(second, "default", "a")
    for txn in (first, third):
        metastore.transactions.abort(txn, "x")
    starts = {one.id: one.started for one in metastore.transactions.unfinished()}
    assert metastore.transactions.aborted() == {txn: starts[txn] for txn in (first, third)}
    assert metastore.write_ids.allocated_to_aborted() == [(first, "default", "a", written)]


def test_read_only_transactions_get_no_write_id(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h", type=TxnType.READ_ONLY)
    with pytest.raises(Refused, match="read-only"):
        metastore.write_ids.allocate(txn, "default", "t")


def test_valid_write_ids(metastore: Metastore) -> None:
    txns = [writer(metastore) for _ in range(5)]
    metastore.transactions.commit(txns[0])
    metastore.transactions.abort(txns[1], "x")
    metastore.transactions.commit(txns[3])
    valid = metastore.write_ids.valid("default", "t", metastore.transactions.snapshot())
    assert str(valid) == "default.t:5:3:3,5:2"
    assert str(valid.for_compactor()) == "default.t:2:9223372036854775807::2"


def test_write_ids_of_a_snapshot_taken_before_them(metastore: Metastore) -> None:
    metastore.transactions.commit(writer(metastore))
    before = metastore.transactions.snapshot()
    metastore.transactions.commit(writer(metastore))
    assert not metastore.write_ids.valid("default", "t", before).is_valid(WriteId(2))
    assert metastore.write_ids.valid("default", "t", metastore.transactions.snapshot()).is_valid(WriteId(2))


def test_what_every_open_transaction_sees(metastore: Metastore) -> None:
    """PROTOCOL 5: write IDs of transactions that had ended before each of the open ones opened."""
    write_ids, transactions = metastore.write_ids, metastore.transactions
    assert write_ids.seen_by_all("default", "t") == 0
    transactions.commit(writer(metastore))
    slow = writer(metastore)
    [reader] = transactions.open("ann", "h")
    [compaction] = transactions.open("w", "h", type=TxnType.COMPACTION, agent="compactor-w")
    transactions.commit(slow)  # the reader opened before that, so it never sees it
    transactions.commit(writer(metastore))
    assert write_ids.seen_by_all("DEFAULT", "T") == 1
    [later] = transactions.open("bob", "h")
    assert write_ids.seen_by_all("default", "t") == 1
    transactions.abort(reader, "enough")
    transactions.commit(compaction)
    assert write_ids.seen_by_all("default", "t") == 2  # the reader was open when bob came, so more is not known
    transactions.commit(later)
    assert write_ids.seen_by_all("default", "t") == 3
    writer(metastore)
    assert write_ids.seen_by_all("default", "t") == 3


def test_of_a_transaction_without_its_history_nothing_is_known_to_be_seen(metastore: Metastore) -> None:
    metastore.transactions.commit(writer(metastore))
    [reader] = metastore.transactions.open("ann", "h")
    assert metastore.write_ids.seen_by_all("default", "t") == 1
    with metastore.database.write() as conn:
        conn.execute(t.MIN_HISTORY_LEVEL.delete())
    assert metastore.write_ids.seen_by_all("default", "t") == 0
    metastore.transactions.commit(reader)
    assert metastore.write_ids.seen_by_all("default", "t") == 1


def test_write_ids_of_a_table_nobody_wrote(metastore: Metastore) -> None:
    assert metastore.write_ids.valid("default", "t", metastore.transactions.snapshot()).high_watermark == 0


def test_purged_mappings_count_as_committed(metastore: Metastore) -> None:
    for _ in range(3):
        metastore.transactions.commit(writer(metastore))
    assert metastore.housekeeping.purge_write_ids(open_txn_timeout_ms=-60_000) == 3
    valid = metastore.write_ids.valid("default", "t", metastore.transactions.snapshot())
    assert valid.high_watermark == 3
    assert valid.is_valid(WriteId(2))


def test_a_purged_mapping_above_one_that_stays_is_still_visible(metastore: Metastore) -> None:
    """An older transaction may hold the higher write ID; Hive's purge hides its rows until the other has ended."""
    old, young = metastore.transactions.open("u", "h", count=2)
    assert metastore.write_ids.allocate(young, "default", "t") == 1
    assert metastore.write_ids.allocate(old, "default", "t") == 2
    metastore.transactions.commit(old)
    assert metastore.housekeeping.purge_write_ids(open_txn_timeout_ms=-60_000) == 0  # ours keeps it
    with metastore.database.write() as conn:  # Hive's does not
        conn.execute(t.TXN_TO_WRITE_ID.delete().where(t.TXN_TO_WRITE_ID.c.T2W_TXNID == old))
    valid = metastore.write_ids.valid("default", "t", metastore.transactions.snapshot())
    assert valid.is_valid(WriteId(2))
    assert valid.open == {1}


def test_mappings_of_open_and_aborted_transactions_stay(metastore: Metastore) -> None:
    a, b = writer(metastore), writer(metastore)
    metastore.transactions.abort(b, "x")
    metastore.transactions.commit(a)
    c = writer(metastore)
    metastore.transactions.commit(c)
    assert metastore.housekeeping.purge_write_ids(open_txn_timeout_ms=-60_000) == 1
    assert metastore.write_ids.transactions("default", "t") == {2: b, 3: c}


def test_write_set_goes_when_nobody_can_conflict(metastore: Metastore) -> None:
    [oldest] = metastore.transactions.open("u", "h")
    metastore.transactions.commit(writer(metastore, "d"))
    assert metastore.housekeeping.purge_write_set(open_txn_timeout_ms=-60_000) == 0
    metastore.transactions.commit(oldest)
    assert metastore.housekeeping.purge_write_set(open_txn_timeout_ms=-60_000) == 1


def test_components_are_one_of_three_operations(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    with pytest.raises(Refused, match="'x'"):
        metastore.write_ids.add_component(txn, T, "x", WriteId(1))


def test_types_of_a_newer_hive_count_as_writing(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    with metastore.database.write() as conn:
        conn.execute(t.TXNS.update().where(t.TXNS.c.TXN_ID == txn).values(TXN_TYPE=42))
    assert metastore.transactions.snapshot().open == {txn}
    assert [found.type for found in metastore.transactions.open_transactions()] == [TxnType.DEFAULT]
