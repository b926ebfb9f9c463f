from __future__ import annotations

from pathlib import Path

import pytest

from compactor.compaction.economy import BUDGET
from compactor.initiator.budget import CORE_SECONDS
from compactor.initiator.initiator import InitiatorPass, initiate
from compactor.site.site import Site, own_state
from tests.support.tables import insert, make_table, with_settings

INSERTS = {"few": 4, "many": 12, "some": 7}


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    for name, number in INSERTS.items():
        table = make_table(deployment, warehouse, name)
        for value in range(number):
            insert(deployment, table, [value])
    return thrifty(deployment)


def thrifty(site: Site, **settings: str) -> Site:
    return with_settings(site, hive_compactor_delta_num_threshold="2", **settings)


def requested(site: Site) -> list[str]:
    return [entry.entity.table for entry in sorted(site.metastore.entries.queue(), key=lambda entry: entry.id)]


def reasons(done: InitiatorPass) -> dict[str, str]:
    return {one.entity.table: one.because for one in done.considered if one.entry_id is None}


def test_what_saves_most_for_its_cost_is_requested_first(site: Site) -> None:
    done = initiate(thrifty(site, compactor_order="benefit"))
    assert requested(site) == ["many", "some", "few"]
    assert len(done.enqueued) == 3
    assert reasons(done) == {}


def test_what_the_budget_does_not_allow_waits_for_its_hour(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compactor.insight.costs.plain_cost", lambda size: 10.0)
    bound = thrifty(site, compactor_order="benefit", compactor_budget="10")
    first = initiate(bound)
    assert requested(site) == ["many"]
    assert set(reasons(first)) == {"few", "some"}
    assert all(BUDGET in because and "10 core-seconds" in because for because in reasons(first).values())
    state = own_state(site)
    costs = {one.entity.table: one.numbers.get(CORE_SECONDS) for one in state.decisions.in_force(site.name)}
    assert costs == {"few": None, "many": 10.0, "some": None}
    initiate(bound)
    assert requested(site) == ["many"]
    with state.database.write() as conn:
        conn.exec_driver_sql("UPDATE COMPACTOR_DECISIONS SET PASS_AT = PASS_AT - 3600000")
    second = initiate(bound)
    assert requested(site) == ["many", "some"]
    assert "few" in reasons(second)
    (of_few,) = [
        one
        for one in state.conditions.page(site.name, order="table", descending=False, limit=9)
        if one.entity.table == "few"
    ]
    assert of_few.because.count(BUDGET) == 1
    initiate(site)  # without a budget nothing waits
    assert requested(site) == ["many", "some", "few"]
