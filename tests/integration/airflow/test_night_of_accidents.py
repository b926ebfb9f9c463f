"""A night of accidents: parts of Airflow die and hang while tasks are queued, running, deferred and resuming.

Persons clear and mark tasks, a DAG's code changes, and Airflow's database restarts. In the morning every request is
compacted exactly once, or aborted by a person; nothing is reserved; no task is green with work undone or red with work
done.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from tests.support.airflow_system import POOL, SECOND, WORKER, System, system
from tests.support.tables import rows_of

pytestmark = pytest.mark.whole

log = logging.getLogger(__name__)
ENTRIES = int(os.environ.get("NIGHT_ENTRIES", "200"))  #: of one run
COMPACTED = (State.READY_FOR_CLEANING, State.SUCCEEDED)
INTERVALS = count(31)  #: of the worker's DAG, in seconds: another one is another version of the DAG
RECOVERY_S = 5  #: until a component that cannot go on has ended
SUSPENDED_S = 12  #: longer than the triggerer's and shorter than a task's heartbeats may be late


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    environment = {
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        "AIRFLOW__COMPACTOR__WORKER_INTERVAL": "30",
    }
    settings = {"compactor.batch.bytes": "1", "compactor.batch.reserved": "30s"}
    with system(tmp_path_factory.mktemp("accidents"), environment, settings) as started:
        yield started


def until(airflow: System, what: str, condition: Callable[[], Any], seconds: float = 900) -> Any:
    """Returns the first true answer of ``condition``; meanwhile every component that has ended starts again.

    So it is under systemd: a scheduler or triggerer ends when it loses its database, at once or after its tasks.
    """

    def revive_and_ask() -> Any:
        airflow.servers.revive()
        return condition()

    log.info("until: %s", what)
    return airflow.until(what, revive_and_ask, seconds)


def set_slots(airflow: System, slots: int, *, for_deferred: bool = False) -> None:
    """Sets the slots of the pool, and whether a task that waits without a process holds one."""
    pool = {"pool": POOL, "slots": slots, "include_deferred": for_deferred}
    airflow.servers.call("PATCH", f"/api/v2/pools/{POOL}?update_mask=slots&update_mask=include_deferred", pool)


def suspend(airflow: System, component: str) -> None:
    with airflow.servers.paused(component):
        time.sleep(SUSPENDED_S)


def restart_database(airflow: System) -> None:
    """Ends all connections of Airflow, as a failover does."""
    airflow.database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'airflow'", "postgres")


def change_code(airflow: System) -> None:
    """Lets Airflow store another version of the DAG: its interval is a second longer."""
    before = read_parse_time(airflow)
    airflow.restart("dag-processor", AIRFLOW__COMPACTOR__WORKER_INTERVAL=str(next(INTERVALS)))
    until(airflow, "another version of the DAG", lambda: read_parse_time(airflow) != before)


def read_parse_time(airflow: System) -> str:
    return str(airflow.servers.call("GET", f"/api/v2/dags/{WORKER}")["last_parsed_time"])


def kill_both_schedulers(airflow: System) -> None:
    for name in ("scheduler", SECOND):
        airflow.servers.kill(name)
    for name in ("scheduler", SECOND):
        airflow.servers.again(name)


def pause(airflow: System) -> None:
    airflow.set_paused(WORKER, True)
    time.sleep(SUSPENDED_S)
    airflow.set_paused(WORKER, False)


ACCIDENTS: dict[str, Callable[[System], None]] = {
    "kill -9 of both schedulers": kill_both_schedulers,
    "kill -9 of the triggerer": lambda airflow: airflow.restart("triggerer"),
    "kill -9 of the API server": lambda airflow: airflow.restart("api-server"),
    "SIGSTOP of a scheduler": lambda airflow: suspend(airflow, "scheduler"),
    "SIGSTOP of the triggerer": lambda airflow: suspend(airflow, "triggerer"),
    "SIGSTOP of the API server": lambda airflow: suspend(airflow, "api-server"),
    "a restart of the database": restart_database,
    "a change of the DAG's code": change_code,
    "a pause of the DAG": pause,
}


def held_tables(airflow: System, phase: str) -> dict[str, Table]:
    """Returns tables with requests whose drivers are held: one that nobody touches, and one for each action of a person."""
    names = {"kept": "kept", "cleared": "cleared", "failed": "marked failed", "success": "marked success"}
    tables = {name: airflow.table(f"{phase}_{name}") for name in names}
    for table in tables.values():
        airflow.hold(table.name)
        airflow.request(table)
    return tables


def have_state(airflow: System, tables: dict[str, Table], *states: str) -> bool:
    tasks = [airflow.task(table) for table in tables.values()]
    return all(task is not None and task["state"] in states for task in tasks)


def go_through_accidents(airflow: System, before_each: Callable[[str], None] = lambda accident: None) -> None:
    for name, accident in ACCIDENTS.items():
        before_each(name)
        log.info("accident: %s", name)
        accident(airflow)
        time.sleep(RECOVERY_S)
        until(airflow, "the API answers", lambda: airflow.servers.call("GET", "/api/v2/dags?limit=1"))


def act_on_tasks(airflow: System, tables: dict[str, Table]) -> None:
    airflow.change_task(tables["cleared"], None)
    airflow.change_task(tables["failed"], "failed")
    airflow.change_task(tables["success"], "success")


def must_be_well(airflow: System, tables: dict[str, Table], aborted: tuple[str, ...]) -> None:
    """Checks the requests of a phase in the morning; ``aborted`` are those that a person has ended."""
    for name, table in tables.items():
        expected = (State.ABORTED,) if name in aborted else COMPACTED
        until(airflow, f"{table.name} is {expected}", lambda t=table, e=expected: last_state(airflow, t) in e)
        assert airflow.runs(table) == (0 if name in aborted else 1), table.name
    until(airflow, "nothing is reserved", lambda: not ids_of(airflow, tables) & airflow.reserved())
    for name, table in tables.items():
        if name not in aborted:
            until(airflow, f"the task of {table.name} is green", lambda t=table: green(airflow, t))


def last_state(airflow: System, table: Table) -> State:
    return max(airflow.entries(table), key=lambda entry: entry.id).state


def ids_of(airflow: System, tables: dict[str, Table]) -> set[int]:
    return {entry.id for table in tables.values() for entry in airflow.entries(table)}


def green(airflow: System, table: Table) -> bool:
    task = airflow.task(table)
    return task is not None and task["state"] == "success"


def test_while_tasks_are_deferred_and_resume(airflow: System) -> None:
    """In the middle of each accident a compaction ends, and its task hears of it. The others wait all the time."""
    set_slots(airflow, 4)
    waiting = held_tables(airflow, "deferred")
    resuming = {accident: airflow.table(f"resuming{number}") for number, accident in enumerate(ACCIDENTS)}
    for table in resuming.values():
        airflow.hold(table.name)
        airflow.request(table)
    airflow.start_run(WORKER)
    every = waiting | resuming
    until(airflow, "all wait", lambda: have_state(airflow, every, "deferred") and have_drivers(airflow, every))

    def end_compaction(accident: str) -> None:
        table = resuming[accident]
        airflow.let_go(table)
        until(airflow, f"{table.name} is compacted", lambda: last_state(airflow, table) in COMPACTED)

    go_through_accidents(airflow, end_compaction)
    until(airflow, "all wait", lambda: have_state(airflow, waiting, "deferred"))
    must_be_well(airflow, resuming, ())
    act_on_tasks(airflow, waiting)
    must_be_aborted(airflow, waiting, "failed", "success")
    let_all_go(airflow, waiting)
    must_be_well(airflow, waiting, ("failed", "success"))


def have_drivers(airflow: System, tables: dict[str, Table]) -> bool:
    return all(airflow.drivers(table) for table in tables.values())


def must_be_aborted(airflow: System, tables: dict[str, Table], *names: str) -> None:
    until(
        airflow,
        "a person has ended them",
        lambda: all(last_state(airflow, tables[name]) is State.ABORTED for name in names),
    )


def let_all_go(airflow: System, tables: dict[str, Table]) -> None:
    for table in tables.values():
        airflow.let_go(table)


def test_while_tasks_are_queued(airflow: System) -> None:
    """A batch whose task a person ends before it starts is planned once more: its request waits on."""
    set_slots(airflow, 0)
    tables = held_tables(airflow, "queued")
    let_all_go(airflow, tables)
    airflow.start_run(WORKER)
    until(airflow, "all wait for a slot", lambda: have_state(airflow, tables, "scheduled"))
    go_through_accidents(airflow)
    assert [len(airflow.batches(table)) for table in tables.values()] == [1] * len(tables)
    act_on_tasks(airflow, tables)
    set_slots(airflow, 4)
    must_be_well(airflow, tables, ())
    assert [len(airflow.batches(tables[name])) for name in ("kept", "cleared")] == [1, 1]


def test_while_tasks_run(airflow: System) -> None:
    """With the default launcher: the tasks hold their slots until the first accident. Later tries find the drivers."""
    set_slots(airflow, 4)
    for name in ("scheduler", SECOND):
        airflow.restart(name, AIRFLOW__COMPACTOR__LAUNCHER="spark-submit")
    tables = held_tables(airflow, "running")
    airflow.start_run(WORKER)
    until(airflow, "all run", lambda: have_state(airflow, tables, "running") and have_drivers(airflow, tables))
    go_through_accidents(airflow)
    until(airflow, "later tries wait for them", lambda: have_state(airflow, tables, "deferred"))
    act_on_tasks(airflow, tables)
    must_be_aborted(airflow, tables, "failed", "success")
    let_all_go(airflow, tables)
    must_be_well(airflow, tables, ("failed", "success"))
    for name in ("scheduler", SECOND):
        airflow.restart(name, AIRFLOW__COMPACTOR__LAUNCHER="process")


def test_many_mapped_entries(airflow: System) -> None:
    """In the middle of them both schedulers and the API server are killed. Four drivers run at a time."""
    set_slots(airflow, 4, for_deferred=True)
    airflow.set_paused(WORKER, True)
    tables = {str(number): airflow.table(f"mapped{number}") for number in range(ENTRIES)}
    for table in tables.values():
        airflow.request(table)
    airflow.set_paused(WORKER, False)
    run = airflow.start_run(WORKER)
    seconds = 900 + 30 * ENTRIES
    for part in (3, 2):
        least = ENTRIES // part
        until(airflow, f"{least} are compacted", lambda n=least: count_compacted(airflow, tables) >= n, seconds)
        kill_both_schedulers(airflow)
        airflow.restart("api-server")
    until(airflow, "all are compacted", lambda: count_compacted(airflow, tables) == ENTRIES, seconds)
    assert airflow.end_of_run(WORKER, run) == "success", airflow.state()
    with airflow.site() as site:
        assert [len(rows_of(site, table)) for table in tables.values()] == [8] * ENTRIES
    assert {airflow.runs(table) for table in tables.values()} == {1}


def count_compacted(airflow: System, tables: dict[str, Table]) -> int:
    names = {table.name for table in tables.values()}
    with airflow.site() as site:
        entries: list[Any] = [*site.metastore.entries.queue(), *site.metastore.entries.history()]
    return sum(entry.entity.table in names and entry.state in COMPACTED for entry in entries)
