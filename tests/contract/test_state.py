"""Our own state over every kind of database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event
from sqlalchemy.engine import make_url

from compactor.base.errors import DatabaseUnavailable, LostClaim, NotFound, Refused
from compactor.base.ids import TxnId
from compactor.compaction.quarantine_rules import Quarantined
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.database.engine import open_database
from compactor.state import state_database, state_upgrade
from compactor.state.batches import BatchState, SchedulerTask
from compactor.state.decisions import Decided
from compactor.state.removals import Cause, Removal
from compactor.state.runs import Run
from compactor.state.seen_conditions import SeenEntity
from compactor.state.sightings import KnownPlace, Sighting
from compactor.state.state_database import OwnState
from compactor.state.state_tables import DECISIONS, STATE_VERSION, VERSION_TABLE, metadata
from tests.support import servers
from tests.support.downloads import ROOT
from tests.support.patience import PATIENCE

T = Entity(database="default", table="t")
P = Entity(database="default", table="p", partition="d=1")


@pytest.fixture(params=("sqlite", *servers.NAMES))
def url(request: pytest.FixtureRequest, tmp_path: Path, server: Callable[[str], servers.Server]) -> Iterator[str]:
    """Where there is no state yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'state.db'}"
    else:
        yield server(request.param).make("state")
        server(request.param).drop("state")


@pytest.fixture
def state(url: str) -> Iterator[OwnState]:
    opened = state_upgrade.init(url)
    yield opened
    opened.close()


def test_the_steps_make_what_the_models_say(state: OwnState) -> None:
    with state.database.read() as conn:
        context = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    assert state_database.version(state.database) == STATE_VERSION


# --- creation -----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Ends a call as a kill does: the server sees a session that ends without a word."""


def init_until(url: str, count: int) -> bool:
    """Creates the state until ``count`` statements have run; returns whether it was completed before."""
    database, ran = open_database(url), 0

    def end(*_: object) -> None:
        nonlocal ran
        ran += 1
        if ran > count:
            raise Killed

    event.listen(database.engine, "before_cursor_execute", end)
    try:
        state_upgrade.upgrade(database)
    except Killed:
        return False
    finally:
        database.close()
    return True


def make_again(url: str, server: Callable[[str], servers.Server], name: str) -> None:
    if name == "sqlite":
        Path(make_url(url).database or "").unlink(missing_ok=True)
    else:
        server(name).drop("state")
        server(name).make("state")


def test_creation_that_is_killed_after_any_statement_is_completed_by_the_next(
    url: str, server: Callable[[str], servers.Server], request: pytest.FixtureRequest
) -> None:
    """MySQL commits each statement of a creation: what a killed call left is completed, index by index."""
    name = request.node.callspec.params["url"]
    counts = count() if name in ("mysql", "mysql-9.7", "mariadb-11.8") else count(step=9)
    killed = 0
    for statements in counts:
        make_again(url, server, name)
        if init_until(url, statements):
            break
        state_upgrade.init(url).close()
        opened = state_upgrade.init(url)
        with opened.database.read() as conn:
            context = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE})
            assert compare_metadata(context, metadata) == [], statements
        opened.close()
        killed += 1
    assert killed > 3


@pytest.mark.whole
def test_several_creations_at_once(url: str) -> None:
    code = "import sys; from compactor.state.state_upgrade import init; init(sys.argv[1]).close()"
    command = [sys.executable, "-W", "error", "-c", code, url]
    calls = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(call.communicate(timeout=PATIENCE)[1], call.returncode) for call in calls] == [("", 0)] * 4
    state_database.open_state(url).close()


def test_a_table_of_that_name_with_other_columns_is_refused(url: str) -> None:
    database = open_database(url)
    with database.write() as conn:
        conn.exec_driver_sql('CREATE TABLE "COMPACTOR_RUNS" (a INT)')
    with pytest.raises(DatabaseUnavailable, match=r"table COMPACTOR_RUNS with the columns a; expected .*RUN_ID"):
        state_upgrade.upgrade(database)
    database.close()


# --- batches ------------------------------------------------------------------------------------------------------


def test_a_batch_is_kept_as_planned(state: OwnState) -> None:
    batch = state.batches.get(state.batches.plan("m", "p1", "q", [7, 3, 7], {"spark.executor.memory": "2g"}))
    assert (batch.metastore, batch.pool, batch.queue, batch.entry_ids) == ("m", "p1", "q", (3, 7))
    assert (batch.state, batch.attempt, batch.driver) == (BatchState.PLANNED, 0, None)
    assert batch.conf == {"spark.executor.memory": "2g"}
    assert batch.reserved_until == batch.planned_at + 600_000


def test_reserved_entries_are_nobody_elses(state: OwnState) -> None:
    first = state.batches.plan("m", None, None, [1, 2], {})
    state.batches.plan("other", None, None, [1, 2], {})
    assert state.batches.reserved("m") == {1, 2}
    with pytest.raises(LostClaim, match="entries 2 of metastore m"):
        state.batches.plan("m", None, None, [2, 3], {})
    assert state.batches.finish(first)
    assert state.batches.reserved("m") == set()
    state.batches.plan("m", None, None, [2, 3], {}, reserved_ms=-1)
    assert state.batches.reserved("m") == set()  # its time is over
    with pytest.raises(Refused, match="at least one"):
        state.batches.plan("m", None, None, [], {})


def test_of_many_planners_one_has_an_entry(url: str, state: OwnState) -> None:
    """Each looks at what is reserved before it writes, so they must be alone while they do."""

    def plan(number: int) -> bool:
        own = state_database.open_state(url)
        try:
            own.batches.plan("m", None, None, [1, 100 + number], {})
        except LostClaim:
            return False
        finally:
            own.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(plan, range(8))).count(True) == 1
    assert len(state.batches.find("m")) == 1


def test_the_first_driver_has_the_batch(url: str, state: OwnState) -> None:
    batch_id = state.batches.plan("m", None, None, [1], {})

    def register(number: int) -> bool:
        own = state_database.open_state(url)
        try:
            return own.batches.register(batch_id, f"driver-{number}", 1000)
        finally:
            own.close()

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(register, range(8)))
    assert won.count(True) == 1
    batch = state.batches.get(batch_id)
    assert batch.driver == f"driver-{won.index(True)}"
    assert (batch.state, batch.attempt) == (BatchState.RUNNING, 1)
    assert state.batches.register(batch_id, batch.driver, 1000)  # its own second call
    assert not state.batches.register(batch_id, "late", 1000)


def test_only_its_driver_extends_and_ends_a_batch(state: OwnState) -> None:
    batch_id = state.batches.plan("m", None, None, [1], {}, reserved_ms=-1)
    assert not state.batches.extend(batch_id, "me", 60_000)
    assert state.batches.register(batch_id, "me", -1)
    assert not state.batches.extend(batch_id, "you", 60_000)
    assert state.batches.reserved("m") == set()
    assert state.batches.extend(batch_id, "me", 60_000)
    assert state.batches.reserved("m") == {1}
    assert not state.batches.finish(batch_id, "you")
    assert state.batches.finish(batch_id, "me")
    assert not state.batches.finish(batch_id, "me")
    assert not state.batches.register(batch_id, "me", 1000)


def test_batches_of_a_scheduler_that_wait_and_that_are_launched(state: OwnState) -> None:
    ids = [
        state.batches.plan(
            "m", None, None, [n], {}, task=SchedulerTask(run="r", name=f"compact_{n}"), reserved_ms=reserved
        )
        for n, reserved in enumerate((60_000, 60_000, 60_000, -1))
    ]
    state.batches.plan("m", None, None, [9], {})
    state.batches.set_application(ids[1], "application_1", 60_000)
    assert state.batches.register(ids[2], "driver", 60_000)
    assert state.batches.register(ids[3], "driver", -1)
    assert [batch.id for batch in state.batches.list_unlaunched("m")] == [ids[0]]
    assert [batch.id for batch in state.batches.list_launched("m")] == [ids[1], ids[2]]
    assert [batch.id for batch in state.batches.list_of_run("m", "r")] == ids


def test_a_retry_finds_the_application(state: OwnState) -> None:
    batch_id = state.batches.plan("m", None, None, [1], {})
    state.batches.set_application(batch_id, "application_1_0001", 60_000)
    assert state.batches.get(batch_id).application_id == "application_1_0001"
    assert [batch.id for batch in state.batches.find("m", states=[BatchState.PLANNED])] == [batch_id]
    assert state.batches.find("m", states=[BatchState.DONE]) == []
    for call in (
        lambda: state.batches.get(99),
        lambda: state.batches.set_application(99, "x", 1),
        lambda: state.batches.register(99, "x", 1),
    ):
        with pytest.raises(NotFound, match="batch 99"):
            call()


# --- runs, decisions, sightings -----------------------------------------------------------------------------------


def test_runs_are_kept(state: OwnState) -> None:
    run = Run(
        metastore="m",
        entry_id=5,
        entity=P,
        type=CompactionType.MAJOR,
        txn=TxnId(9),
        worker_id="compactor-1",
        directories_before=40,
        directories_after=1,
        files_before=80,
        files_after=2,
        bytes_before=10**12,
        bytes_after=10**11,
        rows_in=7,
        rows_out=6,
        stripes_copied=5,
        stripes_reencoded=4,
        stripes_dropped=3,
        seconds=1.5,
    )
    state.runs.add(run)
    state.runs.add(Run(metastore="m", entry_id=6, entity=T, type=CompactionType.MINOR))
    [found] = state.runs.of_entry("m", 5)
    assert found.ended_at is not None
    assert {name: getattr(found, name) for name in Run.__slots__ if name != "ended_at"} == {
        name: getattr(run, name) for name in Run.__slots__ if name != "ended_at"
    }
    assert [run.entry_id for run in state.runs.latest("m")] == [6, 5]
    assert [run.entry_id for run in state.runs.latest("m", entity=T)] == [6]
    assert state.runs.latest("other") == []
    assert state.runs.purge(60_000) == 0
    assert state.runs.purge(-60_000) == 2


def test_decisions_are_kept_by_pass(state: OwnState) -> None:
    old = Decided(entity=T, outcome="NotNeeded", because="2 deltas <= 10", numbers={"deltas": 2})
    new = Decided(entity=T, outcome="Major", because="12 deltas > 10", numbers={"deltas": 12, "ratio": 0.25})
    state.decisions.record("m", [old])
    with state.database.write() as conn:
        conn.execute(DECISIONS.update().values(PASS_AT=1))
    at = state.decisions.record("m", [new, Decided(entity=P, outcome="NotNeeded", because="x")])
    found = state.decisions.latest("m", T)
    assert found is not None
    assert (found.outcome, found.because, found.numbers, found.at) == ("Major", "12 deltas > 10", new.numbers, at)
    state.conditions.record("m", [SeenEntity(entity=one, outcome="x", because="x", at=at) for one in (T, P)])
    assert [(decided.entity, decided.at) for decided in state.decisions.in_force("m")] == [(P, at), (T, at)]
    assert state.decisions.latest("m", Entity(database="default", table="p")) is None
    assert state.decisions.purge(60_000) == 1


def test_the_first_sight_of_an_entry_stays(state: OwnState) -> None:
    """PROTOCOL 7.1: null stamps count as the largest transaction (and lock) at first sight."""
    early, late = Sighting(newest=TxnId(10), newest_lock=2), Sighting(newest=TxnId(99), newest_lock=9)
    assert state.sightings.first("m", 5, early) == early
    assert state.sightings.first("m", 5, late) == early
    assert state.sightings.first("other", 5, late) == late


def test_the_first_sight_of_an_abort_stays(state: OwnState) -> None:
    """PROTOCOL 11.7: by number and start; what is no longer aborted is forgotten."""
    many = {TxnId(number): number * 10 for number in range(1, 1100)}
    assert set(state.sightings.record_aborts("m", many, 5).values()) == {5}
    less = {TxnId(1): 10, TxnId(2): 21}
    assert state.sightings.record_aborts("m", less, 9) == {1: 5, 2: 9}
    assert state.sightings.aborts("m", many) == {1: 5}
    assert state.sightings.aborts("other", many) == {}
    assert state.sightings.record_aborts("m", {}, 9) == {}


def test_places_with_data_are_remembered(state: OwnState) -> None:
    """PROTOCOL 11.11: a place that is full again, or another one, replaces what was known."""
    far = "s3a://東京/" + "x" * 2000
    sightings = state.sightings
    sightings.record_locations("m", {far: KnownPlace(identity=None, at=1), "/w/t": KnownPlace(identity="1:a", at=1)})
    sightings.record_locations(
        "m", {"/w/t": KnownPlace(identity="1:b", at=2), "/w/T": KnownPlace(identity="1:c", at=2)}
    )
    assert state.sightings.locations("m") == {
        far: KnownPlace(identity=None, at=1),
        "/w/t": KnownPlace(identity="1:b", at=2),
        "/w/T": KnownPlace(identity="1:c", at=2),
    }
    assert state.sightings.locations("other") == {}
    assert state.sightings.purge_locations(0) == 3


def test_what_a_queue_has_no_columns_for(state: OwnState) -> None:
    kept = state.kept_columns("m")
    kept.put({3: {"POOL_NAME": "東京", "TXN_ID": 1}})
    kept.put({3: {"TXN_ID": None}, 4: {"TXN_ID": 2}})
    assert kept.get([3, 4, 5]) == {3: {"POOL_NAME": "東京", "TXN_ID": None}, 4: {"TXN_ID": 2}}
    assert (state.kept_columns("other").ids(), kept.ids()) == (set(), {3, 4})
    kept.forget([3])
    assert kept.ids() == {4}


def test_names_differ_by_case_and_hold_any_character(state: OwnState) -> None:
    """MySQL's default takes p=A for p=a, and knows 256 characters."""
    for name in ("p=a", "p=A", "p=東京"):
        entity = Entity(database="default", table="t", partition=name)
        state.decisions.record("m", [Decided(entity=entity, outcome=name, because="x")])
    for name in ("p=a", "p=A", "p=東京"):
        found = state.decisions.latest("m", Entity(database="default", table="t", partition=name))
        assert found is not None
        assert found.outcome == name


def test_removals_are_counted_by_entry_and_day(state: OwnState) -> None:
    cleaned = Removal(entity=P, cause=Cause.CLEANED, entry_id=7, directories=3, files=5, bytes=1 << 40)
    nothing = replace(cleaned, entry_id=8, directories=0, files=0, bytes=0)
    aborted = replace(cleaned, cause=Cause.ABORTED, entry_id=None, directories=1, files=1, bytes=9)
    state.removals.add_all("m", [cleaned, nothing, aborted])
    state.removals.add_all("m", [replace(cleaned, cause=Cause.ERASED, directories=1, files=2, bytes=4)])
    removed = state.removals.of_entries("m", [7, 8])
    assert {entry_id: of[1:] for entry_id, of in removed.items()} == {7: (4, 7, (1 << 40) + 4)}
    sums = state.removals.days("m", 0)
    assert tuple(sum(of[number] for of in sums) for number in (1, 2, 3)) == (5, 8, (1 << 40) + 13)
    assert state.removals.of_entries("other", [7]) == {}
    assert state.removals.purge(60_000) == 0
    assert state.removals.purge(-60_000) == 3
    assert state.removals.days("m", 0) == []


def test_what_a_restore_undid_spares_readers_nothing(state: OwnState) -> None:
    run = Run(
        metastore="m", entry_id=5, entity=T, type=CompactionType.MAJOR, files_before=9, files_after=1, seconds=2.0
    )
    state.runs.add_all([run, replace(run, entry_id=6, entity=P, files_before=4)])
    state.removals.note_undone("m", 5, T)
    state.removals.note_undone("m", 5, T)
    assert {number: undone.entity for number, undone in state.removals.undone("m").items()} == {5: T}
    (day,) = state.runs.days("m", 0)
    assert (day.runs, day.fewer_files, day.seconds) == (2, 3, 4.0)
    assert state.removals.purge(-60_000) == 1


def test_a_run_ends_with_its_commit(state: OwnState) -> None:
    state.runs.add(Run(metastore="m", entry_id=5, entity=T, type=CompactionType.MAJOR, ended_at=77))
    assert [run.ended_at for run in state.runs.latest("m")] == [77]


def test_a_quarantine_is_listed_until_it_is_erased(state: OwnState) -> None:
    """PROTOCOL 11.15."""
    one = Quarantined(
        entry_id=7, entity=P, location="/w/東京", since=1, until=2, bytes=1 << 40, names=("base_0000001",)
    )
    state.quarantines.keep("m", replace(one, names=(), bytes=0))
    state.quarantines.keep("m", one)
    assert state.quarantines.all("m") == [one]
    state.quarantines.forget("m", 7)
    assert state.quarantines.all("m") == []
