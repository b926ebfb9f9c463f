from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.utils.state import TaskInstanceState

from compactor.airflow import waiting_batches
from compactor.airflow.waiting_batches import (
    end_marked,
    give_back_planned,
    keep_or_give_back,
    most_mapped,
    name_run,
)
from compactor.batches.assembly import PlannedBatch, plan_batches
from compactor.compaction.states import State
from compactor.requests.request import request_compaction
from compactor.site.site import Site, own_state
from compactor.state.batches import BatchState, SchedulerTask
from tests.support.tables import insert, make_table, with_settings

RUN = SimpleNamespace(dag_id="compaction_worker", run_id="manual__2026")


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Airflow's variables."""
    values: dict[str, str] = {}

    class Variable:
        @staticmethod
        def get(key: str, default: str | None = None) -> str | None:
            return values.get(key, default)

        @staticmethod
        def set(key: str, value: str) -> None:
            values[key] = value

    monkeypatch.setattr(waiting_batches, "Variable", Variable)
    return values


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    """Three tables with requests; a reservation ends at once."""
    for name in ("a", "b", "c"):
        insert(deployment, make_table(deployment, warehouse, name), [1])
        request_compaction(deployment, table=name)
    return with_settings(deployment, compactor_batch_bytes="1", compactor_batch_reserved="0s")


def plan(site: Site) -> list[PlannedBatch]:
    run = name_run(RUN)
    return plan_batches(site, task_for=lambda pool, planned: waiting_batches.name_task(run, pool, planned))


def reservable(site: Site) -> Site:
    return with_settings(site, compactor_batch_bytes="1", compactor_batch_reserved="1h")


def let_states_be(monkeypatch: pytest.MonkeyPatch, states: dict[str, Any] | None) -> None:
    def read(*, dag_id: str, run_ids: list[str]) -> dict[str, Any]:
        assert (dag_id, run_ids) == (RUN.dag_id, [RUN.run_id])
        return {} if states is None else {RUN.run_id: states}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(read))


def test_a_task_is_named_by_its_place_in_the_list_of_its_pool(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__AIRFLOW_POOLS", "night=x")
    pools = ("night", None, "night", "other")
    planned = [SimpleNamespace(pool=pool) for pool in pools]
    names = [waiting_batches.name_task("r", pool, planned[:i]).name for i, pool in enumerate(pools)]  # type: ignore[arg-type]
    assert names == ["compact__night_0", "compact_0", "compact__night_1", "compact_1"]


@pytest.mark.parametrize(
    ("states", "kept"),
    [
        ({"plan": "running", "compact": None}, [True, True, True]),  # the list has not reached Airflow yet
        ({"compact_0": "scheduled", "compact_1": "queued", "compact_2": None}, [True, True, True]),
        ({"compact_0": "running", "compact_1": "up_for_retry", "compact_2": "deferred"}, [True, True, True]),
        ({"compact_0": "success", "compact_1": TaskInstanceState.FAILED, "compact_2": "removed"}, [False] * 3),
        ({"compact_0": "queued", "compact_1": "skipped"}, [True, False, False]),  # the list became shorter
        ({"plan": "failed", "compact": "upstream_failed"}, [False] * 3),
        ({"plan": "failed", "compact": "skipped"}, [False] * 3),
        (None, [False] * 3),  # the run is deleted
    ],
)
def test_a_batch_stays_reserved_while_its_task_may_start(
    site: Site, monkeypatch: pytest.MonkeyPatch, states: dict[str, Any] | None, kept: list[bool]
) -> None:
    let_states_be(monkeypatch, states)
    batches = [own_state(site).batches.get(batch.batch_id) for batch in plan(site)]
    assert own_state(site).batches.reserved("default") == set()
    keep_or_give_back(reservable(site))
    reserved = own_state(site).batches.reserved("default")
    assert [set(batch.entry_ids) <= reserved for batch in batches] == kept
    states_now = [own_state(site).batches.get(batch.id).state for batch in batches]
    assert [state is BatchState.PLANNED for state in states_now] == kept


def test_another_try_of_a_plan_gives_back_what_the_first_one_planned(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed, or its list did not reach Airflow. What was launched stays."""
    first = plan(reservable(site))
    own_state(site).batches.set_application(first[0].batch_id, "application_1", 60_000)
    keep_or_give_back(reservable(site), name_run(RUN))
    again = plan(reservable(site))
    assert [own_state(site).batches.get(batch.batch_id).state for batch in first] == [
        BatchState.PLANNED,
        BatchState.RELEASED,
        BatchState.RELEASED,
    ]
    assert len(again) == 2
    give_back_planned(site, name_run(RUN))
    assert len(plan(reservable(site))) == 2


def launch_all(site: Site) -> list[PlannedBatch]:
    planned = plan(reservable(site))
    for batch in planned:
        own_state(site).batches.set_application(batch.batch_id, f"application_{batch.batch_id}", 60_000)
    return planned


def states_of(site: Site, planned: list[PlannedBatch]) -> list[BatchState]:
    return [own_state(site).batches.get(batch.batch_id).state for batch in planned]


@pytest.mark.parametrize(
    ("state", "is_ended"),
    [
        ("success", True),
        ("skipped", True),
        (TaskInstanceState.REMOVED, True),
        ("failed", False),  # its tries ran out, and its driver goes on
        ("up_for_retry", False),
        ("deferred", False),
        ("running", False),
        (None, False),  # cleared
    ],
)
def test_what_a_person_marks_between_two_tries_is_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch, state: Any, is_ended: bool
) -> None:
    """No process and no trigger has heard of it. The requests end too, as when a waiting task is marked."""
    planned = launch_all(site)
    let_states_be(monkeypatch, {"compact_0": state, "compact_1": "deferred"})
    end_marked(site)
    ended = BatchState.RELEASED if is_ended else BatchState.PLANNED
    assert states_of(site, planned) == [ended, BatchState.PLANNED, BatchState.PLANNED]
    aborted = [entry.id for entry in site.metastore.entries.history() if entry.state is State.ABORTED]
    assert aborted == ([*own_state(site).batches.get(planned[0].batch_id).entry_ids] if is_ended else [])


def test_a_task_that_ended_well_with_its_batch_is_nothing_to_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver has not said yet that it ends."""
    planned = launch_all(site)
    [entry_id] = own_state(site).batches.get(planned[0].batch_id).entry_ids
    entry = site.metastore.claims.claim("compactor-worker-h-1-x", "1", pool_timeout_ms=0, ids=[entry_id])
    assert entry is not None
    site.metastore.claims.finish(entry, State.REFUSED, "nothing to do")
    let_states_be(monkeypatch, {"compact_0": "success"})
    end_marked(site)
    assert states_of(site, planned) == [BatchState.PLANNED] * 3


def test_the_name_of_a_task_stands_for_the_batch_that_it_got_last(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleared ``plan`` hands the names out again, while a driver of the first list goes on."""
    [first, *_] = plan(reservable(site))
    own_state(site).batches.set_application(first.batch_id, "application_1", 60_000)
    keep_or_give_back(reservable(site), name_run(RUN))
    [again, *_] = launch_all(site)
    let_states_be(monkeypatch, {"compact_0": "success"})
    end_marked(site)
    assert states_of(site, [first, again]) == [BatchState.PLANNED, BatchState.RELEASED]


def test_batches_of_another_airflow_are_left_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    """Its runs may have the same names."""
    plan(reservable(site))
    variables.clear()
    let_states_be(monkeypatch, None)
    keep_or_give_back(reservable(site), name_run(RUN))
    assert len(own_state(site).batches.reserved("default")) == 3


def test_launched_batches_of_another_airflow_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    planned = launch_all(site)
    variables.clear()
    let_states_be(monkeypatch, {"compact_0": "success"})
    end_marked(site)
    assert states_of(site, planned) == [BatchState.PLANNED] * 3


def test_the_bound_is_airflows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert most_mapped() == 1024
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "7")
    assert most_mapped() == 7


def test_outside_of_a_task_there_is_none() -> None:
    assert waiting_batches.current_task() is None


def test_a_batch_that_no_scheduler_has_planned_has_no_task(site: Site) -> None:
    [batch, *_] = plan_batches(site)
    assert own_state(site).batches.get(batch.batch_id).scheduler_task is None
    [planned, *_] = plan(site)
    task = own_state(site).batches.get(planned.batch_id).scheduler_task
    assert task == SchedulerTask(run=name_run(RUN), name="compact_0")
