"""Requests of one side are requests to the other."""

from __future__ import annotations

import pytest

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.worker.ending import Result
from tests.support.beside import Beside, Meanwhile
from tests.support.live_hive import HiveError


def _request(beside: Beside, name: str, *more: str) -> int:
    [asked] = beside.ours("--set", "compactor.mode=request", "compact", f"default.{name}", *more)
    return int(asked["compaction"])


def test_ours_refuses_hives_and_hives_refuses_ours(beside: Beside) -> None:
    beside.two_rows("asked_twice")
    number = _request(beside, "asked_twice")
    with pytest.raises(HiveError, match=f"already scheduled.*id={number}|id {number}"):
        beside.hive_request("asked_twice", "minor")
    assert beside.shown_compaction(number)["State"] == "initiated"
    beside.hive.sql(f"abort compactions {number}")
    [ended] = beside.history("asked_twice")
    assert (ended.id, ended.state) == (number, State.ABORTED)
    assert beside.queue() == []
    beside.hive_request("asked_twice", "minor")
    [theirs] = beside.queue()
    beside.ours("--set", "compactor.mode=request", "compact", "default.asked_twice", code=3)
    beside.ours("--set", "compactor.mode=request", "abort", "compaction", str(theirs.id))
    assert beside.shown_compaction(theirs.id)["State"] == "aborted"


def test_hive_shows_our_compaction_in_every_state(beside: Beside) -> None:
    beside.two_rows("shown")
    number = _request(beside, "shown", "--type", "minor")
    row = beside.shown_compaction(number)
    assert (row["Table"], row["Type"], row["State"], row["Worker host"]) == ("shown", "MINOR", "initiated", "---")
    working: list[dict[str, str]] = []
    looking = Meanwhile(lambda check: working.append(beside.shown_compaction(number)))
    [done] = run_entries(beside.site, list_claimable_ids(beside.site), looking).outcomes
    assert done.result is Result.COMPACTED
    [row] = working
    assert row["State"] == "working"
    assert f"{row['Worker host']}-{row['Worker']}".startswith("compactor-")
    assert row["TxnId"] == str(done.txn)
    row = beside.shown_compaction(number)
    assert row["State"] == "ready for cleaning"
    assert int(row["Next TxnId"]) >= int(row["TxnId"]) == done.txn
    assert int(row["Commit Time"]) > 0
    assert beside.clean()["failed"] == []
    assert beside.shown_compaction(number)["State"] == "succeeded"


def test_hive_compacts_what_we_ask_for_and_we_what_hive_asks_for(beside: Beside) -> None:
    """In mode request Hive's worker does it; an entry of a pool is for that pool's workers, whoever asked."""
    for name in ("for_hive", "for_us", "pooled"):
        beside.two_rows(name)
    number = _request(beside, "for_hive")
    beside.hive_work()
    [done] = beside.queue(State.READY_FOR_CLEANING)
    assert (done.id, done.worker_version) == (number, beside.hive.release.in_queue)
    beside.hive_request("for_us", "major")
    [outcome] = beside.work()
    assert (outcome["table"], outcome["fate"]) == ("default.for_us", "compacted")
    pooled = _request(beside, "pooled", "--pool", "p1")
    beside.hive.do("worker", session="roles")
    assert [entry.id for entry in beside.queue(State.INITIATED)] == [pooled]
    assert beside.shown_compaction(pooled)["Pool name"] == "p1"
    beside.ours("--set", "compactor.mode=clean", "run", "worker", "--once", "--in-process", "--pool", "p1")
    beside.hive_clean()
    assert beside.queue() == []
    for name in ("for_hive", "for_us", "pooled"):
        assert [entry.state for entry in beside.history(name)] == [State.SUCCEEDED]
        beside.rows(name, ["1\trow 1", "2\trow 2"])
        assert [directory[:12] for directory in beside.names(name)] == ["base_0000002"]


def test_hives_initiator_and_ours_ask_once(beside: Beside) -> None:
    """Two initiators over the same table leave one request, whichever comes first."""
    name = "due"
    properties = "'transactional'='true', 'compactorthreshold.hive.compactor.delta.num.threshold'='1'"
    beside.hive.sql(f"create table {name} (a int, b string) stored as orc tblproperties({properties})")
    for key in range(1, 4):
        beside.hive.sql(f"insert into {name} values ({key}, 'row {key}')")
    beside.ours("--set", "compactor.mode=clean", "run", "initiator", "--once")
    [ours] = [entry for entry in beside.queue() if entry.entity.table == name]
    beside.hive.do("initiator", session="roles")
    assert [entry.id for entry in beside.queue() if entry.entity.table == name] == [ours.id]
    beside.hive_work()
    beside.hive_clean()
    for key in range(4, 7):
        beside.hive.sql(f"insert into {name} values ({key}, 'row {key}')")
    beside.hive.do("initiator", session="roles")
    [theirs] = [entry for entry in beside.queue() if entry.entity.table == name]
    assert theirs.initiator_version == beside.hive.release.in_queue
    beside.ours("--set", "compactor.mode=clean", "run", "initiator", "--once")
    assert [entry.id for entry in beside.queue() if entry.entity.table == name] == [theirs.id]
    assert "compacted" in [done["fate"] for done in beside.work()]
    beside.clean()
    beside.rows(name, [f"{key}\trow {key}" for key in range(1, 7)])
