from __future__ import annotations

from compactor.state.batches import BatchState
from compactor.state.store import OwnState

ALIVE = 60_000


def plan(state: OwnState, entry: int, route: str | None = "r", metastore: str = "m") -> int:
    return state.batches.plan(metastore, None, None, [entry], {}, route=route)


def taken_by(state: OwnState, batch: int) -> int | None:
    return state.batches.get(batch).resident


def test_a_batch_is_given_to_an_idle_resident_of_its_route(fresh: OwnState) -> None:
    mine = fresh.residents.enter("m", "r", "app-1", ALIVE)
    others = [plan(fresh, 1, "other"), plan(fresh, 2, metastore="n"), plan(fresh, 3, None)]
    assert [taken_by(fresh, batch) for batch in others] == [None] * 3
    batch_id = plan(fresh, 4)
    assert (taken_by(fresh, batch_id), fresh.residents.assigned_batch(mine)) == (mine, batch_id)
    assert [r.application_id for r in fresh.residents.find("m")] == ["app-1"]


def test_no_batch_waits_behind_another(fresh: OwnState) -> None:
    """A busy resident is assigned no batch: another application can begin at once."""
    mine = fresh.residents.enter("m", "r", "app-1", ALIVE)
    first, second = plan(fresh, 1), plan(fresh, 2)
    fresh.batches.register(first, "d", ALIVE)
    third = plan(fresh, 3)
    assert [taken_by(fresh, batch) for batch in (first, second, third)] == [mine, None, None]
    fresh.batches.finish(first, "d")
    assert taken_by(fresh, plan(fresh, 4)) == mine


def test_a_resident_with_a_batch_does_not_end(fresh: OwnState) -> None:
    mine = fresh.residents.enter("m", "r", "app-1", ALIVE)
    batch = plan(fresh, 1)
    assert not fresh.residents.leave(mine)
    fresh.batches.register(batch, "d", ALIVE)
    fresh.batches.finish(batch, "d")
    assert fresh.residents.leave(mine)
    assert taken_by(fresh, plan(fresh, 2)) is None


def test_what_was_given_to_one_that_died_is_free_again(fresh: OwnState) -> None:
    dead = fresh.residents.enter("m", "r", "app-1", ALIVE)
    batch, begun = plan(fresh, 1), None
    fresh.residents.extend(dead, -1)
    begun = plan(fresh, 2)
    assert taken_by(fresh, begun) is None
    assert fresh.residents.find("m") == []
    assert [fresh.residents.remove_dead(metastore) for metastore in ("other", "m", "m")] == [0, 1, 0]
    assert fresh.batches.get(batch).state is BatchState.DONE
    assert fresh.batches.reserved("m") == {2}
    assert not fresh.residents.extend(dead, ALIVE)


def test_a_batch_that_is_planned_again_is_nobodys(fresh: OwnState) -> None:
    fresh.residents.enter("m", "r", "app-1", ALIVE)
    batch = plan(fresh, 1)
    fresh.batches.finish(batch)
    assert fresh.batches.renew(batch, ALIVE)
    assert taken_by(fresh, batch) is None
