"""A whole Airflow on PostgreSQL, with two schedulers, over a metastore that requires a password. Started once for all
tests.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet

from compactor.compaction.queue_entry import Entry
from compactor.database.engine import open_database
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema import create
from compactor.requests.request import request_compaction
from compactor.site.deployment import open_deployment
from compactor.site.site import Site, own_state
from compactor.state.batches import Batch
from compactor.state.state_upgrade import upgrade
from demo.servers import AirflowServers, ServersFailed
from tests.support.downloads import ROOT
from tests.support.driver import FOLDER, binary
from tests.support.ports import free_port
from tests.support.servers import Server, postgres
from tests.support.tables import insert, make_table, rows_of

SECOND = "scheduler-2"
POOL = "compaction"  #: a pool of Airflow's, with one slot
CLOSED = "closed"  #: a compaction pool that is outside its hours
WORKER = "compaction_worker"
DAGS = ("compaction_initiator", WORKER, "compaction_cleaner")


class Servers(AirflowServers):
    """Airflow's components, including a second scheduler; each can be killed and started again."""

    def start(self, timeout: float = 300) -> None:
        super().start(timeout)
        self.again(SECOND)

    def stop(self) -> None:
        """Stops all at once; the demo's tests cover an orderly shutdown."""
        for name in self._children:
            self.kill(name)
        super().stop()

    def kill(self, name: str) -> None:
        """Sends SIGKILL to the component, if it is alive, and to all its children."""
        child = self._children[name]
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def revive(self) -> None:
        """Starts every component again that has ended."""
        for name in [name for name, child in self._children.items() if name != "migrate" and child.poll() is not None]:
            self.again(name)

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Suspends the component and all its children until the block ends."""
        group = self._children[name].pid
        os.killpg(group, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(group, signal.SIGCONT)

    def again(self, name: str, **environment: str) -> None:
        """Starts a killed component again, with more in its environment from now on."""
        self._environment.update(environment)
        serves_logs = name in ("scheduler", SECOND, "triggerer")
        self._launch(name, [name.removesuffix("-2"), *(["--skip-serve-logs"] if serves_logs else [])])


class System:
    """The operations of a test: tables, requests, tasks, and drivers that it holds."""

    def __init__(self, folder: Path, url: str, password: str, servers: Servers, database: Server) -> None:
        self.folder = folder
        self.url = url
        self.password = password
        self.servers = servers
        self.database = database

    @contextmanager
    def site(self) -> Iterator[Site]:
        flags = {"url": self.url, "warehouse": str(self.folder / "warehouse"), "compactor.mode": "clean"}
        with open_deployment(flags=flags) as site:
            yield site

    def table(self, name: str, **parameters: str) -> Table:
        """Creates a table with two deltas of four rows."""
        with self.site() as site:
            table = make_table(site, self.folder / "warehouse", name, **parameters)
            insert(site, table, range(4))
            insert(site, table, range(4, 8))
            return table

    def request(self, table: Table, pool: str | None = None) -> None:
        """Queues a request as ALTER TABLE COMPACT would; Airflow is not informed."""
        with self.site() as site:
            request_compaction(site, table=table.name, type="major", pool=pool)

    @contextmanager
    def held(self, name: str) -> Iterator[Table]:
        """Yields a table with a request whose drivers start nothing until the block ends or ``let_go`` is called."""
        table = self.table(name)
        self.hold(name)
        try:
            self.request(table)
            yield table
        finally:
            self.let_go(table)

    def hold(self, name: str) -> None:
        """Keeps drivers of the table ``name`` from starting anything from now on."""
        (self.folder / "hold" / name).touch()

    def let_go(self, table: Table) -> None:
        """Lets the table's drivers continue."""
        (self.folder / "hold" / table.name).unlink(missing_ok=True)

    def drivers(self, table: Table) -> list[int]:
        """Returns the process IDs of the held drivers of ``table`` that are alive."""
        found = [int(sign.suffix[1:]) for sign in (self.folder / "drivers").glob(f"{table.name}.*")]
        return [pid for pid in found if _is_running(pid)]

    def rows(self, table: Table) -> list[Any]:
        with self.site() as site:
            return rows_of(site, table)

    def entries(self, table: Table) -> list[Entry]:
        """Returns the entries of the queue and of the history."""
        with self.site() as site:
            entries = site.metastore.entries
            every = (*entries.queue(), *entries.history())
            return [entry for entry in every if entry.entity.table == table.name]

    def runs(self, table: Table) -> int:
        """Returns how many times an entry of ``table`` was compacted."""
        with self.site() as site:
            return sum(len(own_state(site).runs.of_entry(site.name, entry.id)) for entry in self.entries(table))

    def batch(self, table: Table) -> Batch | None:
        """Returns the batch with the request for ``table``; None before it is planned."""
        return next(iter(self.batches(table)), None)

    def batches(self, table: Table) -> list[Batch]:
        """Returns every batch that had the request for ``table``, the newest first."""
        ids = {entry.id for entry in self.entries(table)}
        with self.site() as site:
            return [batch for batch in own_state(site).batches.find(site.name) if ids & set(batch.entry_ids)]

    def reserved(self) -> set[int]:
        """Returns the entries that a batch has reserved."""
        with self.site() as site:
            return own_state(site).batches.reserved(site.name)

    def start_run(self, dag: str, **conf: Any) -> str:
        """Starts a run of ``dag`` by hand and returns its id."""
        body = {"logical_date": None, "conf": conf}
        return str(self.servers.call("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"])

    def set_paused(self, dag: str, is_paused: bool) -> None:
        """Pauses a DAG, or ends its pause."""
        self.servers.call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": is_paused})

    def restart(self, component: str, **environment: str) -> None:
        """Kills a component and starts it again; returns once Airflow's API answers."""
        self.servers.kill(component)
        self.servers.again(component, **environment)
        self.until("the API answers", lambda: self.servers.call("GET", "/api/v2/dags?limit=1"))

    def change_task(self, table: Table, new_state: str | None) -> None:
        """Does what a person does to the table's task: marks it, or clears it if ``new_state`` is None."""
        task = self.task(table)
        assert task is not None
        run, index = task["dag_run_id"], task["map_index"]
        if new_state is None:
            body = {"dry_run": False, "only_failed": False, "dag_run_id": run, "task_ids": [["compact", index]]}
            self.servers.call("POST", f"/api/v2/dags/{WORKER}/clearTaskInstances", body)
        else:
            path = f"/api/v2/dags/{WORKER}/dagRuns/{run}/taskInstances/compact/{index}"
            self.servers.call("PATCH", path, {"new_state": new_state})

    def end_of_run(self, dag: str, run: str) -> str:
        """Returns the state in which the run has ended."""

        def state() -> str | None:
            state = str(self.servers.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}")["state"])
            return state if state in ("success", "failed") else None

        return str(self.until(f"the end of {run} of {dag}", state))

    def tasks_of_run(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        """Returns the tasks of a run by name, as in ``compact_3``."""
        tasks = self.servers.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=1000")
        return {
            task["task_id"] + ("" if task["map_index"] < 0 else f"_{task['map_index']}"): task
            for task in tasks["task_instances"]
        }

    def tasks(self, dag: str = "~") -> list[dict[str, Any]]:
        """Returns all tasks so far."""
        found = self.servers.call("GET", f"/api/v2/dags/{dag}/dagRuns/~/taskInstances?limit=1000")
        return list(found["task_instances"])

    def task(self, table: Table) -> dict[str, Any] | None:
        """Returns the task that submits the batch of ``table``; None before it exists."""
        batch = self.batch(table)
        if batch is None or batch.scheduler_task is None:
            return None
        run = batch.scheduler_task.run.split("/", 2)[-1]
        return self.tasks_of_run(WORKER, run).get(batch.scheduler_task.name)

    def dag_runs(self, dag: str) -> list[dict[str, Any]]:
        """Returns the DAG runs, newest first."""
        return list(self.servers.call("GET", f"/api/v2/dags/{dag}/dagRuns?limit=100&order_by=-run_after")["dag_runs"])

    def clock_is_far(self, dag: str, seconds: float) -> bool:
        """Returns true if no run of ``dag`` is under way and the next scheduled one is at least ``seconds`` away."""
        following = self.servers.call("GET", f"/api/v2/dags/{dag}")["next_dagrun_run_after"]
        over = all(run["state"] in ("success", "failed") for run in self.dag_runs(dag))
        far = datetime.now(UTC) + timedelta(seconds=seconds)
        return over and following is not None and datetime.fromisoformat(following) > far

    def task_log(self, task: dict[str, Any]) -> str:
        """Returns the log of all tries of the task, including what triggers logged."""
        name = f"dag_id={task['dag_id']}/run_id={task['dag_run_id']}/task_id={task['task_id']}"
        files = [file for file in (self.servers.home / "logs" / name).rglob("*.log*") if file.is_file()]
        of_its_own = [file for file in files if task["map_index"] < 0 or f"map_index={task['map_index']}" in str(file)]
        return "\n".join(file.read_text("utf-8", errors="replace") for file in sorted(of_its_own))

    def until(self, what: str, condition: Callable[[], Any], seconds: float = 900) -> Any:
        """Returns the first true answer of ``condition``."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                found = condition()
            except (OSError, ServersFailed):
                found = None
            if found:
                return found
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s\n{self.state()}"
            time.sleep(0.5)

    def state(self) -> str:
        """Returns the state, for the message of a failed test."""
        lines = [self.servers.tail(name) for name in ("scheduler", SECOND, "triggerer")]
        for task in self.tasks():
            if task["dag_id"] != WORKER and task["state"] in ("success", "skipped"):
                continue
            lines += [
                f"{task['dag_id']} {task['task_id']} {task['map_index']}: {task['state']}",
                self.task_log(task)[-3000:],
            ]
        return "\n".join(lines)


def _is_running(pid: int) -> bool:
    """Tells whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def _environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns what Airflow needs to know about us. A dead component is noticed soon, and a slow one is not taken for
    dead.
    """
    config = folder / "compactor.toml"
    far = (datetime.now(UTC) + timedelta(days=3)).strftime("%a")
    config.write_text(
        f'[metastore.default]\nmode = "clean"\n[metastore.default.pool.{CLOSED}]\nwindows = ["{far} 10:00-11:00"]\n'
        "[metastore.default.settings]\n" + "".join(f'"{key}" = "{value}"\n' for key, value in settings.items())
    )
    bundles = [
        {
            "name": name,
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(path)},
        }
        for name, path in (("compactor", ROOT / "dags"), ("own", folder / "own-dags"))
    ]
    return {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "PYTHONPATH": str(ROOT),
        FOLDER: str(folder),
        "AIRFLOW__COMPACTOR__CONFIG": str(config),
        "AIRFLOW__COMPACTOR__CLEANER_INTERVAL": "300",
        "AIRFLOW__COMPACTOR__CONN_ID": "compactor_{metastore}",
        "AIRFLOW__COMPACTOR__POLL_SECONDS": "0.5",
        "AIRFLOW__COMPACTOR__LAUNCHER": "process",
        "AIRFLOW__COMPACTOR__POOL": POOL,
        "AIRFLOW__COMPACTOR__SPARK_BINARY": str(binary(folder)),
        "AIRFLOW__CORE__FERNET_KEY": Fernet.generate_key().decode(),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "3600",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
        "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "8",
    }


@contextmanager
def system(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    own_dags: Mapping[str, str] | None = None,
) -> Iterator[System]:
    """Yields the system with everything started, and leaves nothing of it behind.

    Args:
        environment: more variables of its components.
        settings: settings of Compactor.
        own_dags: further DAGs, which are not paused: the text of each file by the DAG's id.
    """
    port = free_port()
    password = secrets.token_hex(16)
    for name in ("warehouse", "hold", "drivers", "own-dags"):
        (folder / name).mkdir()
    for dag, text in (own_dags or {}).items():
        (folder / "own-dags" / f"{dag}.py").write_text(text, "utf-8")
    with postgres(port) as server:
        server.sql(f"ALTER USER hive PASSWORD '{password}';", "postgres")
        own = server.make("airflow")
        server.make("metastore")
        url = f"postgresql+psycopg://hive:{password}@127.0.0.1:{port}/metastore"
        database = open_database(url)
        create.create(database)
        upgrade(database)
        database.close()
        connections = {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": own,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": own,
        }
        with Servers(
            folder / "airflow",
            ROOT / "dags",
            _environment(folder, settings or {}) | connections | dict(environment or {}),
        ) as servers:
            servers.start(600)
            started = System(folder, url, password, servers, server)
            _introduce(started, (*DAGS, *(own_dags or {})))
            yield started


def _introduce(started: System, dags: Sequence[str]) -> None:
    """Does the one-time set-up of a site: the connection, the pool, and unpausing the DAGs."""
    call = started.servers.call
    place = {"conn_type": "hive_compactor", "host": str(started.folder / "warehouse"), "password": started.url}
    call("POST", "/api/v2/connections", {"connection_id": "compactor_default", **place})
    call("POST", "/api/v2/pools", {"name": POOL, "slots": 1})
    for dag in dags:
        started.until(f"DAG {dag}", lambda dag=dag: call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False}))
    alive = "/api/v2/jobs?is_alive=true&job_type="
    for kind, count in (("SchedulerJob", 2), ("TriggererJob", 1)):
        started.until(kind, lambda kind=kind, count=count: call("GET", alive + kind)["total_entries"] >= count)
