from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.answers.explain import explain
from compactor.base.errors import BadSetting, NotFound, Refused
from compactor.compaction.queue_entry import Entity
from compactor.initiator.fresh_look import look_at
from compactor.metastore.catalog.values import Table
from compactor.requests.overrides import override, remove_override
from compactor.requests.pause import pause
from compactor.site.site import Site, paused_tables
from tests.support.tables import insert, make_table, with_settings

NUM = "hive.compactor.delta.num.threshold"
T = Entity(database="default", table="t")


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    """Three deltas, few enough by the table's own property."""
    made = make_table(deployment, warehouse, **{f"compactorthreshold.{NUM}": "3"})
    for value in range(3):
        insert(deployment, made, [value])
    return made


def test_an_override_replaces_the_tables_own_property_until_removed(deployment: Site, table: Table) -> None:
    assert look_at(deployment, T).considered.outcome == "notneeded"
    made = override(deployment, "default.t", f"compactor.{NUM}", "2", "ann")
    assert (made.key, made.value, made.by) == (NUM, "2", "ann")
    assert look_at(deployment, T).considered.outcome == "major"
    assert (NUM, "2", "override") in [
        (one.key, one.value, one.source) for one in explain(deployment, "default.t").settings
    ]
    assert deployment.target(T).settings.source(NUM) == deployment.settings_of(T).source(NUM) == "override"
    assert deployment.metastore.catalog.table("default", "t").parameters == table.parameters
    assert remove_override(deployment, "default.t", NUM).value == "2"
    assert look_at(deployment, T).considered.outcome == "notneeded"
    with pytest.raises(NotFound, match="no override"):
        remove_override(deployment, "default.t", NUM)


@pytest.mark.parametrize(("key", "value"), [(NUM, "many"), ("compactor.lock.wait", "1s"), ("compactor.colour", "red")])
def test_only_valid_settings_of_a_table_are_accepted(deployment: Site, table: Table, key: str, value: str) -> None:
    with pytest.raises(BadSetting):
        override(deployment, "default.t", key, value, "ann")
    assert deployment.state is not None
    assert deployment.state.overrides.of_table(deployment.name, "default", "t") == []


def test_an_override_of_the_mode_locks_nobody_out(deployment: Site, table: Table) -> None:
    override(deployment, "default.t", "compactor.mode", "observe", "ann")
    assert deployment.settings_of(T).mode == "observe"
    remove_override(deployment, "default.t", "compactor.mode")
    assert deployment.settings_of(T).mode == "clean"


def test_nothing_changes_where_changes_are_not_allowed(deployment: Site, table: Table) -> None:
    with pytest.raises(Refused, match=r"compactor\.mode is observe"):
        pause(with_settings(deployment, compactor_mode="observe"), "default.t", "ann")
    with pytest.raises(Refused, match="state_url"):
        pause(replace(deployment, state=None), "default.t", "ann")
    with pytest.raises(NotFound):
        pause(deployment, "default.gone", "ann")
    assert paused_tables(deployment) == paused_tables(replace(deployment, state=None)) == frozenset()
