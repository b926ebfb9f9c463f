"""A live Hive 3.1.3 and Compactor on one PostgreSQL with that release's schema.

What both agree on is told in full beside Hive 4.1; here are the same rules over another schema, other names and other locks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest

from compactor.acid.names import Base, Delta
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.locks.lock_rows import LockState
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.worker.ending import Result
from compactor.worker.under_way import Options
from tests.support.beside import TRANSACTIONAL, Beside, Meanwhile, entity, left_clean, side_by_side
from tests.support.expected import as_hive_shows, difference, step
from tests.support.hive3 import HIVE_3_1
from tests.support.hive_defaults import compared
from tests.support.live_hive import HiveError, placed
from tests.support.patience import PATIENCE, until
from tests.support.registered import register, table_name
from tests.support.stories import KINDS, SESSIONS, Story, begun

#: Of each fixture a state with much in it that is not compacted, and what we make of it.
FIXTURES = {
    "hive-3.1/f1_basic/s10_dml_over_base": "minor",
    "hive-3.1/f2_part/s1_dml": "major",
    "hive-3.1/f3_abort/s1_aborts": "major",
    "hive-3.1/f4_stmtids/s1_merge": "minor",
    "hive-3.1/f5_orig/s2_dml": "major",
    "hive-3.1/f6_types/s1_dml": "major",
    "hive-3.1/g1_nobucket/s3_dml_over_overwrite_base": "major",
    "hive-3.1/g4_stripes/s1_dml": "major",
    "trino-476/t2_part/s3_delete_part_merge": "minor",
    "trino-476/t4_bucket/s3_merge": "major",
}


@pytest.fixture(scope="module")
def both() -> Iterator[Beside]:
    """Both sides, running until this file's tests are done."""
    with placed(HIVE_3_1) as place, side_by_side(*place) as made:
        yield made


@pytest.fixture
def beside(both: Beside) -> Iterator[Beside]:
    with left_clean(both):
        yield both


@pytest.fixture(params=KINDS)
def story(request: pytest.FixtureRequest, beside: Beside) -> Story:
    return begun(beside, request.param)


@pytest.fixture
def tables(beside: Beside, tmp_path: Path) -> dict[str, Table]:
    """The fixtures' tables by their steps."""
    return {name: register(beside.site, step(name), tmp_path, table_name(name)) for name in FIXTURES}


def test_what_one_compacted_the_other_reads_changes_and_compacts_again(story: Story) -> None:
    """PROTOCOL 1, 2: every reader sees the same rows and ROW__IDs, whoever compacted last, and a point predicate too."""
    beside = story.beside
    story.add(1, 2, 3, 4)
    story.add(5, 6)
    story.ours("minor")
    story.check(2)
    beside.hive_clean()
    story.only(Delta)
    story.change(2)
    story.remove(3)
    story.check(3)
    story.ours("minor")  # it applies deletes, so it is a major here
    story.check(2)
    story.merge(5, 6, 9)
    story.theirs("minor")
    story.check(5)
    beside.hive_clean()
    story.add(7)
    story.ours("major")
    story.check(6)
    story.change(7)
    story.theirs("major")
    story.check(7)
    beside.clean_all()
    story.only(Base)
    story.add(8)
    story.remove(1)
    story.ours("major")
    story.check(8)
    beside.hive_clean()
    story.check(1)
    story.only(Base)
    history = beside.history(story.name, story.partition)
    assert {entry.state for entry in history} == {State.SUCCEEDED}
    assert len(history) == 6


def test_fixtures_before_and_after_ours(beside: Beside, tables: Mapping[str, Table]) -> None:
    """PROTOCOL 1, 2: types, originals, statement ids, stripes, partitions, written by Hive 3.1 and by Trino: the rows that
    their writer showed, with their ROW__IDs, before, after and cleaned.
    """

    def shown(session: str) -> dict[str, list[str]]:
        names = [table.name for table in tables.values()]
        return {name: sorted(beside.hive.sql(f"select row__id, * from {name}", session)) for name in names}

    before = {session: shown(session) for session in SESSIONS}
    for name, table in tables.items():
        lines = [line.partition("\t")[2] for line in before["by row"][table.name]]
        assert difference(as_hive_shows(name), lines) == "", name
    for name, table in tables.items():
        request_compaction(beside.site, table=str(table), type=FIXTURES[name])
    options = Options(small_stripe_bytes=1)  # stripes are copied, however small they are
    done = run_entries(beside.site, list_claimable_ids(beside.site), InProcessRunner(), options)
    compacted = {outcome.entry.entity.table for outcome in done.outcomes if outcome.result is Result.COMPACTED}
    assert compacted == {table.name for table in tables.values()}
    # by batch Hive 3.1 shows a list of a single null as null, whoever wrote it: each session is compared with itself
    assert {session: shown(session) for session in SESSIONS} == before
    beside.clean_all()
    assert shown("by batch") == before["by batch"]


def test_insert_only_tables(beside: Beside) -> None:
    name = "only_inserts"
    properties = "'transactional'='true', 'transactional_properties'='insert_only'"
    beside.hive.sql(f"create table {name} (a int, b string) stored as parquet tblproperties({properties})")
    wanted = []
    for key in range(1, 7):
        beside.hive.sql(f"insert into {name} values ({key}, 'row {key}')")
        wanted.append(f"{key}\trow {key}")
        if key in (2, 6):
            assert [done["fate"] for done in beside.compact(name, "major")] == ["compacted"]
        elif key == 4:
            beside.hive_compact(name, "minor")
        for session in ("main", "by row"):
            assert sorted(beside.hive.sql(f"select * from {name}", session)) == wanted
        if key in (2, 4):
            beside.hive_clean()
    assert [done["table"] for done in beside.clean()["cleaned"]] == [f"default.{name}"]
    assert beside.names(name) == ["base_0000006"]
    assert sorted(beside.hive.sql(f"select * from {name}")) == wanted


@pytest.mark.parametrize("cleaner", ["hive", "ours"])
def test_one_cleans_what_the_other_compacted(beside: Beside, cleaner: str) -> None:
    """PROTOCOL 7: exactly what the newest snapshot reads is left, also of an aborted transaction and beside newer writes,
    and nothing that was compacted is left as a reason to compact.
    """
    name = f"cleaned_by_{cleaner}"
    beside.two_rows(name)
    beside.hive.sql(f"insert into {name} values (3, 'never')", session=_aborting(beside))
    beside.hive.sql(f"update {name} set b = 'changed' where a = 1")
    if cleaner == "hive":
        assert [done["fate"] for done in beside.compact(name, "major")] == ["compacted"]
    else:
        beside.hive_compact(name, "major")
    [ready] = beside.queue(State.READY_FOR_CLEANING)
    beside.hive.sql(f"insert into {name} values (5, 'later')")
    before = beside.rows(name, ["1\tchanged", "2\trow 2", "5\tlater"])
    if cleaner == "hive":
        beside.hive_clean()
    else:
        assert [done["table"] for done in beside.clean()["cleaned"]] == [str(ready.entity)]
    assert beside.names(name) == ["base_0000004", "delta_0000005_0000005_0000"]
    assert beside.rows(name) == before
    [ended] = beside.history(name)
    assert ended.state is State.SUCCEEDED
    assert (ended.highest_write_id, ended.run_as, ended.start) == (4, ready.run_as, ready.start)
    left = "SELECT ctc_writeid FROM completed_txn_components WHERE ctc_table = '{0}'"
    assert beside.sql(left.format(name)) == [(5,)]
    assert beside.sql(f"SELECT tc_txnid FROM txn_components WHERE tc_table = '{name}'") == []


def test_partitions_that_hive_records_in_lower_case(beside: Beside) -> None:
    """PROTOCOL 8, 9: a static INSERT into p=US is recorded, and a lock on it taken, as p=us. Hive's initiator takes that for
    a partition that was dropped; ours asks, what was aborted is forgotten, and a DROP finds our lock.
    """
    name, where = "lowered", "partition (p='US')"
    threshold = "'compactorthreshold.hive.compactor.delta.num.threshold'='1'"
    properties = f"'transactional'='true', {threshold}"
    beside.hive.sql(f"create table {name} (a int) partitioned by (p string) stored as orc tblproperties({properties})")
    for key in (1, 2):
        beside.hive.sql(f"insert into {name} {where} values ({key})")
    beside.hive.sql(f"insert into {name} {where} values (3)", session=_aborting(beside))
    beside.hive.sql(f"insert into {name} {where} values (4)")
    assert _recorded(beside, name) == {"p=us"}
    beside.hive.do("initiator", session="roles")
    assert [entry for entry in beside.queue() if entry.entity.table == name] == []
    beside.ours("--set", "compactor.mode=clean", "run", "initiator", "--once")
    [asked] = [entry for entry in beside.queue() if entry.entity.table == name]
    assert asked.entity.partition == "p=US"
    dropping: list[Future[list[str]]] = []

    def drop(check: object) -> None:
        dropping.append(beside.later(f"alter table {name} drop {where}", session="dropping"))
        until("it waits", lambda: beside.site.metastore.locks.awaited_exclusively([asked.entity]))
        assert not dropping[0].done()

    beside.rows(name, ["1\tUS", "2\tUS", "4\tUS"])
    assert (f"default.{name}/p=US", "compacted") in {(done["table"], done["fate"]) for done in beside.work()}
    beside.rows(name, ["1\tUS", "2\tUS", "4\tUS"])
    beside.clean_all()
    assert beside.names(name, "p=US") == ["base_0000004"]
    assert _recorded(beside, name) == set()
    beside.hive.sql(f"insert into {name} {where} values (5)")
    beside.ours("--set", "compactor.mode=clean", "compact", f"default.{name}", "--partition", "p=US")
    [done] = run_entries(beside.site, list_claimable_ids(beside.site), Meanwhile(drop)).outcomes
    assert done.result is Result.WAITING
    dropping[0].result(PATIENCE)
    assert beside.rows(name) == []
    beside.work()


def _recorded(beside: Beside, table: str) -> set[str | None]:
    """The partitions under which writes into the table are recorded, committed and aborted ones."""
    rows = (("ctc", "completed_txn_components"), ("tc", "txn_components"))
    queries = (f"SELECT {prefix}_partition FROM {rows} WHERE {prefix}_table = '{table}'" for prefix, rows in rows)
    return {partition for (partition,) in beside.sql(" UNION ".join(queries))}


def _aborting(beside: Beside) -> str:
    """Returns a session each of whose statements is rolled back."""
    for key, value in (("hive.in.test", "true"), ("hive.test.rollbacktxn", "true")):
        beside.hive.set(key, value, session="aborting")
    return "aborting"


@pytest.mark.parametrize("master", ["hive", "ours"])
def test_a_minor_that_nobody_cleaned_before_a_major(beside: Beside, master: str) -> None:
    """Hive's cleaner asks for a history that the base has ended and marks the minor as failed, whoever made both; the
    major's own row removes everything. Our cleaner finds nothing to complain about."""
    name = f"minor_under_base_of_{master}"

    def both_kinds() -> None:
        for kind in ("minor", "major"):
            for key in (1, 2):
                beside.hive.sql(f"insert into {name} values ({key}, '{kind}')")
            if master == "hive":
                beside.hive_compact(name, kind)
            else:
                assert [done["fate"] for done in beside.compact(name, kind)] == ["compacted"]

    def ended() -> list[tuple[CompactionType, State]]:
        return [(entry.type, entry.state) for entry in beside.history(name)]

    beside.hive.sql(f"create table {name} (a int, b string) {TRANSACTIONAL}")
    both_kinds()
    beside.hive_clean()
    assert beside.names(name) == ["base_0000004"]
    assert ended() == [(CompactionType.MAJOR, State.SUCCEEDED), (CompactionType.MINOR, State.FAILED)]
    both_kinds()
    beside.clean_all()
    assert beside.names(name) == ["base_0000008"]
    assert ended()[:2] == [(CompactionType.MAJOR, State.SUCCEEDED), (CompactionType.MINOR, State.SUCCEEDED)]


def test_what_hive_emptied_and_overwrote(beside: Beside) -> None:
    """TRUNCATE leaves an empty directory here, and INSERT OVERWRITE a base without a note that it was not compacted."""
    name = "emptied"
    beside.two_rows(name)
    beside.hive.sql(f"truncate table {name}")
    assert beside.names(name) == beside.rows(name) == []
    for key in (3, 4):
        beside.hive.sql(f"insert into {name} values ({key}, 'row {key}')")
    assert [done["fate"] for done in beside.compact(name, "major")] == ["compacted"]
    beside.rows(name, ["3\trow 3", "4\trow 4"])
    beside.hive.sql(f"insert overwrite table {name} select 5, 'row 5'")
    for key in (6, 7):
        beside.hive.sql(f"insert into {name} values ({key}, 'row {key}')")
    wanted = ["5\trow 5", "6\trow 6", "7\trow 7"]
    beside.rows(name, wanted)
    beside.clean_all()
    assert [done["fate"] for done in beside.compact(name, "minor")] == ["compacted"]
    beside.rows(name, wanted)
    beside.hive_clean()
    left = beside.names(name)
    assert len(left) == 2
    assert [parsed[:5] for parsed in left] == ["base_", "delta"]
    beside.rows(name, wanted)


def test_an_aborted_insert_overwrite_hides_nothing_from_us(beside: Beside) -> None:
    """PROTOCOL 8: its base stays, and Hive 3.1 cannot read the table any more, until our major and our cleaner mend it."""
    name = "half_overwritten"
    beside.two_rows(name)
    beside.hive.sql(f"insert overwrite table {name} select 9, 'never'", session=_aborting(beside))
    with pytest.raises(HiveError, match="Not enough history available"):
        beside.hive.sql(f"select * from {name}")
    assert beside.names(name)[0] == "base_0000003"
    beside.hive.sql(f"insert into {name} values (4, 'row 4')")
    assert [done["fate"] for done in beside.compact(name, "major")] == ["compacted"]
    beside.rows(name, ["1\trow 1", "2\trow 2", "4\trow 4"])
    assert beside.clean()["failed"] == []
    assert beside.names(name) == ["base_0000004"]
    assert _recorded(beside, name) == set()
    beside.rows(name, ["1\trow 1", "2\trow 2", "4\trow 4"])


def test_a_request_of_one_is_a_request_to_the_other(beside: Beside) -> None:
    """Each refuses a second one, each does the other's, and SHOW COMPACTIONS shows ours in every state."""
    for name in ("for_us", "for_hive"):
        beside.two_rows(name)
    beside.hive_request("for_us", "major")
    [theirs] = beside.queue()
    beside.ours("--set", "compactor.mode=request", "compact", "default.for_us", code=3)
    working: list[dict[str, str]] = []
    looking = Meanwhile(lambda check: working.append(beside.shown_compaction(theirs.id)))
    [done] = run_entries(beside.site, list_claimable_ids(beside.site), looking).outcomes
    assert done.result is Result.COMPACTED
    [row] = working
    assert (row["Table"], row["Type"], row["State"]) == ("for_us", "MAJOR", "working")
    assert row["Worker"].startswith("compactor-")
    assert beside.shown_compaction(theirs.id)["State"] == "ready for cleaning"
    [asked] = beside.ours("--set", "compactor.mode=request", "compact", "default.for_hive", "--type", "minor")
    number = asked["compaction"]
    row = beside.shown_compaction(number)
    assert (row["Type"], row["State"], row["Worker"]) == ("MINOR", "initiated", "---")
    beside.hive_request("for_hive", "major")  # it says that there is one, and that is all
    assert [entry.id for entry in beside.queue()] == [theirs.id, number]
    beside.hive_work()
    assert beside.shown_compaction(number)["State"] == "ready for cleaning"
    assert beside.clean()["failed"] == []
    for one in (theirs.id, number):
        assert beside.shown_compaction(one)["State"] == "succeeded"
    assert beside.names("for_us") == ["base_0000002"]
    # a minor of Hive 3.1 comes with a delete delta, even if there is nothing in it
    assert beside.names("for_hive") == ["delete_delta_0000001_0000002", "delta_0000001_0000002"]
    for name in ("for_us", "for_hive"):
        beside.rows(name, ["1\trow 1", "2\trow 2"])


def test_hives_initiator_and_ours_ask_once(beside: Beside) -> None:
    """Two initiators over the same table leave one request, whichever comes first."""
    name = "due"
    properties = "'transactional'='true', 'compactorthreshold.hive.compactor.delta.num.threshold'='1'"
    beside.hive.sql(f"create table {name} (a int, b string) stored as orc tblproperties({properties})")

    def asked() -> list[Entry]:
        return [entry for entry in beside.queue() if entry.entity.table == name]

    def ours() -> None:
        beside.ours("--set", "compactor.mode=clean", "run", "initiator", "--once")

    def theirs() -> None:
        beside.hive.do("initiator", session="roles")

    for first, second in ((ours, theirs), (theirs, ours)):
        for key in (1, 2, 3):
            beside.hive.sql(f"insert into {name} values ({key}, 'row {key}')")
        first()
        [one] = asked()
        second()
        assert [entry.id for entry in asked()] == [one.id]
        beside.work()
        beside.hive_clean()
        beside.clean_all()
    assert len(beside.rows(name)) == 6


def test_an_open_reader_keeps_what_it_reads(beside: Beside) -> None:
    """PROTOCOL 7: Hive 3.1's cleaner knows a reader by its lock; ours by that or by its transaction alone."""
    name = "being_read"
    beside.two_rows(name)
    reader, other = (int(beside.hive.do("open", session="reader")[0]) for _ in range(2))
    _, state = beside.hive.do("lock", session="reader", txn=reader, type="SHARED_READ", database="default", table=name)
    assert state == "ACQUIRED"
    assert [done["fate"] for done in beside.compact(name, "major")] == ["compacted"]
    before = beside.names(name)
    for _ in range(2):
        passed = beside.clean()
        [waiting] = passed["waiting"]
        assert {blocker["txnid"] for blocker in waiting["blockers"]} >= {reader}
        beside.hive_clean()
        assert (passed["cleaned"], beside.names(name)) == ([], before)
    beside.hive.do("commit", session="reader", txn=reader)
    assert beside.clean()["cleaned"] == []
    assert beside.names(name) == before
    beside.hive.do("commit", session="reader", txn=other)
    assert [done["table"] for done in beside.clean()["cleaned"]] == [f"default.{name}"]
    assert beside.names(name) == ["base_0000002"]


def test_a_reader_of_ours_keeps_what_it_reads(beside: Beside) -> None:
    """PROTOCOL 7: Hive's cleaner heeds our lock over its own output."""
    name = "read_by_us"
    beside.two_rows(name)
    [reader] = beside.site.metastore.transactions.open("ada", beside.site.host)
    wanted = LockRequest(database="default", table=name, type=LockType.SHARED_READ)
    assert beside.site.metastore.locks.acquire(reader, [wanted], "ada", beside.site.host).is_acquired
    before = {"base_0000002", *beside.names(name)}
    beside.hive_compact(name, "major")
    beside.hive_clean()
    assert set(beside.names(name)) == before
    beside.site.metastore.transactions.commit(reader)
    beside.hive_clean()
    assert beside.names(name) == ["base_0000002"]


def test_our_compaction_waits_for_an_exclusive_lock_of_hive(beside: Beside) -> None:
    """PROTOCOL 3.2, 5: it is put back, and leaves no row that others would queue behind."""
    beside.two_rows("locked_by_hive")
    txn, lock = beside.lock_exclusively("locked_by_hive")
    assert [done["fate"] for done in beside.compact("locked_by_hive", "major")] == ["waiting"]
    locks = [(row["lockid"], row["lock_state"], row["transaction_id"]) for row in beside.ours("show", "locks")]
    assert locks == [(f"{lock}.1", "ACQUIRED", txn)]
    beside.hive.do("commit", txn=txn)
    assert [done["fate"] for done in beside.work()] == ["compacted"]
    assert beside.clean()["failed"] == []


@pytest.mark.parametrize("statement", ["drop table {0}", "alter table {0} change b c string"])
def test_a_statement_of_hive_goes_before_our_compaction(beside: Beside, statement: str) -> None:
    """PROTOCOL 3.2: it waits for our shared lock, and we yield to it at the next unit."""
    name = f"changed_{statement.partition(' ')[0]}"
    beside.two_rows(name)
    beside.ours("--set", "compactor.mode=clean", "compact", f"default.{name}")
    changing: list[Future[list[str]]] = []

    def change(check: object) -> None:
        changing.append(beside.later(statement.format(name), session="changing"))
        until("it waits", lambda: beside.site.metastore.locks.awaited_exclusively([entity(name)]))

    folder = beside.directory(name)
    [done] = run_entries(beside.site, list_claimable_ids(beside.site), Meanwhile(change)).outcomes
    assert done.result is Result.WAITING
    assert "yields" in done.message
    changing[0].result(PATIENCE)
    if "drop" in statement:
        assert not folder.exists()
        assert beside.work() == []
    else:
        assert [again["fate"] for again in beside.work()] == ["compacted"]
        beside.rows(name, ["1\trow 1", "2\trow 2"])
        assert beside.clean()["failed"] == []


def test_a_statement_of_hive_waits_for_our_exclusive_lock(beside: Beside) -> None:
    name = "locked_by_us"
    beside.two_rows(name)
    [own] = beside.site.metastore.transactions.open("ada", "here")
    wanted = LockRequest(database="default", table=name, type=LockType.EXCLUSIVE)
    lock = beside.site.metastore.locks.acquire(own, [wanted], "ada", "here")
    assert lock.is_acquired
    reading = beside.later(f"select a from {name}", session="waiting")

    def waits() -> bool:
        return any(row.state is LockState.WAITING for row in beside.site.metastore.locks.show("default", name))

    until("it waits", waits)
    assert (f"{lock.id}.1", "ACQUIRED") in {(row["Lock ID"], row["State"]) for row in beside.shown(f"locks {name}")}
    assert not reading.done()
    beside.site.metastore.transactions.commit(own)
    assert sorted(reading.result(PATIENCE)) == ["1", "2"]


def test_defaults_are_those_of_hive(beside: Beside) -> None:
    """Of its clients and its metastore, as far as Hive 3.1 has the setting: no exception."""
    other, number = compared(beside.hive.do("defaults"))
    assert other == {}
    assert number > 35
