from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

import pytest

from compactor.batches.assembly import PlannedBatch, plan_batches
from compactor.batches.driver import WorkerPass, run_batch
from compactor.batches.resident_application import ResidentRow, linger
from compactor.compaction.states import State
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site, own_state
from compactor.state.batches import BatchState
from compactor.worker.ending import Result
from tests.support.patience import until
from tests.support.tables import insert, make_table


def ask(site: Site, warehouse: Path, name: str, **parameters: str) -> None:
    table = make_table(site, warehouse, name, **parameters)
    for value in (1, 2):
        insert(site, table, [value])
    request_compaction(site, table=name)


def lingered(site: Site, batch: int, seconds: float = 0.01) -> list[WorkerPass]:
    done: list[WorkerPass] = []
    linger(site, batch, "app-1", seconds, lambda b: run_batch(site, b, InProcessRunner()), done.append)
    return done


def first_batch(site: Site, warehouse: Path) -> int:
    ask(site, warehouse, "a")
    (batch,) = plan_batches(site)
    run_batch(site, batch.batch_id, InProcessRunner())
    return batch.batch_id


def test_entries_that_arrive_meanwhile_run_in_the_same_application(deployment: Site, warehouse: Path) -> None:
    batch = first_batch(deployment, warehouse)
    ask(deployment, warehouse, "b")
    (done,) = lingered(deployment, batch)
    assert [(o.entry.entity.table, o.result) for o in done.outcomes] == [("b", Result.COMPACTED)]
    assert own_state(deployment).batches.residents(deployment.name) == []


def test_it_ends_without_work(deployment: Site, warehouse: Path) -> None:
    batch = first_batch(deployment, warehouse)
    started = time.monotonic()
    assert lingered(deployment, batch, 0.05) == []
    assert time.monotonic() - started >= 0.05


def test_other_routes_are_left_to_applications_of_their_own(deployment: Site, warehouse: Path) -> None:
    """Entries of another queue or conf never run in this application."""
    batch = first_batch(deployment, warehouse)
    ask(deployment, warehouse, "b", **{"compactor.hive.compactor.job.queue": "etl"})
    ask(deployment, warehouse, "c", **{"compactor.spark.executor.memory": "8g"})
    assert lingered(deployment, batch) == []
    waiting = plan_batches(deployment)
    assert [(b.queue, dict(b.conf), b.resident) for b in waiting] == [
        ("etl", {}, None),
        (None, {"spark.executor.memory": "8g"}, None),
    ]


def test_entries_of_other_routes_are_listed_once(
    deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand entries of another queue are not listed every second."""
    batch = first_batch(deployment, warehouse)
    ask(deployment, warehouse, "b", **{"compactor.hive.compactor.job.queue": "etl"})
    looks: list[Collection[str]] = []

    def counted(site: Site, pools: Collection[str], *, route: str) -> list[PlannedBatch]:
        looks.append(pools)
        return plan_batches(site, pools, route=route)

    monkeypatch.setattr("compactor.batches.resident_application.plan_batches", counted)
    assert lingered(deployment, batch, 0.3) == []
    assert looks == [{"default"}]


def test_a_batch_given_to_a_resident_needs_no_application(deployment: Site, warehouse: Path) -> None:
    batch = first_batch(deployment, warehouse)
    store = own_state(deployment)
    route = store.batches.get(batch).route
    assert route is not None
    with ResidentRow(store.batches, deployment.name, route, "app-1", 60_000) as presence:
        ask(deployment, warehouse, "b")
        (planned,) = plan_batches(deployment)
        assert (planned.resident, planned.to_json()["resident"]) == (presence.id, presence.id)
        assert store.batches.assigned_batch(presence.id) == planned.batch_id


def test_a_resident_that_works_stays_alive(deployment: Site, warehouse: Path) -> None:
    batch = first_batch(deployment, warehouse)
    store = own_state(deployment)
    with ResidentRow(store.batches, deployment.name, store.batches.get(batch).route or "", "app-1", 2000):
        (before,) = store.batches.residents(deployment.name)

        def is_later() -> bool:
            return any(found.alive_until > before.alive_until for found in store.batches.residents(deployment.name))

        until("it is marked as alive for longer", is_later)


def test_a_batch_given_to_a_dead_resident_is_planned_again(deployment: Site, warehouse: Path) -> None:
    batch = first_batch(deployment, warehouse)
    store = own_state(deployment)
    dead = store.batches.add_resident(deployment.name, store.batches.get(batch).route or "", "app-1", 60_000)
    ask(deployment, warehouse, "b")
    (planned,) = plan_batches(deployment)
    assert planned.resident == dead
    store.batches.extend_resident(dead, -1)
    (again,) = plan_batches(deployment)
    assert (again.resident, store.batches.get(planned.batch_id).state) == (None, BatchState.DONE)
    assert run_batch(deployment, again.batch_id, InProcessRunner()).outcomes[0].entry.state is State.WORKING


def test_without_spark_no_batch_is_taken(deployment: Site, warehouse: Path) -> None:
    """A driver outlives a killed JVM; every batch it took then would only fail."""
    batch = first_batch(deployment, warehouse)
    ask(deployment, warehouse, "b")
    done: list[WorkerPass] = []
    linger(
        deployment,
        batch,
        "app-1",
        60,
        lambda b: run_batch(deployment, b, InProcessRunner()),
        done.append,
        is_alive=bool,
    )
    assert done == []
    assert own_state(deployment).batches.residents(deployment.name) == []
    assert [planned.resident for planned in plan_batches(deployment)] == [None]


def test_a_batch_of_an_older_release_does_not_linger(
    deployment: Site, warehouse: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batch = own_state(deployment).batches.plan(deployment.name, None, None, [7], {})
    assert lingered(deployment, batch) == []
    assert "planned by an older release" in caplog.text
