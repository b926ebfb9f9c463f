"""Differences on Hive 3.1's schema: what it has no columns for is kept in our state, and never decides alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, select

from compactor.acid.directory import acid_directory
from compactor.acid.write_ids import ValidTxnList
from compactor.answers.explain import explain
from compactor.answers.explain_locks import explain_locks
from compactor.answers.preview import preview
from compactor.answers.show_compactions import show_compactions
from compactor.base.errors import LostClaim, NotEnoughHistory, NotSupported, Refused, StorageError
from compactor.base.ids import TxnId, WriteId
from compactor.cleaner.blockers import blocked_entries, blockers_of
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType, State
from compactor.doctor.checks import doctor
from compactor.housekeeper.housekeeper import keep_house
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.catalog.values import Table as CatalogTable
from compactor.metastore.locks.lock_rows import NO_TXN
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema import tables as t
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.restore import restore
from compactor.settings.precedence import Settings
from compactor.site import lost_workers
from compactor.site.finding import Level
from compactor.site.site import Site
from compactor.state.state_database import OwnState
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from demo.snapshot_reader import read_snapshot
from tests.support.aborted import aborted_of
from tests.support.candidates import candidates_of
from tests.support.committing import committing
from tests.support.passes import Renames, compact, with_storage
from tests.support.tables import delete, insert, make_table, with_settings
from tests.support.watching import names_in

pytestmark = pytest.mark.usefixtures("hive3")

T = Entity(database="default", table="t")


def queued(metastore: Metastore, state: State = State.INITIATED) -> Entry:
    """Inserts a row as Hive 3.1 writes it."""
    row = {"CQ_ID": 7, "CQ_DATABASE": "default", "CQ_TABLE": "t", "CQ_STATE": state.value, "CQ_TYPE": "a"}
    with metastore.database.write() as conn:
        conn.execute(t.COMPACTION_QUEUE.insert().values(metastore.dialect.row(t.COMPACTION_QUEUE, row)))
    return metastore.entries.get(7)


def commit(metastore: Metastore, entry: Entry) -> None:
    with committing(metastore, entry, "compactor-1", TxnId(1), table_id=1, partition_id=None, location="/t"):
        pytest.fail("nothing may be named there")


#: All calls that change the queue or its history.
ACTS: list[Callable[[Metastore, Entry], Any]] = [
    lambda m, e: m.requests.request(Request(entity=T, type=CompactionType.MAJOR, initiator="compactor-1")),
    lambda m, e: m.claims.abort_request(e.id),
    lambda m, e: m.requests.did_not_initiate(T, "why"),
    lambda m, e: m.claims.claim("compactor-1", "test", pool_timeout_ms=0),
    lambda m, e: m.claims.record(e, "compactor-1", TxnId(1), None, WriteId(1)),
    commit,
    lambda m, e: m.claims.requeue(e.id, "compactor-1"),
    lambda m, e: m.claims.finish(e, State.FAILED, "why"),
    lambda m, e: m.cleaning.take([e], 0),
    lambda m, e: m.cleaning.back_off(e, 1, None),
    lambda m, e: m.cleaning.mark_cleaned(e, [], all_below=True),
]


@pytest.fixture
def stateless(url: str) -> Iterator[Metastore]:
    """The same metastore where there is no state of ours."""
    opened = open_metastore("default", url)
    yield opened
    opened.close()


@pytest.mark.parametrize("act", ACTS)
def test_without_our_state_nothing_changes(
    act: Callable[[Metastore, Entry], Any], metastore: Metastore, stateless: Metastore
) -> None:
    """A fact that the schema lacks has to be kept before it is needed; where it cannot, the queue is read only."""
    entry = queued(metastore, State.READY_FOR_CLEANING if act in ACTS[-3:] else State.WORKING)
    with pytest.raises(NotSupported, match=r"schema 3\.1\.0 has no columns .* set state_url"):
        act(stateless, entry)
    assert stateless.entries.get(7) == metastore.entries.get(7) == entry


def test_an_observer_needs_no_state(metastore: Metastore, url: str) -> None:
    queued(metastore)
    observer = open_metastore("default", url, read_only=True)
    assert observer.schema_version == "3.1.0"
    assert "default" in observer.catalog.databases()
    assert [entry.id for entry in observer.entries.queue()] == [7]
    observer.close()


def select_rows(metastore: Metastore, table: Table) -> list[dict[str, Any]]:
    with metastore.database.read() as conn:
        return [{k: v for k, v in row.items() if v is not None} for row in conn.execute(select(table)).mappings()]


def worked(metastore: Metastore, type: CompactionType = CompactionType.MAJOR) -> tuple[Entry, TxnId, dict[str, Any]]:
    """An entry that is recorded and about to commit, and where it is."""
    table = metastore.embedded_catalog.create_table(NewTable("default", "t", "/t", [Column(name="a", type="int")]))
    [writer] = metastore.transactions.open("u", "h")
    write_id = metastore.write_ids.allocate(writer, "default", "t")
    metastore.write_ids.add_component(writer, T, "i", write_id)
    metastore.transactions.commit(writer)
    metastore.requests.request(Request(entity=T, type=type, initiator="compactor-1", pool="p"))
    entry = metastore.claims.claim("compactor-1", "test", pool="p", pool_timeout_ms=0)
    assert entry is not None
    [txn] = metastore.transactions.open("u", "h", type=TxnType.COMPACTION, agent="compactor-1")
    entry = metastore.claims.record(entry, "compactor-1", txn, "me", write_id)
    return entry, txn, {"table_id": table.id, "partition_id": None, "location": table.location}


def test_the_rows_are_those_that_hive_3_writes(metastore: Metastore) -> None:
    """No component of the compaction: Hive 3.1 would count it as a write when it aborts, and copy it when it commits."""
    entry, txn, place = worked(metastore)
    assert select_rows(metastore, t.TXN_COMPONENTS) == []
    with committing(metastore, entry, "compactor-1", txn, **place):
        pass
    [row] = select_rows(metastore, t.COMPACTION_QUEUE)
    assert row.pop("CQ_START") == entry.start
    assert row == {
        "CQ_ID": entry.id,
        "CQ_DATABASE": "default",
        "CQ_TABLE": "t",
        "CQ_STATE": "r",
        "CQ_TYPE": "a",
        "CQ_RUN_AS": "me",
        "CQ_HIGHEST_WRITE_ID": 1,
    }
    assert [row["CTC_TXNID"] for row in select_rows(metastore, t.COMPLETED_TXN_COMPONENTS)] == [1]
    assert metastore.transactions.open_transactions() == []
    ready = metastore.entries.get(entry.id)
    assert (ready.txn_id, ready.next_txn_id, ready.pool) == (txn, txn, "p")


def test_a_commit_whose_stamps_were_not_kept_is_a_commit(metastore: Metastore, state: OwnState) -> None:
    """PROTOCOL 5: our state and the row are not committed together; here the process died between the two."""
    entry, txn, place = worked(metastore)
    with committing(metastore, entry, "compactor-1", txn, **place):
        pass
    state.kept_columns("default").put({entry.id: {"NEXT_TXN_ID": None, "COMMIT_TIME": None}})
    ready = metastore.entries.get(entry.id)
    assert (ready.state, ready.next_txn_id) == (State.READY_FOR_CLEANING, None)
    assert metastore.commits.txn_state(ready) == "c"
    assert metastore.commits.committed(entry, txn)


def test_a_transaction_that_was_kept_and_not_recorded_is_not_ours(metastore: Metastore, state: OwnState) -> None:
    """Our state may be ahead of the row; the row's worker and TXNS decide who may commit."""
    entry, _, place = worked(metastore)
    [other] = metastore.transactions.open("u", "h")
    state.kept_columns("default").put({entry.id: {"TXN_ID": other}})
    with (
        pytest.raises(LostClaim),
        committing(metastore, entry, "compactor-2", other, **place),
    ):
        pytest.fail("nothing may be named there")
    metastore.transactions.abort(other, "x")
    assert metastore.claims.requeue(entry.id, "compactor-1")
    assert metastore.entries.get(entry.id).txn_id is None


def test_a_row_of_a_number_drawn_again_has_nothing_of_the_first(metastore: Metastore, state: OwnState) -> None:
    state.kept_columns("default").put({1: {"POOL_NAME": "of a request that was not entered", "TXN_ID": 5}})
    entry_id = metastore.requests.request(Request(entity=T, type=CompactionType.MAJOR, initiator="compactor-1"))
    entry = metastore.entries.get(entry_id)
    assert (entry.id, entry.pool, entry.txn_id) == (1, None, None)


@pytest.mark.parametrize(("ended", "code"), [(State.REFUSED, "a"), (State.FAILED, "f")])
def test_the_history_has_states_that_hive_3_can_show(ended: State, code: str, metastore: Metastore) -> None:
    entry, txn, _ = worked(metastore)
    metastore.transactions.abort(txn, "x")
    metastore.claims.finish(entry, ended, "why")
    assert [row["CC_STATE"] for row in select_rows(metastore, t.COMPLETED_COMPACTIONS)] == [code]
    [past] = metastore.entries.history(T)
    assert (past.state, past.error, past.pool, past.txn_id) == (ended, "why", "p", txn)


@pytest.mark.parametrize("type", [CompactionType.REBALANCE, CompactionType.ABORT_CLEANUP])
def test_types_that_hive_3_cannot_show_are_refused(type: CompactionType, metastore: Metastore) -> None:
    with pytest.raises(Refused, match=r"Hive 3\.1 does not know"):
        metastore.requests.request(Request(entity=T, type=type, initiator="compactor-1"))
    assert metastore.entries.queue() == []


def cleaned(site: Site) -> list[str | None]:
    """Returns why the only entry waits, or None if it was cleaned."""
    passed = clean(site)
    assert passed.failed == passed.ended == ()
    return [*(w.because for w in passed.waiting), *(None for _ in passed.cleaned)]


@pytest.fixture
def site(metastore: Metastore, state: OwnState) -> Site:
    bare = Site.here("default", metastore, state, LocalStorage(), Settings.of())
    return with_settings(bare, hive_txn_opentxn_timeout="1ms", compactor_mode="clean")


def test_readers_at_first_sight_hold_the_cleaner(site: Site, tmp_path: Path) -> None:
    """PROTOCOL 7.1: hierarchical lock conflicts and the transactions open when first seen; later ones don't count."""
    table = make_table(site, tmp_path)
    for value in (1, 2):
        insert(site, table, [value])
    metastore, read = site.metastore, LockType.SHARED_READ
    elsewhere = LockRequest(database="default", table="other", type=read)
    here = LockRequest(database="default", table="t", type=read)
    below = LockRequest(database="default", table="t", partition="p=1", type=read)
    [other] = metastore.transactions.open("u", "h")
    compact(site, "major")
    assert "may still read" in (cleaned(site)[0] or "")
    metastore.transactions.commit(other)
    metastore.locks.acquire(NO_TXN, [elsewhere], "u", "h")
    assert cleaned(site) == [None]
    insert(site, table, [3])
    compact(site, "major")
    early = metastore.locks.acquire(NO_TXN, [below], "u", "h")
    assert "was there when the entry was first seen" in (cleaned(site)[0] or "")
    late = metastore.locks.acquire(NO_TXN, [here], "u", "h")
    assert "was there" in (cleaned(site)[0] or "")
    metastore.locks.release(early.id)
    assert cleaned(site) == [None]
    metastore.locks.release(late.id)
    assert names_in(tmp_path / "t") == {"base_0000003"}


def test_an_entry_of_hives_own_worker_is_cleaned(site: Site, tmp_path: Path) -> None:
    """It names no transaction and has no stamp: what is open at first sight counts."""
    table = make_table(site, tmp_path)
    for value in (1, 2):
        insert(site, table, [value])
    compact(site, "major")
    with site.metastore.database.write() as conn:
        conn.execute(t.COMPACTION_QUEUE.delete())
        row = {"CQ_DATABASE": "default", "CQ_TABLE": "t", "CQ_STATE": "r", "CQ_TYPE": "a", "CQ_HIGHEST_WRITE_ID": 2}
        conn.execute(t.COMPACTION_QUEUE.insert().values(CQ_ID=70, **row))
    [reader] = site.metastore.transactions.open("u", "h")
    assert "may still read" in (cleaned(site)[0] or "")
    site.metastore.transactions.commit(reader)
    site.metastore.transactions.open("u", "h")
    assert cleaned(site) == [None]
    assert names_in(tmp_path / "t") == {"base_0000002"}


def shown(site: Site, table: CatalogTable, txns: ValidTxnList) -> list[int]:
    """Returns the values of ``a`` that a reader with this snapshot sees; every directory is visible to it."""
    target, write_ids = site.target(T), site.write_ids(table, txns)
    directory = acid_directory(site.storage.listing(target.location), write_ids, txns)
    found = read_snapshot(target.location, directory, write_ids, target.row_type)
    return sorted(value for batch in found for value in batch["a"].to_pylist())


def test_a_minor_of_inserts_stays_a_minor_and_older_snapshots_see_what_they_saw(site: Site, tmp_path: Path) -> None:
    table = make_table(site, tmp_path)
    insert(site, table, [1])
    insert(site, table, [2])
    early = site.metastore.transactions.snapshot()
    insert(site, table, [3])
    outcome = compact(site, "minor")
    assert (outcome.output, outcome.message) == (("delta_0000001_0000003",), "")
    assert shown(site, table, early) == [1, 2]
    assert shown(site, table, site.metastore.transactions.snapshot()) == [1, 2, 3]
    assert cleaned(site) == [None]
    assert names_in(tmp_path / "t") == {"delta_0000001_0000003"}


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_compaction_is_undone_there_too(site: Site, tmp_path: Path, kind: str) -> None:
    """PROTOCOL 11.15: no name has a transaction; the manifest says what was made."""
    site = with_settings(site, hive_txn_opentxn_timeout="1ms", compactor_mode="clean", compactor_quarantine="7d")
    table = make_table(site, tmp_path)
    for value in (1, 2, 3):
        insert(site, table, [value])
    before = {path.name for path in (tmp_path / "t").iterdir()}
    compact(site, kind)
    assert cleaned(site) == [None]
    restore(site, "default.t", None, 1, "ann")
    assert names_in(tmp_path / "t") == before | {".compactor_quarantine_1"}
    assert shown(site, table, site.metastore.transactions.snapshot()) == [1, 2, 3]
    assert site.metastore.locks.show() == []


def test_a_minor_that_applies_deletes_becomes_a_major(site: Site, tmp_path: Path) -> None:
    """A snapshot from before the delete would miss the row in a delta; a base it leaves alone."""
    table = make_table(site, tmp_path)
    insert(site, table, [1, 2])
    insert(site, table, [3])
    early = site.metastore.transactions.snapshot()
    delete(site, table, [2])
    outcome = compact(site, "minor")
    assert outcome.output == ("base_0000003",)
    assert "minor became major: Hive 3.1 would miss rows" in outcome.message
    with pytest.raises(NotEnoughHistory):
        shown(site, table, early)
    assert shown(site, table, site.metastore.transactions.snapshot()) == [1, 3]


def test_a_minor_that_is_a_pair_becomes_a_major(site: Site, tmp_path: Path) -> None:
    """PROTOCOL 5: no reader ever meets half of a pair; here not even after its worker died between the two names."""
    table = make_table(site, tmp_path)
    insert(site, table, [1, 2])
    insert(site, table, [3])
    compact(site, "major")
    assert cleaned(site) == [None]
    insert(site, table, [4])
    insert(site, table, [5])
    early = site.metastore.transactions.snapshot()
    delete(site, table, [2])
    outcome = compact(site, "minor")
    assert outcome.output == ("base_0000005",)
    assert "minor became major: Hive 3.1 would show one half of its pair" in outcome.message
    assert shown(site, table, early) == [1, 2, 3, 4, 5]
    assert shown(site, table, site.metastore.transactions.snapshot()) == [1, 3, 4, 5]


def test_a_name_that_hive_3_fails_on_is_refused_and_left_alone(site: Site, tmp_path: Path) -> None:
    """A number in a name is not one of this metastore's transactions, so nothing follows from its being aborted here."""
    table = make_table(site, tmp_path)
    insert(site, table, [1])
    insert(site, table, [2], commits=False)
    insert(site, table, [3])
    insert(site, table, [4])
    compact(site, "major")
    insert(site, table, [5])
    aborted = next(iter(site.metastore.components.aborted_writes(T))).txn
    strange = f"base_0000005_v{aborted:07d}"
    (tmp_path / "t" / strange).mkdir()
    passed = clean(site)
    assert [strange in waiting.because for waiting in passed.failed] == [True]
    outcome = compact(site, "major")
    assert outcome.result is Result.REFUSED
    assert f"{strange} contains a transaction, and Hive 3.1 fails on such a name" in outcome.message
    assert (tmp_path / "t" / strange).is_dir()


def test_a_number_in_a_name_is_nobodys_there(site: Site, tmp_path: Path) -> None:
    """PROTOCOL 5: what is named stays, whichever transaction of this metastore ends."""
    table = make_table(site, tmp_path)
    insert(site, table, [1])
    insert(site, table, [2])
    metastore = site.metastore
    metastore.requests.request(Request(entity=T, type=CompactionType.MAJOR, initiator="compactor-1"))
    entry = metastore.claims.claim("compactor-1", "test", pool_timeout_ms=0)
    assert entry is not None
    [txn] = metastore.transactions.open("u", "h", agent="compactor-1")
    metastore.claims.record(entry, "compactor-1", txn, None, WriteId(2))
    strange = tmp_path / "t" / f"base_0000009_v{txn:07d}"
    strange.mkdir()
    with metastore.database.write() as conn:
        conn.execute(t.TXNS.update().values(TXN_LAST_HEARTBEAT=0))
    lost_workers.repair(site)
    assert metastore.transactions.state(txn) == "a"
    assert strange.is_dir()


def test_what_was_named_before_its_worker_was_lost_is_adopted(site: Site, tmp_path: Path) -> None:
    """PROTOCOL 5, 6: no name says whose it is, so what is named is published; hidden, it could be the only copy."""
    table = make_table(site, tmp_path)
    insert(site, table, [1])
    insert(site, table, [2])

    def lose(source: str, target: str) -> None:
        if target.endswith("base_0000002"):
            [txn] = site.metastore.transactions.open_transactions()
            raise StorageError(f"no answer in the naming by {txn.id}")

    outcome = compact(with_storage(site, Renames(lose)), "major")
    assert outcome.result is Result.FAILED
    assert shown(site, table, site.metastore.transactions.snapshot()) == [1, 2]
    assert "base_0000002" in {path.name for path in (tmp_path / "t").iterdir()}
    again = compact(site, "major")
    assert again.result is Result.CLEAN_ONLY
    assert cleaned(site) == [None]
    assert names_in(tmp_path / "t") == {"base_0000002"}
    assert shown(site, table, site.metastore.transactions.snapshot()) == [1, 2]


def test_the_queue_and_its_history_are_read(metastore: Metastore) -> None:
    ended = {"CC_ID": 6, "CC_DATABASE": "default", "CC_TABLE": "t", "CC_STATE": "s", "CC_TYPE": "i", "CC_END": 5}
    with metastore.database.write() as conn:
        row = metastore.dialect.row(t.COMPLETED_COMPACTIONS, ended)
        conn.execute(t.COMPLETED_COMPACTIONS.insert().values(row))
    entry = queued(metastore)
    assert metastore.entries.queue(states=[State.INITIATED]) == [entry]
    assert (entry.entity, entry.type, entry.state) == (T, CompactionType.MAJOR, State.INITIATED)
    assert (entry.pool, entry.txn_id, entry.commit_time, entry.retry_retention) == (None, None, None, 0)
    [past] = metastore.entries.history(T)
    assert (past.id, past.state, past.end, past.error) == (6, State.SUCCEEDED, 5, None)
    assert metastore.cleaning.ready_for_cleaning(0) == []


def test_candidates_and_aborts_are_read(metastore: Metastore) -> None:
    metastore.embedded_catalog.create_table(NewTable("default", "t", "/t", [Column(name="a", type="int")]))
    committed, aborted = metastore.transactions.open("u", "h", count=2)
    for txn in (committed, aborted):
        metastore.write_ids.add_component(txn, T, "i", metastore.write_ids.allocate(txn, "default", "t"))
    metastore.transactions.commit(committed)
    metastore.transactions.abort(aborted, "rollback")
    assert candidates_of(metastore) == [T]
    assert metastore.components.aborts()[T].count == 1
    assert aborted_of(metastore, T).count == 1


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


def test_what_is_kept_goes_with_the_history(site: Site, state: OwnState) -> None:
    ids = [site.metastore.requests.did_not_initiate(T, str(number)) for number in range(9)]
    kept = state.kept_columns("default")
    assert kept.ids() == set(ids)
    keep_house(site)
    assert kept.ids() == {entry.id for entry in site.metastore.entries.history()} < set(ids)


def test_what_people_are_shown(site: Site, tmp_path: Path) -> None:
    """doctor, explain, show and a dry run on this schema: its names, its columns, and no failure."""
    table = make_table(site, tmp_path)
    insert(site, table, [1, 2])
    insert(site, table, [3])
    [minor] = preview(site, "default.t", type="minor")
    assert minor.outputs == ("delta_0000001_0000002",)
    delete(site, table, [2])
    [minor] = preview(site, "default.t", type="minor")
    assert (minor.outputs, minor.because.partition("; ")[2]) == (
        ("base_0000003",),
        "with deletes in it, it becomes a major on Hive 3.1",
    )
    [reader] = site.metastore.transactions.open("someone", "h")
    outcome = compact(site, "major")
    assert "may still read" in (cleaned(site)[0] or "")
    [row] = show_compactions(site)
    assert (row.state, row.txnid) == ("ready for cleaning", outcome.txn)
    assert [blocker.txn for blocker in blockers_of(site, outcome.entry)] == []
    [blocked] = blocked_entries(site)
    assert [blocker.txn for blocker in blocked.by] == [reader]
    assert str(explain(site, "default.t"))
    strict = with_settings(site, hive_txn_xlock_write="true")  # which Hive 3.1 does not know
    [lock] = explain_locks(strict, "delete from t where a = 1").locks
    assert str(lock) == "default.t -> SHARED_WRITE"
    assert [finding for finding in doctor(site) if finding.level is Level.FAIL] == []
