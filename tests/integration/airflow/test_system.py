"""A real scheduler (two of them), triggerer and API server; components are killed mid-work, and a person intervenes.

Each test ends with one compaction: none is lost, none is done twice.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.state.batches import BatchState
from tests.support.airflow_system import CLOSED, POOL, SECOND, WORKER, System, system
from tests.support.command_lines import command_lines
from tests.support.downloads import ROOT
from tests.support.driver import FOLDER, TRACKING_URL
from tests.support.spark_cluster import QUICK, standalone

pytestmark = pytest.mark.whole

Seen = Callable[[], Mapping[str, str]]
#: Transactions of the metastore: more than two scans take, so that one which is fired again and again would be seen.
LOOKS = 100
COMPACTED = ([State.READY_FOR_CLEANING], [State.SUCCEEDED])


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """The command lines of all processes since the first test began, with their environments."""
    with command_lines() as found:
        yield found


@pytest.fixture(scope="module")
def airflow(seen: Seen, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with system(tmp_path_factory.mktemp("system")) as started:
        yield started


def states(airflow: System, table: Table) -> list[State]:
    return [entry.state for entry in airflow.entries(table)]


def by_event(airflow: System, dag: str) -> list[dict[str, Any]]:
    """Returns the runs of ``dag`` that an asset's event started."""
    return [run for run in airflow.dag_runs(dag) if run["run_type"] == "asset_triggered"]


def driver_of(airflow: System, table: Table) -> int:
    """Returns the driver's process, once it is held and its task waits for it."""

    def found() -> int | None:
        drivers, task = airflow.drivers(table), airflow.task(table)
        return drivers[0] if drivers and task is not None and task["state"] == "deferred" else None

    return int(airflow.until(f"a driver for {table.name}, and a task that waits", found))


def waits(airflow: System, table: Table, number: int) -> bool:
    """Returns true if try ``number`` of its task waits."""
    task = airflow.task(table)
    return task is not None and (task["state"], task["try_number"]) == ("deferred", number)


def ends(airflow: System, table: Table, wanted: str = "success") -> dict[str, Any]:
    """Returns the task of ``table``, once it and its run are over and both as ``wanted``."""

    def over() -> tuple[str, dict[str, Any]] | None:
        task = airflow.task(table)
        run = task and airflow.servers.call("GET", f"/api/v2/dags/{WORKER}/dagRuns/{task['dag_run_id']}")
        return (run["state"], task) if task and run["state"] in ("success", "failed") else None

    state, task = airflow.until(f"the run of {table.name} is over", over)
    assert (state, task["state"]) == (wanted, wanted), airflow.state()
    return dict(task)


def compacted_once(airflow: System, table: Table, rows: list[Any], *, attempts: int = 1) -> None:
    """Both for who counts requests and for who reads."""
    assert states(airflow, table) in COMPACTED
    assert airflow.runs(table) == 1
    assert airflow.rows(table) == rows
    assert len([path for path in Path(table.location).iterdir() if path.name.startswith("base_")]) == 1
    batch = airflow.batch(table)
    assert batch is not None
    assert (batch.state, batch.attempt) == (BatchState.DONE, attempts)


def test_from_a_threshold_to_the_clean_directory(airflow: System) -> None:
    """The sensor sees a change; two schedulers collide in nothing; each step is told to the next by an asset's event."""
    cleaner = "compaction_cleaner"
    airflow.hold("found")
    table = airflow.table("found", **{"compactorthreshold.hive.compactor.delta.num.threshold": "1"})
    rows = airflow.rows(table)
    driver_of(airflow, table)
    # A run by the clock may clean what is compacted before that is announced; then there is nothing to announce.
    airflow.until("no run of the cleaner by the clock is near", lambda: airflow.clock_is_far(cleaner, 60))
    airflow.let_go(table)
    airflow.until("cleaned", lambda: states(airflow, table) == [State.SUCCEEDED])
    ends(airflow, table)
    compacted_once(airflow, table, rows)
    for dag in (WORKER, cleaner):
        airflow.until(f"a run of {dag} by an event", lambda dag=dag: by_event(airflow, dag))


def test_a_waiting_task_holds_no_slot_and_a_killed_triggerer_only_lets_go(airflow: System) -> None:
    """The pool has one slot, and another batch gets it; the triggerer dies, and the driver has heard of nothing."""
    with airflow.held("long") as table:
        rows = airflow.rows(table)
        driver = driver_of(airflow, table)
        pool = airflow.servers.call("GET", f"/api/v2/pools/{POOL}")
        assert (pool["occupied_slots"], pool["deferred_slots"]) == (0, 1)
        short = airflow.table("short")
        airflow.request(short)
        airflow.until("the short one", lambda: states(airflow, short) in COMPACTED)
        ends(airflow, short)
        assert states(airflow, table) == [State.WORKING]
        airflow.servers.kill("triggerer")
        airflow.servers.again("triggerer")
        assert airflow.drivers(table) == [driver]
    task = ends(airflow, table)
    compacted_once(airflow, table, rows)
    log = airflow.task_log(task)
    assert "default.long: working" in log
    assert f"Spark shows it at {TRACKING_URL}" in log
    assert task["try_number"] == 1


def test_killed_schedulers_find_the_driver_that_went_on(airflow: System) -> None:
    """One of two is killed, the other continues alone; then it is killed too, and a restarted one sees the driver end."""
    with airflow.held("schedulers") as table:
        rows = airflow.rows(table)
        driver = driver_of(airflow, table)
        airflow.servers.kill("scheduler")
        other = airflow.table("alone")
        airflow.request(other)
        ends(airflow, other)
        assert states(airflow, other) in COMPACTED
        airflow.servers.kill(SECOND)
        assert airflow.drivers(table) == [driver]
        airflow.servers.again("scheduler")
    ends(airflow, table)
    compacted_once(airflow, table, rows)


def test_a_killed_driver_is_followed_by_another(airflow: System) -> None:
    with airflow.held("driver") as table:
        rows = airflow.rows(table)
        driver = driver_of(airflow, table)
        os.kill(driver, signal.SIGKILL)
        airflow.until("the second driver", lambda: airflow.drivers(table))
    ends(airflow, table)
    compacted_once(airflow, table, rows, attempts=2)


def test_marking_the_task_ends_application_and_request(airflow: System) -> None:
    with airflow.held("marked") as table:
        rows = airflow.rows(table)
        driver_of(airflow, table)
        task = airflow.task(table)
        assert task is not None
        path = f"/api/v2/dags/{WORKER}/dagRuns/{task['dag_run_id']}/taskInstances/compact/{task['map_index']}"
        airflow.servers.call("PATCH", path, {"new_state": "failed"})
        airflow.until("the driver has ended", lambda: not airflow.drivers(table))
        airflow.until("the request is aborted", lambda: states(airflow, table) == [State.ABORTED])
    ends(airflow, table, "failed")
    batch = airflow.batch(table)
    assert batch is not None
    assert batch.state is BatchState.RELEASED
    assert airflow.rows(table) == rows


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_clearing_the_task_starts_another_driver(airflow: System, late: bool) -> None:
    """Also where the task waits again, for the same driver, before the triggerer hears that it was cleared."""
    with airflow.held(f"cleared_{late}".lower()) as table:
        rows = airflow.rows(table)
        driver = driver_of(airflow, table)
        task = airflow.task(table)
        assert task is not None
        which = {"dag_run_id": task["dag_run_id"], "task_ids": [["compact", task["map_index"]]]}
        body = {"dry_run": False, "only_failed": False, **which}
        with airflow.servers.paused("triggerer") if late else nullcontext():
            airflow.servers.call("POST", f"/api/v2/dags/{WORKER}/clearTaskInstances", body)
            if late:
                airflow.until("the second try waits", lambda: waits(airflow, table, 2))
                assert airflow.drivers(table) == [driver]
        airflow.until("the first driver has ended", lambda: driver not in airflow.drivers(table))
        airflow.until("the second driver", lambda: airflow.drivers(table))
    ends(airflow, table)
    compacted_once(airflow, table, rows, attempts=2)


def test_a_backlog_that_stays_is_not_fired_again(airflow: System) -> None:
    """The sensor is edge-triggered: while nothing is new it goes on looking, and starts nothing."""
    table = airflow.table("backlog")
    airflow.request(table, CLOSED)

    def waiting() -> str | None:
        run = airflow.dag_runs("compaction_initiator")[0]["dag_run_id"]
        (changed,) = [
            t for t in airflow.tasks("compaction_initiator") if (t["dag_run_id"], t["task_id"]) == (run, "changed")
        ]
        return str(run) if changed["state"] == "deferred" else None

    def looks() -> int:
        return int(
            airflow.database.sql("SELECT xact_commit FROM pg_stat_database WHERE datname = 'metastore'", "postgres")
        )

    def settled() -> bool:
        first, so_far = airflow.until("the sensor waits", waiting), looks()
        airflow.until("more looks", lambda: looks() >= so_far + LOOKS)
        return waiting() == first

    # The request itself is news, and what the worker makes of it.
    assert any(settled() for _ in range(3))
    assert states(airflow, table) == [State.INITIATED]


def spark_defaults(folder: Path) -> dict[str, str]:
    """A site's settings of Spark: a small driver, and an event log in ``folder``."""
    (folder / "events").mkdir()
    lines = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "600m",  # a worker has 768 MB
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    text = "".join(f"{key} {value}\n" for key, value in lines.items())
    (folder / "spark-defaults.conf").write_text(text, "utf-8")
    return {"SPARK_CONF_DIR": str(folder)}


def test_client_mode_on_a_standalone_cluster(airflow: System, seen: Seen) -> None:
    """The default launcher: the driver is spark-submit's, a child of its task, and its executors are the cluster's."""
    folder = airflow.folder / "spark"
    folder.mkdir()
    # The scheduler may have two tasks under way; the other scheduler stays away.
    for name in ("scheduler", SECOND):
        airflow.servers.kill(name)
    launcher = {"AIRFLOW__COMPACTOR__LAUNCHER": "spark-submit", "AIRFLOW__COMPACTOR__SPARK_BINARY": "spark-submit"}
    airflow.servers.again("scheduler", **launcher, **spark_defaults(folder))
    with standalone(folder, workers=1, environment={"PYTHONPATH": str(ROOT)}) as master:
        cluster = {"connection_id": "spark_default", "conn_type": "spark", "host": master}
        airflow.servers.call("POST", "/api/v2/connections", cluster)
        table = airflow.table("cluster")
        rows = airflow.rows(table)
        airflow.request(table)
        task = ends(airflow, table)
        compacted_once(airflow, table, rows)
    assert f"--master {master}" in airflow.task_log(task)
    lines = seen()
    ours = [line for line, environment in lines.items() if f"{FOLDER}={airflow.folder}" in environment]
    submits = [line for line in ours if "org.apache.spark.deploy.SparkSubmit" in line and "--batch" in line]
    assert submits
    assert all(f"--master {master}" in line for line in submits)
    assert [line for line in lines if "CoarseGrainedExecutorBackend" in line]
    (log,) = (folder / "events").iterdir()
    assert log.read_text("utf-8").count("SparkListenerTaskEnd") > 0


def test_the_password_is_nowhere_to_be_read(airflow: System, seen: Seen) -> None:
    """Not in what Airflow, its tasks and triggers, drivers and Spark wrote, nor on a command line, nor in Airflow's
    database: neither in an XCom nor in a trigger nor in a connection, which is encrypted. The last test of this file: it
    searches what all others left."""
    files = [path for path in airflow.folder.rglob("*") if path.is_file()]
    folders = {name for path in files for name in path.relative_to(airflow.folder).parts[:-1]}
    assert folders >= {"airflow", "spark", "events", "component-logs", "compactor-drivers", "work0"}, folders
    assert [path for path in files if airflow.password.encode() in path.read_bytes()] == []
    assert [line for line in seen() if airflow.password in line] == []
    dump = airflow.database.dump("airflow")
    assert "compactor_default" in dump
    assert airflow.password not in dump
