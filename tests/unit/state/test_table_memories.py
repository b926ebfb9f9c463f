from __future__ import annotations

import pytest
from sqlalchemy import update

from compactor.base.ids import TxnId
from compactor.compaction.decision_reuse import Basis
from compactor.compaction.queue_entry import Entity
from compactor.state.seen_conditions import SeenEntity
from compactor.state.state_database import OwnState
from compactor.state.state_tables import TABLE_MEMORIES
from compactor.state.table_memories import TableMemory

T, U = ("d", "t"), ("d", "u")
MEMORY = TableMemory("inputs", "1 2 3", "4 5", "", 2, 9, 1000, 2000)
ENTITIES = {"p=1": "1 5\t0 0\t7 99", "": "2 9\t3 1\t"}


def remember(state: OwnState, writer: str, *tables: tuple[str, str]) -> None:
    state.memories.claim("m", dict.fromkeys(tables), writer)
    state.memories.save("m", dict.fromkeys(tables, (MEMORY, ENTITIES)), writer)


def record(state: OwnState, writer: str | None) -> None:
    basis = Basis("digest", None, TxnId(9))
    seen = SeenEntity(entity=Entity(database="d", table="t", partition="p=1"), outcome="x", because="x", basis=basis)
    state.conditions.record("m", [seen], writer=writer)


def test_a_memory_comes_back_to_the_next_who_claims_it(fresh: OwnState) -> None:
    remember(fresh, "a", T)
    assert fresh.memories.read("m") == {T: ("a", MEMORY)}
    assert fresh.memories.read("other") == {}
    assert fresh.memories.claim("m", {T: "a", U: None}, "b") == {T: ENTITIES, U: None}
    assert fresh.memories.read("m") == {}, "it is invalid until b has saved its own"


def test_a_memory_that_is_not_the_one_that_was_read_is_not_used(fresh: OwnState) -> None:
    remember(fresh, "a", T)
    assert fresh.memories.claim("m", {T: "an earlier one"}, "b") == {T: None}


def test_a_damaged_memory_is_not_used(fresh: OwnState) -> None:
    """It does not keep those of other tables from being used."""
    remember(fresh, "a", T, U)
    with fresh.database.write() as conn:
        conn.execute(update(TABLE_MEMORIES).where(TABLE_MEMORIES.c.TABLE_NAME == "t").values(ENTITIES=b"damaged"))
    assert fresh.memories.claim("m", {T: "a", U: "a"}, "b") == {T: None, U: ENTITIES}


def test_a_purged_decision_makes_a_memory_invalid(fresh: OwnState) -> None:
    """A memory says that each candidate has a stored decision."""
    remember(fresh, "a", T, U)
    record(fresh, "a")
    assert fresh.conditions.purge(0) == 1
    assert set(fresh.memories.read("m")) == {U}


def test_only_the_last_who_has_claimed_a_table_saves_a_memory(fresh: OwnState) -> None:
    fresh.memories.claim("m", {T: None}, "a")
    fresh.memories.claim("m", {T: None}, "b")
    fresh.memories.save("m", {T: (MEMORY, ENTITIES)}, "a")
    assert fresh.memories.read("m") == {}
    fresh.memories.save("m", {T: (MEMORY, ENTITIES)}, "b")
    assert fresh.memories.read("m") == {T: ("b", MEMORY)}


@pytest.mark.parametrize(("writer", "stays"), [("a", True), ("b", False), (None, True)])
def test_a_decision_of_another_pass_makes_a_memory_invalid(fresh: OwnState, writer: str | None, stays: bool) -> None:
    """It may rest on older rows. A look that no pass reuses is found by its ``look_at``."""
    remember(fresh, "a", T, U)
    record(fresh, writer)
    assert set(fresh.memories.read("m")) == ({T, U} if stays else {U})


def test_a_decision_of_another_pass_makes_a_claim_invalid(fresh: OwnState) -> None:
    fresh.memories.claim("m", {T: None}, "a")
    record(fresh, "b")
    fresh.memories.save("m", {T: (MEMORY, ENTITIES)}, "a")
    assert fresh.memories.read("m") == {}


@pytest.mark.parametrize("name", ["p=a\nb", "p=a\tb"])
def test_a_table_whose_names_cannot_be_told_apart_is_not_remembered(fresh: OwnState, name: str) -> None:
    fresh.memories.claim("m", {T: None, U: None}, "a")
    fresh.memories.save("m", {T: (MEMORY, {name: "1 1\t0 0\t"}), U: (MEMORY, {})}, "a")
    assert fresh.memories.read("m") == {U: ("a", MEMORY)}
    assert fresh.memories.claim("m", {U: "a"}, "b") == {U: {}}


def test_whoever_wants_a_table_looked_at_again_forgets_its_memory(fresh: OwnState) -> None:
    remember(fresh, "a", T, U)
    fresh.conditions.forget_bases("m", T)
    assert set(fresh.memories.read("m")) == {U}
    fresh.conditions.forget_tables("m", [U])
    assert fresh.memories.read("m") == {}
    remember(fresh, "a", T, U)
    fresh.conditions.forget_bases("m")
    assert fresh.memories.read("m") == {}


def test_thousands_of_tables_are_claimed_and_saved(fresh: OwnState) -> None:
    names = [("d", f"t{number}") for number in range(1200)]
    remember(fresh, "a", *names)
    claimed = fresh.memories.claim("m", dict.fromkeys(names, "a"), "b")
    assert list(claimed) == names
    assert all(entities == ENTITIES for entities in claimed.values())
