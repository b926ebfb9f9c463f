from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.compaction.entry import Entity
from compactor.errors import BadSetting, NotFound, Refused
from compactor.metastore.catalog.values import Table
from compactor.service.answers.explain import explain
from compactor.service.requests.overrides import override, pause, paused, remove_override
from compactor.service.requests.request import request_compaction
from compactor.service.requests.unpause import resume
from compactor.service.roles.initiator import initiate, look
from compactor.service.site import Site
from tests.support.tables import insert, make_table, with_settings

NUM = "hive.compactor.delta.num.threshold"
T = Entity(database="default", table="t")


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    """Three deltas, of which its own property says that they are few enough."""
    made = make_table(deployment, warehouse, **{f"compactorthreshold.{NUM}": "3"})
    for value in range(3):
        insert(deployment, made, [value])
    return made


def test_an_override_goes_before_the_tables_own_property_and_can_be_taken_back(deployment: Site, table: Table) -> None:
    assert look(deployment, T).outcome == "notneeded"
    made = override(deployment, "default.t", f"compactor.{NUM}", "2", "ann")
    assert (made.key, made.value, made.by) == (NUM, "2", "ann")
    assert look(deployment, T).outcome == "major"
    assert (NUM, "2", "override") in [
        (one.key, one.value, one.source) for one in explain(deployment, "default.t").settings
    ]
    assert deployment.target(T).settings.source(NUM) == deployment.settings_of(T).source(NUM) == "override"
    assert deployment.metastore.catalog.table("default", "t").parameters == table.parameters
    assert remove_override(deployment, "default.t", NUM).value == "2"
    assert look(deployment, T).outcome == "notneeded"
    with pytest.raises(NotFound, match="no override"):
        remove_override(deployment, "default.t", NUM)


@pytest.mark.parametrize(("key", "value"), [(NUM, "many"), ("compactor.lock.wait", "1s"), ("compactor.colour", "red")])
def test_only_what_a_table_may_say(deployment: Site, table: Table, key: str, value: str) -> None:
    with pytest.raises(BadSetting):
        override(deployment, "default.t", key, value, "ann")
    assert deployment.state is not None
    assert deployment.state.overrides.of_table(deployment.name, "default", "t") == []


def test_a_paused_table_is_left_to_who_asks_by_hand(deployment: Site, table: Table) -> None:
    override(deployment, "default.t", NUM, "1", "ann")
    pause(deployment, "default.t", "ann")
    assert paused(deployment) == {("default", "t")}
    (considered,) = initiate(deployment).considered
    assert (considered.outcome, considered.entry_id) == ("skipped", None)
    assert considered.because == "compactor.paused is true (from override)"
    (asked,) = request_compaction(deployment, table="default.t", type="major")
    assert asked.entry_id is not None


def test_resuming_ends_the_pause_and_nothing_else(deployment: Site, table: Table) -> None:
    override(deployment, "default.t", NUM, "1", "ann")
    pause(deployment, "default.t", "bob")
    (resumed,) = resume(deployment, "default", "t")
    assert (resumed.paused_by, resumed.forgotten) == ("bob", ())
    assert resumed.to_json()["paused_by"] == "bob"
    assert paused(deployment) == frozenset()
    assert resume(deployment, "default", "t") == []
    (considered,) = initiate(deployment).considered
    assert (considered.outcome, considered.entry_id is not None) == ("major", True)


def test_an_override_of_the_mode_locks_nobody_out(deployment: Site, table: Table) -> None:
    override(deployment, "default.t", "compactor.mode", "observe", "ann")
    assert deployment.settings_of(T).mode == "observe"
    remove_override(deployment, "default.t", "compactor.mode")
    assert deployment.settings_of(T).mode == "clean"


def test_who_may_change_nothing_changes_nothing(deployment: Site, table: Table) -> None:
    with pytest.raises(Refused, match=r"compactor\.mode is observe"):
        pause(with_settings(deployment, compactor_mode="observe"), "default.t", "ann")
    with pytest.raises(Refused, match="state_url"):
        pause(replace(deployment, state=None), "default.t", "ann")
    with pytest.raises(NotFound):
        pause(deployment, "default.gone", "ann")
    assert paused(deployment) == paused(replace(deployment, state=None)) == frozenset()
