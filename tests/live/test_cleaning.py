"""Each side's cleaner over what the other side compacted, aborted or emptied, and over what somebody still reads."""

from __future__ import annotations

import pytest

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from tests.support.beside import TRANSACTIONAL, Beside, Meanwhile

HOSTILE, STORED, TWICE = "q='x'/y", "p=q%3D%27x%27%2Fy", "p=q%253D%2527x%2527%252Fy"


@pytest.mark.parametrize("cleaner", ["hive", "ours"])
def test_one_cleans_what_the_other_compacted(beside: Beside, cleaner: str) -> None:
    """PROTOCOL 7: exactly what the newest snapshot reads is left; the history keeps the compaction's own numbers; and
    of the writes nothing is left as a reason to compact, under whichever form of the partition's name.
    """
    name = f"cleaned_by_{cleaner}"
    where = f"partition (p='{HOSTILE}')".replace("'x'", "\\'x\\'")
    beside.hive.sql(f"create table {name} (a int, b string) partitioned by (p string) {TRANSACTIONAL}")
    for key in (1, 2):
        beside.hive.sql(f"insert into {name} {where} values ({key}, 'row {key}')")
    beside.hive.sql(f"update {name} set b = 'changed' where a = 1")
    assert _recorded(beside, name) == {STORED, TWICE}
    before = beside.rows(name)
    if cleaner == "hive":
        beside.compact(name, "major", STORED)
    else:
        beside.hive_compact(name, "major", where.removeprefix("partition (").removesuffix(")"))
    [ready] = beside.queue(State.READY_FOR_CLEANING)
    base = f"base_0000003_v{ready.txn_id:07d}"
    assert len(beside.names(name, STORED)) == 5
    if cleaner == "hive":
        beside.hive_clean()
    else:
        assert [done["table"] for done in beside.clean()["cleaned"]] == [str(ready.entity)]
    assert beside.names(name, STORED) == [base]
    assert beside.rows(name) == before
    [ended] = beside.history(name, STORED)
    assert ended.state is State.SUCCEEDED
    for number in ("txn_id", "next_txn_id", "highest_write_id", "commit_time", "run_as", "start"):
        assert getattr(ended, number) == getattr(ready, number), number
        assert getattr(ended, number) is not None, number
    # Hive never forgets what it recorded under the name that it escaped twice
    assert _recorded(beside, name) == ({TWICE} if cleaner == "hive" else set())


def _recorded(beside: Beside, table: str) -> set[str]:
    found = beside.sql(f'SELECT "CTC_PARTITION" FROM "COMPLETED_TXN_COMPONENTS" WHERE "CTC_TABLE" = \'{table}\'')
    return {partition for (partition,) in found}


def test_a_reader_of_hive_keeps_what_it_reads(beside: Beside) -> None:
    """PROTOCOL 7: a transaction that Hive opened before our compaction holds back both cleaners until it ends."""
    name = "read_by_hive"
    beside.two_rows(name)
    [reader] = beside.hive.do("open", session="reader")
    beside.compact(name, "major")
    old = [directory for directory in beside.names(name) if "_v" not in directory]
    passed = beside.clean()
    assert passed["cleaned"] == []
    [waiting] = [waiting for waiting in passed["waiting"] if waiting["table"] == f"default.{name}"]
    assert [blocker["txnid"] for blocker in waiting["blockers"]] == [int(reader)]
    beside.hive_clean()
    assert [directory for directory in beside.names(name) if "_v" not in directory] == old
    beside.hive.do("commit", session="reader", txn=int(reader))
    assert [done["table"] for done in beside.clean()["cleaned"]] == [f"default.{name}"]
    assert len(beside.names(name)) == 1


def test_a_reader_of_ours_keeps_what_it_reads(beside: Beside) -> None:
    """PROTOCOL 7.5: Hive's cleaner heeds our transaction by its row in MIN_HISTORY_LEVEL."""
    name = "read_by_us"
    beside.two_rows(name)
    [reader] = beside.site.metastore.transactions.open("ada", beside.site.host)
    beside.hive_compact(name, "major")
    before = beside.names(name)
    beside.hive_clean()
    assert beside.names(name) == before
    beside.site.metastore.transactions.commit(reader)
    beside.hive_clean()
    assert len(beside.names(name)) == 1
    assert beside.queue() == []


def test_a_reader_that_came_while_we_compacted_keeps_what_it_reads(beside: Beside) -> None:
    """PROTOCOL 7.5: opened after the compaction's transaction and before its commit, when the stamp alone says that
    nobody needs the old directories; Hive's cleaner sees the reader by its row in MIN_HISTORY_LEVEL.
    """
    name = "read_meanwhile"
    beside.two_rows(name)
    beside.ours("--set", "compactor.mode=clean", "compact", f"default.{name}")
    opened: list[str] = []

    run_entries(
        beside.site,
        list_claimable_ids(beside.site),
        Meanwhile(lambda _: opened.extend(beside.hive.do("open", session="reader"))),
    )
    before = beside.names(name)
    beside.hive_clean()
    assert beside.clean()["cleaned"] == []
    assert beside.names(name) == before
    beside.hive.do("commit", session="reader", txn=int(opened[0]))
    beside.hive_clean()
    assert len(beside.names(name)) == 1


@pytest.mark.parametrize("cleaner", ["hive", "ours", "ours_at_once"])
def test_what_hive_aborted(beside: Beside, cleaner: str) -> None:
    """PROTOCOL 8: rows of an aborted transaction are never seen; a compaction leaves them out, a cleaner removes them."""
    name = f"aborted_{cleaner}"
    beside.two_rows(name)
    for key, value in (("hive.in.test", "true"), ("hive.test.rollbacktxn", "true")):
        beside.hive.set(key, value, session="aborting")
    beside.hive.sql(f"insert into {name} values (3, 'never')", session="aborting")
    beside.hive.sql(f"insert into {name} values (4, 'row 4')")
    wanted = ["1\trow 1", "2\trow 2", "4\trow 4"]
    beside.rows(name, wanted)
    assert [done["fate"] for done in beside.compact(name, "major")] == ["compacted"]
    beside.rows(name, wanted)
    assert "delta_0000003_0000003_0000" in beside.names(name)
    if cleaner == "hive":
        beside.hive_clean()
    else:
        assert beside.clean(grace="1h" if cleaner == "ours" else "0s")["failed"] == []
    base, *left = sorted(beside.names(name))
    assert base.startswith("base_0000004_v")
    beside.rows(name, wanted)
    aborted = beside.sql(f'SELECT "TC_TXNID" FROM "TXN_COMPONENTS" WHERE "TC_TABLE" = \'{name}\'')
    if cleaner == "ours":  # PROTOCOL 11.7: a grace time later
        assert (left, len(aborted)) == (["delta_0000003_0000003_0000"], 1)
    else:
        assert (left, aborted) == ([], [])


def test_what_hive_emptied_and_overwrote(beside: Beside) -> None:
    """A base by TRUNCATE and one by INSERT OVERWRITE are bases for our compaction and our cleaner."""
    name = "emptied"
    beside.two_rows(name)
    beside.hive.sql(f"truncate table {name}")
    beside.rows(name, [])
    beside.hive.sql(f"insert into {name} values (3, 'row 3')")
    beside.compact(name, "major")
    beside.rows(name, ["3\trow 3"])
    assert beside.clean()["failed"] == []
    assert [directory[:12] for directory in beside.names(name)] == ["base_0000004"]
    beside.hive.sql(f"insert overwrite table {name} select 5, 'row 5'")
    for key in (6, 7):
        beside.hive.sql(f"insert into {name} values ({key}, 'row {key}')")
    wanted = ["5\trow 5", "6\trow 6", "7\trow 7"]
    beside.rows(name, wanted)
    assert [done["fate"] for done in beside.compact(name, "minor")] == ["compacted"]
    beside.rows(name, wanted)
    beside.hive_clean()
    # what Hive overwrote with is a base without a visibility, and stays one beside our delta
    assert [directory[:21] for directory in beside.names(name)] == ["base_0000005", "delta_0000006_0000007"]
    beside.rows(name, wanted)
