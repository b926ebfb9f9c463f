from __future__ import annotations

from dataclasses import replace

import pytest

from compactor.base.errors import BadSetting
from compactor.base.ids import TxnId
from compactor.compaction.decision_reuse import Basis, StoredDecision
from compactor.compaction.health import Condition
from compactor.compaction.queue_entry import Entity
from compactor.state.seen_conditions import ORDERS, ConditionFilter, SeenEntity
from compactor.state.state_database import OwnState

SICK = Condition(base_bytes=10, delta_bytes=30, delete_bytes=4, deltas=12, files=13, small_files=13, health=20)
WELL = Condition(base_bytes=1000, files=1)


def entity(name: str) -> Entity:
    table, _, partition = name.partition("/")
    return Entity(database="d", table=table, partition=partition or None)


def seen(name: str, condition: Condition | None = None, outcome: str = "notneeded", at: int = 5) -> SeenEntity:
    return SeenEntity(entity=entity(name), outcome=outcome, because="so", flips=("a", "b"), condition=condition, at=at)


def names(state: OwnState, find: str = "", order: str = "table", descending: bool = False, **more: int) -> list[str]:
    condition_filter = ConditionFilter(find=find)
    rows = state.conditions.page("m", condition_filter, order=order, descending=descending, **{"limit": 100} | more)
    return [str(row.entity).removeprefix("d.") for row in rows]


def test_what_was_seen_comes_back(fresh: OwnState) -> None:
    row = replace(seen("t/p=1", SICK, "major"), last_compacted=3)
    fresh.conditions.record("m", [row])
    assert fresh.conditions.page("m", limit=9) == [row]
    assert fresh.conditions.for_entities("m", [entity("t/p=1"), entity("t")]) == {row.entity: row}
    assert fresh.conditions.page("other", limit=9) == []


def test_a_later_look_takes_the_place_of_the_one_before(fresh: OwnState) -> None:
    fresh.conditions.record("m", [seen("t", SICK, "major"), seen("u", WELL)])
    fresh.conditions.record("m", [seen("t", WELL, at=9)], gone=[entity("u")])
    assert fresh.conditions.page("m", limit=9) == [seen("t", WELL, at=9)]


def test_a_pass_that_did_not_list_the_directory_leaves_the_figures(fresh: OwnState) -> None:
    fresh.conditions.record("m", [seen("t", SICK, "major")])
    fresh.conditions.record("m", [seen("t", None, "skipped", at=9)])
    assert fresh.conditions.page("m", limit=9) == [seen("t", SICK, "skipped", at=9)]


def test_the_order_is_of_all_rows_and_what_is_unknown_comes_last(fresh: OwnState) -> None:
    fresh.conditions.record("m", [seen("a", WELL), seen("b", SICK), seen("c"), seen("b/p=1", SICK)])
    assert names(fresh) == ["a", "b", "b/p=1", "c"]
    assert names(fresh, order="health") == ["b", "b/p=1", "a", "c"]
    assert names(fresh, order="health", descending=True) == ["a", "b", "b/p=1", "c"]
    assert names(fresh, order="delete_ratio", descending=True, limit=1) == ["b"]
    assert names(fresh, limit=2, offset=2) == ["b/p=1", "c"]


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_works_both_ways(fresh: OwnState, order: str) -> None:
    fresh.conditions.record("m", [seen("a", WELL), seen("b", SICK)])
    assert sorted(names(fresh, order=order)) == sorted(names(fresh, order=order, descending=True)) == ["a", "b"]


def test_an_unknown_order_is_refused_by_name(fresh: OwnState) -> None:
    with pytest.raises(BadSetting, match="order 'size': expected one of table, health"):
        fresh.conditions.page("m", order="size", limit=1)


def test_every_word_must_be_in_the_name(fresh: OwnState) -> None:
    fresh.conditions.record("m", [seen("Sales/day=1"), seen("sales/day=2"), seen("pct%"), seen("pctx")])
    assert names(fresh, "SALES day=2") == ["sales/day=2"]
    assert len(names(fresh, "d.sales")) == 2
    assert names(fresh, "t%") == ["pct%"]
    assert fresh.conditions.count("m", ConditionFilter(find="sales")) == 2


def test_outcomes_are_counted_and_chosen(fresh: OwnState) -> None:
    fresh.conditions.record("m", [seen("a", outcome="major"), seen("b", outcome="minor"), seen("c"), seen("e")])
    assert fresh.conditions.outcomes("m") == {"major": 1, "minor": 1, "notneeded": 2}
    assert fresh.conditions.count("m", ConditionFilter(outcomes=("major", "minor"))) == 2
    assert fresh.conditions.count("m") == 4


def test_what_is_calm_is_settled(fresh: OwnState) -> None:
    few = replace(WELL, deltas=1)
    fresh.conditions.record(
        "m", [seen("calm", WELL), seen("few", few), seen("due", WELL, "major"), seen("new", SICK, at=8), seen("dark")]
    )
    assert {str(row.entity) for row in fresh.conditions.unsettled("m", 8)} == {"d.few", "d.due", "d.dark"}


def test_more_than_one_statement_takes(fresh: OwnState) -> None:
    fresh.conditions.record("m", [seen(f"t/p={n}", WELL) for n in range(2500)])
    fresh.conditions.record("m", [seen(f"t/p={n}", at=6) for n in range(2500)])
    assert fresh.conditions.count("m") == 2500
    assert {row.condition for row in fresh.conditions.page("m", limit=2500)} == {WELL}


def test_old_ones_go(fresh: OwnState) -> None:
    fresh.conditions.record("m", [seen("a"), seen("b", at=2**60)])
    assert fresh.conditions.purge(1000) == 1
    assert names(fresh) == ["b"]


BASIS = Basis("digest", None, TxnId(7))


def test_what_a_decision_was_based_on_is_stored_beside_it(fresh: OwnState) -> None:
    waiting = replace(seen("u", WELL), basis=Basis("other", "open", TxnId(8)))
    fresh.conditions.record("m", [replace(seen("t/p=1", WELL), basis=BASIS), seen("t/p=2"), waiting])
    fresh.conditions.record("other", [replace(seen("t/p=9"), basis=BASIS)])
    assert fresh.conditions.stored_decisions("m", [("d", "t"), ("d", "u"), ("d", "none")]) == {
        ("d", "t"): {"p=1": StoredDecision("digest", None, TxnId(7), "notneeded", 5)},
        ("d", "u"): {None: StoredDecision("other", "open", TxnId(8), "notneeded", 5)},
        ("d", "none"): {},
    }
    assert fresh.conditions.for_entities("m", [entity("u")])[entity("u")].basis == waiting.basis


def test_tables_that_share_a_name_are_told_apart(fresh: OwnState) -> None:
    other = replace(seen("t"), entity=Entity(database="e", table="t"), basis=BASIS)
    fresh.conditions.record("m", [replace(seen("t"), basis=BASIS), replace(seen("u"), basis=BASIS), other])
    decisions = fresh.conditions.stored_decisions("m", [("d", "u"), ("e", "t")])
    assert {table: list(of_table) for table, of_table in decisions.items()} == {("d", "u"): [None], ("e", "t"): [None]}


def test_a_basis_may_be_forgotten(fresh: OwnState) -> None:
    fresh.conditions.record("m", [replace(seen(name, WELL), basis=BASIS) for name in ("t/p=1", "t/p=2", "u")])
    fresh.conditions.forget_bases("m", ("d", "t"))
    decisions = fresh.conditions.stored_decisions("m", [("d", "t"), ("d", "u")])
    assert {table: list(of_table) for table, of_table in decisions.items()} == {("d", "t"): [], ("d", "u"): [None]}
    fresh.conditions.forget_bases("m")
    assert fresh.conditions.stored_decisions("m", [("d", "u")]) == {("d", "u"): {}}
    assert names(fresh) == ["t/p=1", "t/p=2", "u"]


def test_tables_that_are_gone_are_forgotten(fresh: OwnState) -> None:
    fresh.conditions.record("m", [seen("t/p=1"), seen("t/p=2"), seen("u")])
    assert sorted(fresh.conditions.tables("m")) == [("d", "t"), ("d", "u")]
    fresh.conditions.forget_tables("m", [("d", "t")])
    assert fresh.conditions.tables("m") == [("d", "u")]


def test_only_what_has_nothing_to_merge_is_settled() -> None:
    assert seen("t", WELL).is_settled
    assert not any(row.is_settled for row in (seen("t", SICK), seen("t", WELL, "major"), seen("t")))


def test_all_that_was_seen_by_name(fresh: OwnState) -> None:
    fresh.conditions.record("m", [seen("a"), seen("t/p=1")])
    assert fresh.conditions.looks("m").keys() == {entity("a"), entity("t/p=1")}
    assert fresh.conditions.looks("other") == {}


def test_what_is_due_for_a_look_is_found_by_its_time(fresh: OwnState) -> None:
    times = {"never": None, "always": 0, "now": 7, "later": 8}
    fresh.conditions.record("m", [replace(seen(name), look_at=at) for name, at in times.items()])
    fresh.conditions.record("other", [replace(seen("x"), look_at=0)])
    assert {entity.table for entity in fresh.conditions.due_for_a_look("m", 7)} == {"always", "now"}


def test_looking_stops_unless_somebody_has_looked_since(fresh: OwnState) -> None:
    fresh.conditions.record("m", [seen("before", at=5), seen("since", at=6)])
    fresh.conditions.stop_looking("m", [entity("before"), entity("since"), entity("none")], before=6)
    assert fresh.conditions.due_for_a_look("m", 9) == [entity("since")]


def test_decisions_about_some_entities_are_read_by_their_names(fresh: OwnState) -> None:
    fresh.conditions.record("m", [replace(seen(f"t/p={n}"), basis=BASIS) for n in (1, 2)] + [seen("t/p=3")])
    entities = [entity(name) for name in ("t/p=1", "t/p=3", "t/p=4")]
    decisions = fresh.conditions.decisions_about("m", entities)
    assert decisions == {entity("t/p=1"): fresh.conditions.stored_decisions("m", [("d", "t")])["d", "t"]["p=1"]}
