from __future__ import annotations

import pytest

from compactor.base.errors import LostClaim, NotFound, Refused
from compactor.state.batches import BatchState, SchedulerTask
from compactor.state.state_database import OwnState

ALIVE = 60_000


def plan(state: OwnState, *entries: int, metastore: str = "m", reserved_ms: int = 60_000) -> int:
    return state.batches.plan(metastore, None, None, entries, {}, reserved_ms=reserved_ms)


def test_an_entry_is_in_one_batch_at_a_time(fresh: OwnState) -> None:
    plan(fresh, 1, 2)
    with pytest.raises(LostClaim, match="entries 2 of metastore m"):
        plan(fresh, 2, 3)
    assert fresh.batches.reserved("m") == {1, 2}
    plan(fresh, 2, metastore="other")
    with pytest.raises(Refused, match="at least one"):
        plan(fresh)


def test_a_reservation_ends_by_itself_and_with_its_batch(fresh: OwnState) -> None:
    plan(fresh, 1, reserved_ms=-1)
    assert fresh.batches.reserved("m") == set()
    renewed = plan(fresh, 1)
    assert fresh.batches.finish(renewed)
    assert not fresh.batches.finish(renewed)
    assert fresh.batches.reserved("m") == set()


def test_the_first_driver_has_it(fresh: OwnState) -> None:
    batch = plan(fresh, 1)
    assert fresh.batches.register(batch, "a", 60_000)
    assert not fresh.batches.register(batch, "b", 60_000)
    assert fresh.batches.register(batch, "a", 60_000)
    assert not fresh.batches.extend(batch, "b", 60_000)
    assert fresh.batches.extend(batch, "a", 120_000)
    assert not fresh.batches.finish(batch, "b")
    assert fresh.batches.finish(batch, "a")
    assert not fresh.batches.extend(batch, "a", 60_000)
    row = fresh.batches.get(batch)
    assert (row.state, row.driver, row.attempt) == (BatchState.DONE, "a", 1)


def test_a_batch_whose_driver_is_gone_is_planned_again(fresh: OwnState) -> None:
    batch = plan(fresh, 1, 2)
    assert not fresh.batches.renew(batch, 60_000)
    fresh.batches.set_application(batch, "application_1", 60_000)
    assert fresh.batches.register(batch, "a", 60_000)
    urls = {"tracking_url": "http://here:4040", "log_url": "http://node/log"}
    fresh.batches.describe(batch, "b", application_id="application_3", tracking_url="http://elsewhere", log_url=None)
    fresh.batches.describe(batch, "a", application_id="application_2", **urls)
    row = fresh.batches.get(batch)
    assert (row.tracking_url, row.log_url) == ("http://here:4040", "http://node/log")
    assert row.application_id == "application_1"  # its launcher's name for it stays
    assert not fresh.batches.renew(batch, 60_000)
    assert fresh.batches.extend(batch, "a", -1)
    assert fresh.batches.renew(batch, 60_000)
    row = fresh.batches.get(batch)
    assert row.state is BatchState.PLANNED
    assert (row.driver, row.application_id, row.tracking_url, row.log_url) == (None, None, None, None)
    assert row.reserved_until > row.read_at
    assert not fresh.batches.extend(batch, "a", 60_000)
    assert fresh.batches.register(batch, "c", 60_000)
    fresh.batches.describe(batch, "c", application_id="application_2", **urls)
    row = fresh.batches.get(batch)
    assert (row.attempt, row.application_id) == (2, "application_2")


def test_a_released_batch_is_nobody_s(fresh: OwnState) -> None:
    batch = plan(fresh, 1)
    assert fresh.batches.register(batch, "a", 60_000)
    assert fresh.batches.release(batch)
    assert not fresh.batches.release(batch)
    assert not fresh.batches.extend(batch, "a", 60_000)
    assert not fresh.batches.finish(batch, "a")
    assert not fresh.batches.register(batch, "b", 60_000)
    assert fresh.batches.get(batch).state is BatchState.RELEASED
    assert fresh.batches.reserved("m") == set()
    assert fresh.batches.renew(batch, 60_000)
    assert fresh.batches.reserved("m") == {1}


def test_a_batch_is_not_planned_again_over_another_one(fresh: OwnState) -> None:
    batch = plan(fresh, 1, 2)
    fresh.batches.finish(batch)
    plan(fresh, 2, 3)
    assert not fresh.batches.renew(batch, 60_000)
    assert fresh.batches.get(batch).state is BatchState.DONE


def test_a_planner_that_takes_an_entry_releases_the_batch_that_had_it(fresh: OwnState) -> None:
    """Its reservation has ended. Neither a late launcher nor a late driver gets it: a request is in one batch."""
    late, running = plan(fresh, 1, 2, reserved_ms=-1), plan(fresh, 3, reserved_ms=60_000)
    assert fresh.batches.register(running, "a", -1)
    other = plan(fresh, 4, reserved_ms=-1)
    plan(fresh, 2, 3)
    assert [fresh.batches.get(batch).state for batch in (late, running)] == [BatchState.RELEASED] * 2
    assert not fresh.batches.register(late, "b", 60_000)
    assert not fresh.batches.extend(running, "a", 60_000)
    assert fresh.batches.register(other, "b", 60_000)


def test_a_batch_that_is_planned_again_takes_its_entries_from_an_expired_one(fresh: OwnState) -> None:
    first = plan(fresh, 1)
    fresh.batches.release(first)
    second = plan(fresh, 1, reserved_ms=-1)
    assert fresh.batches.renew(first, 60_000)
    assert fresh.batches.get(second).state is BatchState.RELEASED


def test_a_batch_waits_for_the_task_of_a_scheduler(fresh: OwnState) -> None:
    def plan_for(entry: int, run: str) -> int:
        task = SchedulerTask(run=run, name=f"compact_{entry}")
        return fresh.batches.plan("m", None, None, [entry], {}, task=task, reserved_ms=-1)

    waiting, launched, other = plan_for(1, "a"), plan_for(2, "a"), plan_for(3, "b")
    plan(fresh, 4)
    fresh.batches.set_application(launched, "application_1", 60_000)
    assert [batch.id for batch in fresh.batches.list_unlaunched("m")] == [waiting, other]
    assert [batch.id for batch in fresh.batches.list_launched("m")] == [launched]
    assert [batch.id for batch in fresh.batches.list_of_run("m", "a")] == [waiting, launched]
    assert fresh.batches.keep(waiting, 60_000)
    assert not fresh.batches.keep(launched, 60_000)
    assert fresh.batches.reserved("m") == {1, 2, 4}
    assert fresh.batches.forget_task(waiting)
    assert not fresh.batches.forget_task(waiting)
    assert fresh.batches.register(launched, "driver", -1)
    assert fresh.batches.list_launched("m") == [], "its reservation has ended"
    assert not fresh.batches.forget_task(launched)
    assert not fresh.batches.keep(waiting, 60_000)
    row = fresh.batches.get(waiting)
    assert (row.state, row.scheduler_task) == (BatchState.RELEASED, None)
    assert fresh.batches.get(other).scheduler_task == SchedulerTask(run="b", name="compact_3")


def test_newest_first_by_state_and_metastore(fresh: OwnState) -> None:
    first, second = plan(fresh, 1), plan(fresh, 2)
    plan(fresh, 1, metastore="other")
    fresh.batches.finish(first)
    assert [batch.id for batch in fresh.batches.find("m")] == [second, first]
    assert [batch.id for batch in fresh.batches.find("m", states=[BatchState.PLANNED])] == [second]
    assert [batch.id for batch in fresh.batches.find("m", limit=1)] == [second]


def test_an_entry_knows_where_its_newest_application_is_shown(fresh: OwnState) -> None:
    assert fresh.batches.tracking_url("m", [1, 2]) is None
    for number in (1, 2):
        batch = plan(fresh, 1, number + 10)
        fresh.batches.register(batch, "a", 60_000)
        fresh.batches.describe(batch, "a", application_id=None, tracking_url=f"http://{number}", log_url=None)
        fresh.batches.finish(batch, "a")
    assert fresh.batches.tracking_url("m", [1]) == "http://2"
    assert fresh.batches.tracking_url("m", [11]) == "http://1"
    assert fresh.batches.tracking_url("other", [1]) is None


def test_what_is_not_there_is_named(fresh: OwnState) -> None:
    for call in (lambda: fresh.batches.get(7), lambda: fresh.batches.set_application(7, "a", 1)):
        with pytest.raises(NotFound, match="batch 7"):
            call()
    with pytest.raises(NotFound, match="batch 7"):
        fresh.batches.renew(7, 1)
    with pytest.raises(NotFound, match="batch 7"):
        fresh.batches.register(7, "a", 1)


def plan_for_route(state: OwnState, entry: int, route: str | None = "r", metastore: str = "m") -> int:
    return state.batches.plan(metastore, None, None, [entry], {}, route=route)


def taken_by(state: OwnState, batch: int) -> int | None:
    return state.batches.get(batch).resident


def test_a_batch_is_given_to_an_idle_resident_of_its_route(fresh: OwnState) -> None:
    mine = fresh.batches.add_resident("m", "r", "app-1", ALIVE)
    others = [
        plan_for_route(fresh, 1, "other"),
        plan_for_route(fresh, 2, metastore="n"),
        plan_for_route(fresh, 3, None),
    ]
    assert [taken_by(fresh, batch) for batch in others] == [None] * 3
    batch_id = plan_for_route(fresh, 4)
    assert (taken_by(fresh, batch_id), fresh.batches.assigned_batch(mine)) == (mine, batch_id)
    assert [r.application_id for r in fresh.batches.residents("m")] == ["app-1"]


def test_no_batch_waits_behind_another(fresh: OwnState) -> None:
    """A busy resident is assigned no batch: another application can begin at once."""
    mine = fresh.batches.add_resident("m", "r", "app-1", ALIVE)
    first, second = plan_for_route(fresh, 1), plan_for_route(fresh, 2)
    fresh.batches.register(first, "d", ALIVE)
    third = plan_for_route(fresh, 3)
    assert [taken_by(fresh, batch) for batch in (first, second, third)] == [mine, None, None]
    fresh.batches.finish(first, "d")
    assert taken_by(fresh, plan_for_route(fresh, 4)) == mine


def test_a_resident_with_a_batch_does_not_end(fresh: OwnState) -> None:
    mine = fresh.batches.add_resident("m", "r", "app-1", ALIVE)
    batch = plan_for_route(fresh, 1)
    assert not fresh.batches.remove_resident(mine)
    fresh.batches.register(batch, "d", ALIVE)
    fresh.batches.finish(batch, "d")
    assert fresh.batches.remove_resident(mine)
    assert taken_by(fresh, plan_for_route(fresh, 2)) is None


def test_what_was_given_to_one_that_died_is_free_again(fresh: OwnState) -> None:
    dead = fresh.batches.add_resident("m", "r", "app-1", ALIVE)
    batch, begun = plan_for_route(fresh, 1), None
    fresh.batches.extend_resident(dead, -1)
    begun = plan_for_route(fresh, 2)
    assert taken_by(fresh, begun) is None
    assert fresh.batches.residents("m") == []
    assert [fresh.batches.remove_dead_residents(metastore) for metastore in ("other", "m", "m")] == [0, 1, 0]
    assert fresh.batches.get(batch).state is BatchState.DONE
    assert fresh.batches.reserved("m") == {2}
    assert not fresh.batches.extend_resident(dead, ALIVE)


def test_a_batch_that_is_planned_again_is_nobodys(fresh: OwnState) -> None:
    fresh.batches.add_resident("m", "r", "app-1", ALIVE)
    batch = plan_for_route(fresh, 1)
    fresh.batches.finish(batch)
    assert fresh.batches.renew(batch, ALIVE)
    assert taken_by(fresh, batch) is None
