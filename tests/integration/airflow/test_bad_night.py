"""Accidents of Airflow at night, on real schedulers, a triggerer and an API server, with the default launcher.

After each of them every request is compacted exactly once, nothing stays reserved that nobody works on, and no task is
green with work undone or red with work done.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.state.batches import BatchState
from tests.support.airflow_system import SECOND, WORKER, System, system
from tests.support.tables import insert

pytestmark = pytest.mark.whole

MOST_MAPPED = 3
RESERVED_S = 8  #: seconds for which a batch stays reserved without a word from anybody
COMPACTED = (State.READY_FOR_CLEANING, State.SUCCEEDED)
OWN = "compact_own"
OWN_DAG = f"""
from airflow.sdk import DAG, Param, task
from compactor.airflow.compact_table import CompactTableOperator

with DAG("{OWN}", schedule=None, params={{"table": Param("", type="string")}}):
    CompactTableOperator(task_id="compact", table="{{{{ params.table }}}}", type="major", only_if_due=False)
"""
MAPPED = "compact_mapped"
MAPPED_DAG = f"""
from airflow.sdk import DAG, task
from compactor.airflow.compact_table import CompactTableOperator
from compactor.airflow.sensors import CompactionDueSensor

with DAG("{MAPPED}", schedule=None):
    due = CompactionDueSensor(task_id="due", database="mapped")
    CompactTableOperator.partial(task_id="compact", wait=False).expand_kwargs(
        due.output.map(lambda candidate: {{"table": candidate["table"], "partition": candidate["partition"]}})
    )
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    environment = {
        "AIRFLOW__CORE__MAX_MAP_LENGTH": str(MOST_MAPPED),
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__COMPACTOR__LAUNCHER": "spark-submit",
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "3",
    }
    settings = {"compactor.batch.bytes": "1", "compactor.batch.reserved": f"{RESERVED_S}s"}
    own_dags = {OWN: OWN_DAG, MAPPED: MAPPED_DAG}
    with system(tmp_path_factory.mktemp("night"), environment, settings, own_dags) as started:
        yield started


def state_of(airflow: System, table: Table) -> State:
    [entry] = airflow.entries(table)
    return entry.state


def must_be_compacted_once(airflow: System, table: Table, rows: list[Any], *, attempts: int = 1) -> None:
    """Checks the request, its batch and the rows of a table."""
    airflow.until(f"{table.name} is compacted", lambda: state_of(airflow, table) in COMPACTED)
    assert airflow.runs(table) == 1
    assert airflow.rows(table) == rows
    [batch] = airflow.batches(table)
    airflow.until("its driver has ended", lambda: airflow.batches(table)[0].state is BatchState.DONE)
    assert batch.attempt == attempts
    assert not airflow.reserved() & {entry.id for entry in airflow.entries(table)}


def driver_of(airflow: System, table: Table) -> int:
    """Returns the process of the table's held driver, for which its task waits in a slot."""

    def driver() -> int | None:
        drivers, task = airflow.drivers(table), airflow.task(table)
        return drivers[0] if drivers and task is not None and task["state"] == "running" else None

    return int(airflow.until(f"a driver for {table.name}", driver))


def task_state(airflow: System, table: Table) -> tuple[str, int]:
    """Returns the state of the table's task and the number of its try."""
    task = airflow.task(table)
    return ("none", 0) if task is None else (task["state"] or "none", task["try_number"])


def ends(airflow: System, table: Table, expected: str = "success") -> dict[str, Any]:
    """Returns the table's task once it has ended as expected."""
    airflow.until(f"the task of {table.name}", lambda: task_state(airflow, table)[0] in ("success", "failed"))
    assert task_state(airflow, table)[0] == expected, airflow.state()
    task = airflow.task(table)
    assert task is not None
    return task


def test_more_batches_than_airflow_maps_are_compacted_in_several_runs(airflow: System) -> None:
    tables = [airflow.table(f"many{number}") for number in range(MOST_MAPPED + 1)]
    airflow.set_paused(WORKER, True)
    for table in tables:
        airflow.request(table)
    airflow.set_paused(WORKER, False)
    first = airflow.start_run(WORKER)
    assert airflow.end_of_run(WORKER, first) == "success", airflow.state()
    *bounded, last = tables
    assert [state_of(airflow, table) in COMPACTED for table in bounded] == [True] * MOST_MAPPED
    assert airflow.reserved() == set()
    airflow.start_run(WORKER)
    airflow.until("another run compacts the rest", lambda: state_of(airflow, last) in COMPACTED)
    assert [airflow.runs(table) for table in tables] == [1] * len(tables)


def test_more_due_tables_than_airflow_maps_are_requested_in_several_runs(airflow: System) -> None:
    """The most urgent first. None is compacted meanwhile, so the second run lists the same and joins them."""
    tables = [
        airflow.table(f"due{number}", database="mapped", no_auto_compaction="true") for number in range(MOST_MAPPED + 1)
    ]
    with airflow.site() as site:
        for number, table in enumerate(tables):
            for row in range(10 + number):
                insert(site, table, [row])
    run = airflow.start_run(MAPPED)
    assert airflow.end_of_run(MAPPED, run) == "success", airflow.state()
    calm, *urgent = tables
    for table in urgent:
        assert len(airflow.entries(table)) == 1
    assert airflow.entries(calm) == []
    airflow.until("they are compacted", lambda: all(state_of(airflow, table) in COMPACTED for table in urgent))
    second = airflow.start_run(MAPPED)
    assert airflow.end_of_run(MAPPED, second) == "success", airflow.state()
    assert len(airflow.entries(calm)) == 1


@pytest.mark.parametrize("dag", ["compaction_initiator", WORKER, "compaction_cleaner", "acid_housekeeper"])
def test_a_dag_without_a_conf_refuses_every_word(airflow: System, dag: str) -> None:
    """The run does nothing: it would do more than it was asked for."""
    airflow.set_paused(dag, False)
    run = airflow.start_run(dag, dry_run=True)
    assert airflow.end_of_run(dag, run) == "failed"
    assert f"the conf of DAG {dag} has 'dry_run'; expected: no conf" in logs_of(airflow, dag, run)


def test_an_unknown_word_of_the_form_is_refused_by_name(airflow: System) -> None:
    airflow.set_paused("compact_table", False)
    table = airflow.table("form")
    run = airflow.start_run("compact_table", table="default.form", dryrun=True)
    assert airflow.end_of_run("compact_table", run) == "failed"
    assert "'dryrun'; expected: table, " in logs_of(airflow, "compact_table", run)
    assert airflow.entries(table) == []


def logs_of(airflow: System, dag: str, run: str) -> str:
    return "".join(airflow.task_log(task) for task in airflow.tasks_of_run(dag, run).values())


def test_a_request_that_waits_for_a_slot_is_in_one_batch(airflow: System) -> None:
    """The pool has one slot, and a long compaction has it. Each pass of the worker comes after the reservation's end."""
    with airflow.held("slow") as slow:
        rows = airflow.rows(slow)
        airflow.start_run(WORKER)
        driver_of(airflow, slow)
        waiting = airflow.table("waiting")
        waiting_rows = airflow.rows(waiting)
        airflow.request(waiting)
        airflow.start_run(WORKER)
        first = airflow.until("a task that waits", lambda: airflow.task(waiting))
        for _ in range(3):
            batch = airflow.batches(waiting)[0]
            airflow.until("its reservation has ended", lambda end=batch.reserved_until: time.time() * 1000 > end)
            run = airflow.start_run(WORKER)
            assert airflow.end_of_run(WORKER, run) == "success", airflow.state()
            assert airflow.tasks_of_run(WORKER, run)["compact"]["state"] == "skipped"
        # A run by an event or the clock may have kept it as well.
        assert len(airflow.batches(waiting)) == 1
        assert airflow.task(waiting) == first
    for table, kept in ((slow, rows), (waiting, waiting_rows)):
        ends(airflow, table)
        must_be_compacted_once(airflow, table, kept)


def test_a_batch_whose_task_a_person_has_ended_is_given_back(airflow: System) -> None:
    """It waited for a slot, so no process could give it back. The next pass does, and plans its request once more."""
    with airflow.held("busy") as busy:
        airflow.start_run(WORKER)
        driver_of(airflow, busy)
        marked = airflow.table("marked")
        airflow.request(marked)
        airflow.start_run(WORKER)
        task = airflow.until("a task that waits", lambda: airflow.task(marked))
        path = f"/api/v2/dags/{WORKER}/dagRuns/{task['dag_run_id']}/taskInstances/compact/{task['map_index']}"
        airflow.servers.call("PATCH", path, {"new_state": "failed"})
        airflow.start_run(WORKER)
        airflow.until("a second batch", lambda: len(airflow.batches(marked)) == 2)
    airflow.until("it is compacted", lambda: state_of(airflow, marked) in COMPACTED)
    assert airflow.runs(marked) == 1
    assert [batch.state for batch in airflow.batches(marked)] == [BatchState.DONE, BatchState.RELEASED]


def test_a_plan_that_could_not_be_handed_on_gives_back(airflow: System) -> None:
    """The API server's bound is lower than the worker's, which cannot know it: the run is red, and nothing is reserved."""
    tables = [airflow.table(f"refused{number}") for number in range(MOST_MAPPED)]
    airflow.set_paused(WORKER, True)
    for table in tables:
        airflow.request(table)
    airflow.restart("api-server", AIRFLOW__CORE__MAX_MAP_LENGTH="1")
    run = airflow.start_run(WORKER)
    airflow.set_paused(WORKER, False)
    airflow.until(
        "the plan is tried again", lambda: airflow.tasks_of_run(WORKER, run)["plan"]["state"] == "up_for_retry"
    )
    airflow.until("everything is given back", lambda: airflow.reserved() == set(), seconds=RESERVED_S / 2)
    airflow.restart("api-server", AIRFLOW__CORE__MAX_MAP_LENGTH=str(MOST_MAPPED))
    assert airflow.end_of_run(WORKER, run) == "success", airflow.state()
    assert [(state_of(airflow, table) in COMPACTED, airflow.runs(table)) for table in tables] == [(True, 1)] * len(
        tables
    )


def test_an_api_server_that_is_away_ends_no_compaction(airflow: System) -> None:
    """Airflow ends the task after three heartbeats. The driver goes on, and the next try finds it."""
    with airflow.held("away") as table:
        rows = airflow.rows(table)
        airflow.start_run(WORKER)
        driver = driver_of(airflow, table)
        given_up = count_given_up(airflow)
        airflow.servers.kill("api-server")
        airflow.until("Airflow ends the task", lambda: count_given_up(airflow) > given_up)
        airflow.servers.again("api-server")
        airflow.until("another try waits", lambda: task_state(airflow, table)[0] == "deferred")
        assert airflow.drivers(table) == [driver]
    ends(airflow, table)
    must_be_compacted_once(airflow, table, rows)


def count_given_up(airflow: System) -> int:
    """Returns how many task processes Airflow has ended since they lost the API server."""
    logs = [airflow.servers.logs / f"{name}.log" for name in ("scheduler", SECOND)]
    return sum(log.read_text("utf-8", errors="replace").count("Too many failed heartbeats") for log in logs)


@pytest.mark.parametrize("new_state", ["failed", "success", None], ids=["failed", "success", "cleared"])
def test_a_person_ends_a_driver_whose_task_holds_its_slot(airflow: System, new_state: str | None) -> None:
    with airflow.held(f"ended_{new_state}".lower()) as table:
        rows = airflow.rows(table)
        airflow.start_run(WORKER)
        driver = driver_of(airflow, table)
        airflow.change_task(table, new_state)
        airflow.until("its driver has ended", lambda: driver not in airflow.drivers(table))
        if new_state is None:
            airflow.until("another driver", lambda: airflow.drivers(table))
        else:
            airflow.until("the request is aborted", lambda: state_of(airflow, table) is State.ABORTED)
    if new_state is None:
        ends(airflow, table)
        must_be_compacted_once(airflow, table, rows, attempts=2)
    assert airflow.rows(table) == rows


def test_a_second_try_joins_what_the_first_waited_for_whoever_requested_it(airflow: System) -> None:
    """It is compacted, and the cleaner is not there: another request would be refused."""
    airflow.set_paused("compaction_cleaner", True)
    try:
        with airflow.held("joined") as table:
            airflow.start_run(WORKER)
            driver_of(airflow, table)
            run = airflow.start_run(OWN, table="default.joined")
            airflow.until("it waits", lambda: own_task(airflow, run)["state"] == "deferred")
            airflow.servers.kill("triggerer")
        airflow.until("it is compacted", lambda: state_of(airflow, table) is State.READY_FOR_CLEANING)
        body = {"dry_run": False, "only_failed": False, "dag_run_id": run, "task_ids": ["compact"]}
        airflow.servers.call("POST", f"/api/v2/dags/{OWN}/clearTaskInstances", body)
        airflow.servers.again("triggerer")
        assert airflow.end_of_run(OWN, run) == "success", airflow.state()
        assert own_task(airflow, run)["try_number"] == 2
        assert len(airflow.entries(table)) == airflow.runs(table) == 1
    finally:
        airflow.set_paused("compaction_cleaner", False)


def own_task(airflow: System, run: str) -> dict[str, Any]:
    return airflow.tasks_of_run(OWN, run)["compact"]
