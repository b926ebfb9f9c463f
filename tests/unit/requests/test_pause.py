from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import NotFound, Refused
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.initiator.fresh_look import look_at
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.requests.overrides import override
from compactor.requests.pause import pause, resume
from compactor.requests.request import request_compaction
from compactor.settings.precedence import Layer, Settings
from compactor.site.site import VERSION, Site, paused_tables
from demo.fixtures import register_fixture
from tests.support.expected import step
from tests.support.tables import insert, make_table

TABLE = Entity(database="default", table="f1_basic")
NUM = "hive.compactor.delta.num.threshold"


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    """Three deltas, few enough by the table's own property."""
    made = make_table(deployment, warehouse, **{f"compactorthreshold.{NUM}": "3"})
    for value in range(3):
        insert(deployment, made, [value])
    return made


@pytest.fixture
def failing(deployment: Site, warehouse: Path) -> Site:
    """A table that is due, whose last two compactions failed."""
    register_fixture(deployment.metastore, step("hive-4.1/f1_basic/s10_dml_over_base"), warehouse)
    for _ in range(2):
        fail(deployment, TABLE)
    return deployment


def fail(site: Site, entity: Entity) -> int:
    metastore = site.metastore
    number = metastore.requests.request(
        Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-h-manual")
    )
    entry = metastore.claims.claim(site.identity("worker"), VERSION, pool_timeout_ms=0, ids=[number])
    assert entry is not None
    metastore.claims.finish(entry, State.FAILED, "disk full")
    return number


def test_the_initiator_considers_a_resumed_table_again(failing: Site) -> None:
    before = look_at(failing, TABLE).considered
    assert before.outcome == "skipped"
    assert "failed" in before.because
    (resumed,) = resume(failing, "default.f1_basic")
    assert [(e.state, e.error) for e in resumed.forgotten] == [(State.FAILED, "disk full")] * 2
    assert look_at(failing, TABLE).considered.outcome == "major"


def test_older_rows_and_other_tables_stay(failing: Site) -> None:
    other = fail(failing, Entity(database="default", table="other"))
    resume(failing, "default.f1_basic")
    left = {e.id: e.state for e in failing.metastore.entries.history()}
    assert left.pop(other) is State.FAILED
    assert set(left.values()) == {State.SUCCEEDED}  # what the fixture's own history holds


def test_did_not_initiate_rows_go_with_the_failures(failing: Site) -> None:
    failing.metastore.requests.did_not_initiate(TABLE, "too many failures")
    (resumed,) = resume(failing, "default.f1_basic")
    assert [e.state for e in resumed.forgotten] == [State.DID_NOT_INITIATE, State.FAILED, State.FAILED]


def test_resuming_twice_is_resuming_once(failing: Site) -> None:
    assert resume(failing, "default.f1_basic")
    assert resume(failing, "default.f1_basic") == []


def test_an_unknown_table(deployment: Site) -> None:
    with pytest.raises(NotFound, match=r"default\.nope"):
        resume(deployment, "default.nope")


def test_mode_observe_changes_nothing(failing: Site) -> None:
    observing = replace(failing, settings=Settings.of([Layer(name="flag", values={"compactor.mode": "observe"})]))
    with pytest.raises(Refused, match="observe"):
        resume(observing, "default.f1_basic")
    assert sum(e.state is State.FAILED for e in failing.metastore.entries.history()) == 2


def test_a_paused_table_can_still_be_requested_by_hand(deployment: Site, table: Table) -> None:
    override(deployment, "default.t", NUM, "1", "ann")
    pause(deployment, "default.t", "ann")
    assert paused_tables(deployment) == {("default", "t")}
    (considered,) = initiate(deployment).considered
    assert (considered.outcome, considered.entry_id) == ("skipped", None)
    assert considered.because == "compactor.paused is true (from override)"
    (asked,) = request_compaction(deployment, table="default.t", type="major")
    assert asked.entry_id is not None


def test_resuming_ends_only_the_pause(deployment: Site, table: Table) -> None:
    override(deployment, "default.t", NUM, "1", "ann")
    pause(deployment, "default.t", "bob")
    (resumed,) = resume(deployment, "default.t")
    assert (resumed.paused_by, resumed.forgotten) == ("bob", ())
    assert resumed.to_json()["paused_by"] == "bob"
    assert paused_tables(deployment) == frozenset()
    assert resume(deployment, "default.t") == []
    (considered,) = initiate(deployment).considered
    assert (considered.outcome, considered.entry_id is not None) == ("major", True)


def test_a_table_has_its_own_failed_threshold(failing: Site) -> None:
    """Stored in the metastore with the table, as Hive's own thresholds can be."""
    assert look_at(failing, TABLE).considered.outcome == "skipped"
    found = failing.metastore.catalog.table("default", "f1_basic")
    key = "compactor.hive.compactor.initiator.failed.compacts.threshold"
    failing.metastore.embedded_catalog.set_table_parameter(found, key, "3")
    assert look_at(failing, TABLE).considered.outcome != "skipped"
    failing.metastore.embedded_catalog.set_table_parameter(found, key, "0")  # the rule cannot be switched off
    assert look_at(failing, TABLE).considered.outcome == "skipped"


def test_a_person_may_ask_for_what_failed_too_often(failing: Site) -> None:
    """Only automatic requests stop at the threshold."""
    assert look_at(failing, TABLE).considered.outcome == "skipped"
    (asked,) = request_compaction(failing, table="default.f1_basic", type="major")
    assert asked.entry_id is not None
