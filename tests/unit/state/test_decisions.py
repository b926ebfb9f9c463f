from __future__ import annotations

from compactor.compaction.queue_entry import Entity
from compactor.state.decisions import Decided
from compactor.state.seen_conditions import SeenEntity
from compactor.state.state_database import OwnState

T, P = Entity(database="d", table="t"), Entity(database="d", table="t", partition="p=1")


def decided(entity: Entity, outcome: str = "nothing", role: str = "initiator") -> Decided:
    return Decided(entity=entity, outcome=outcome, because="few deltas", numbers={"deltas": 3}, role=role)


def test_a_decision_comes_back_with_its_numbers_and_time(fresh: OwnState) -> None:
    at = fresh.decisions.record("m", [decided(P, "major"), decided(T)])
    decision = fresh.decisions.latest("m", P)
    assert decision is not None
    assert (decision.entity, decision.outcome, dict(decision.numbers), decision.at) == (P, "major", {"deltas": 3}, at)
    assert fresh.decisions.latest("m", Entity(database="d", table="u")) is None
    assert fresh.decisions.latest("other", P) is None


def test_a_table_is_another_thing_than_its_partition(fresh: OwnState) -> None:
    fresh.decisions.record("m", [decided(T, "minor")])
    fresh.decisions.record("m", [decided(P, "major")])
    table = fresh.decisions.latest("m", T)
    assert table is not None
    assert table.outcome == "minor"


def test_what_holds_is_of_the_last_look_at_each(fresh: OwnState) -> None:
    fresh.decisions.record("m", [decided(T)], at=1)
    fresh.decisions.record("m", [decided(P), decided(T)], at=2)
    fresh.decisions.record("m", [decided(P, role="sweep")], at=3)
    fresh.decisions.record("m", [decided(P)], at=3)
    fresh.conditions.record("m", [SeenEntity(entity=T, outcome="x", because="x", at=2)])
    fresh.conditions.record("m", [SeenEntity(entity=P, outcome="x", because="x", at=3)])
    fresh.conditions.record("other", [SeenEntity(entity=T, outcome="x", because="x", at=1)])
    assert [(d.entity, d.at) for d in fresh.decisions.in_force("m")] == [(T, 2), (P, 3)]
    assert fresh.decisions.cursor("m") == P
    assert fresh.decisions.cursor("other") is None


def test_a_pass_that_decides_nothing_has_a_time(fresh: OwnState) -> None:
    assert fresh.decisions.record("m", []) > 0
    assert fresh.decisions.in_force("m") == []


def test_old_ones_go(fresh: OwnState) -> None:
    fresh.decisions.record("m", [decided(T)], at=1)
    fresh.decisions.record("m", [decided(P)])
    assert fresh.decisions.purge(60_000) == 1
    assert fresh.decisions.latest("m", T) is None


def test_each_role_has_its_newest_pass(fresh: OwnState) -> None:
    for at in (3, 7):
        fresh.decisions.record("m", [decided(T, role="sweep")], at=at)
    assert fresh.decisions.newest("m", "sweep") == 7
    assert fresh.decisions.newest("m", "initiator") is fresh.decisions.newest("other", "sweep") is None
