"""Locks of one side block the other's, and each side shows both."""

from __future__ import annotations

from concurrent.futures import Future

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.locks.lock_rows import LockState
from compactor.worker.ending import Result
from tests.support.beside import TRANSACTIONAL, Beside, Meanwhile, entity
from tests.support.patience import PATIENCE, until


def test_our_compaction_waits_for_an_exclusive_lock_of_hive(beside: Beside) -> None:
    """PROTOCOL 3.2, 5: not granted at once means put back, without a row that others would queue behind."""
    name = "locked_by_hive"
    beside.two_rows(name)
    txn, lock = beside.lock_exclusively(name)
    [shown] = beside.ours("show", "locks", f"default.{name}")
    assert (shown["lockid"], shown["lock_state"], shown["transaction_id"]) == (f"{lock}.1", "ACQUIRED", txn)
    [done] = beside.compact(name, "major")
    assert done["fate"] == "waiting"
    [own] = beside.site.metastore.transactions.open("ada", "here")
    wanted = LockRequest(database="default", table=name, type=LockType.EXCLUSIVE)
    asked = beside.site.metastore.locks.acquire(own, [wanted], "ada", "here")
    assert asked.state is LockState.WAITING
    assert [row.id for row in asked.blockers] == [lock]
    beside.hive.do("commit", txn=txn)
    assert beside.site.metastore.locks.check(asked.id).is_acquired
    beside.site.metastore.transactions.commit(own)
    assert [done["fate"] for done in beside.work()] == ["compacted"]
    assert beside.clean()["failed"] == []


def test_a_statement_of_hive_waits_for_our_exclusive_lock_on_a_partition(beside: Beside) -> None:
    """PROTOCOL 9: the lock has both forms of the partition's name, of which Hive's statement asks for one."""
    name, where = "locked_by_us", "partition (p='50%')"
    beside.hive.sql(f"create table {name} (a int) partitioned by (p string) {TRANSACTIONAL}")
    beside.hive.sql(f"insert into {name} {where} values (1)")
    [own] = beside.site.metastore.transactions.open("ada", "here")
    wanted = LockRequest(database="default", table=name, partition="p=50%25", type=LockType.EXCLUSIVE)
    lock = beside.site.metastore.locks.acquire(own, [wanted], "ada", "here")
    assert lock.is_acquired
    inserting = beside.later(f"insert into {name} {where} values (2)", session="waiting")
    until(
        "it waits",
        lambda: any(row.state is LockState.WAITING for row in beside.site.metastore.locks.show("default", name)),
    )
    states = {(row["Lock ID"].split(".")[0], row["State"]) for row in beside.shown(f"locks {name}")}
    assert (str(lock.id), "ACQUIRED") in states
    assert "WAITING" in {state for _, state in states}
    [waiting] = [row for row in beside.ours("show", "locks", f"default.{name}") if row["lock_state"] == "WAITING"]
    assert waiting["blocked_by"].split(".")[0] == str(lock.id)
    assert waiting["partition"] in ("p=50%25", "p=50%2525")
    assert not inserting.done()
    beside.site.metastore.transactions.commit(own)
    inserting.result(PATIENCE)
    beside.rows(name, ["1\t50%", "2\t50%"])


def test_shared_locks_show_on_both_sides(beside: Beside) -> None:
    name = "shared"
    beside.two_rows(name)
    [txn] = beside.hive.do("open")
    lock, _ = beside.hive.do("lock", txn=int(txn), type="SHARED_READ", database="default", table=name)
    [shown] = beside.ours("show", "locks", f"default.{name}")
    assert (shown["lockid"].split(".")[0], shown["lock_type"]) == (lock, "SHARED_READ")
    beside.hive.do("commit", txn=int(txn))
    beside.ours("--set", "compactor.mode=clean", "compact", f"default.{name}")
    seen: list[dict[str, str]] = []
    compacting = Meanwhile(lambda check: seen.extend(beside.shown(f"locks {name}")))
    [done] = run_entries(beside.site, list_claimable_ids(beside.site), compacting).outcomes
    assert done.result is Result.COMPACTED
    [row] = seen
    assert (row["Table"], row["State"], row["Type"]) == (name, "ACQUIRED", "SHARED_READ")
    assert row["Transaction ID"] == str(done.txn)
    assert beside.clean()["failed"] == []


def test_a_drop_of_hive_goes_before_our_compaction(beside: Beside) -> None:
    """PROTOCOL 3.2: it yields to who waits exclusively. Hive's DROP takes the request along with the table."""
    name = "dropped"
    beside.two_rows(name)
    beside.ours("--set", "compactor.mode=clean", "compact", f"default.{name}")
    dropping: list[Future[list[str]]] = []

    def drop(check: object) -> None:
        dropping.append(beside.later(f"drop table {name}", session="dropping"))
        until("it waits", lambda: beside.site.metastore.locks.awaited_exclusively([entity(name)]))

    folder = beside.directory(name)
    [done] = run_entries(beside.site, list_claimable_ids(beside.site), Meanwhile(drop)).outcomes
    assert done.result is Result.WAITING
    assert "yields" in done.message
    dropping[0].result(PATIENCE)
    assert not folder.exists()
    assert beside.work() == []


def test_a_table_that_hive_drops_under_our_compaction(beside: Beside) -> None:
    """PROTOCOL 5: without any lock (a client of the metastore alone), the check before naming finds it gone."""
    name = "torn_away"
    beside.two_rows(name)
    beside.ours("--set", "compactor.mode=clean", "compact", f"default.{name}")
    folder = beside.directory(name)
    tearing = Meanwhile(lambda check: beside.hive.do("drop", session="dropping", database="default", table=name))
    [done] = run_entries(beside.site, list_claimable_ids(beside.site), tearing).outcomes
    assert done.result is Result.LOST
    assert f"default.{name} was dropped" in done.message
    assert beside.history(name) == []  # Hive takes a table's requests and their history along with it
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert beside.work() == []
