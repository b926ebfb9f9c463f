"""A whole Airflow over a real YARN: its worker, schedulers and triggerer are killed, and the application goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from compactor.compaction.states import State
from compactor.launch.yarn_application import make_tag
from compactor.metastore.catalog.values import Table
from compactor.state.batches import BatchState
from tests.support.airflow_system import SECOND, System, system
from tests.support.yarn import Yarn
from tests.support.yarn_site import NO_EXECUTOR_FITS, YarnSite

MASTER = {"connection_id": "spark_default", "conn_type": "spark", "host": "yarn", "extra": '{"deploy-mode": "cluster"}'}


@pytest.fixture
def airflow(on_yarn: YarnSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Its tasks submit to YARN in cluster mode; drivers find metastore and password by a compactor.toml."""
    folder = tmp_path_factory.mktemp("airflow")
    launcher = {"AIRFLOW__COMPACTOR__LAUNCHER": "spark-submit", "AIRFLOW__COMPACTOR__SPARK_BINARY": "spark-submit"}
    with system(folder, {**on_yarn.spark_home({}), **launcher}) as started:
        url = make_url(started.url)
        (folder / "password").write_text(str(url.password))
        (folder / "password").chmod(0o600)
        own = replace(on_yarn, warehouse=folder / "warehouse")
        further = f'password_file = "{folder / "password"}"'
        own.write_config(url._replace(password=None).render_as_string(), {}, further, to=folder / "compactor.toml")
        started.servers.call("POST", "/api/v2/connections", MASTER)
        yield started


def tags(airflow: System, table: Table) -> str | None:
    batch = airflow.batch(table)
    return None if batch is None else make_tag("default", batch.id, batch.planned_at)


def listed(airflow: System, yarn: Yarn, table: Table) -> list[dict[str, Any]]:
    tag = tags(airflow, table)
    return yarn.applications(tag=tag) if tag else []


def test_killed_parts_of_airflow_find_the_application_that_went_on(airflow: System, on_yarn: YarnSite) -> None:
    yarn = on_yarn.yarn
    table = airflow.table("t")
    rows = airflow.rows(table)
    with on_yarn.occupied("default", memory=NO_EXECUTOR_FITS):  # no executor fits beside a driver
        airflow.request(table)
        airflow.until("an application", lambda: listed(airflow, yarn, table))
        for name in ("scheduler", SECOND):  # with the worker, whose task may just be recording the launch
            airflow.servers.kill(name)
        airflow.servers.again("scheduler")
        airflow.until("its driver at work", lambda: [e.state for e in airflow.entries(table)] == [State.WORKING])
        task = airflow.until("a task that waits", lambda: waiting(airflow, table))
        airflow.servers.kill("triggerer")
        airflow.servers.again("triggerer")
        airflow.until("the triggerer is back", lambda: waiting(airflow, table))
    airflow.until(
        "compacted",
        lambda: [e.state for e in airflow.entries(table)] in ([State.READY_FOR_CLEANING], [State.SUCCEEDED]),
    )
    ended = airflow.until("the task is over", lambda: over(airflow, table))
    assert ended["state"] == "success", airflow.state()
    (found,) = listed(airflow, yarn, table)
    batch = airflow.batch(table)
    assert batch is not None
    assert (batch.state, batch.attempt, batch.application_id) == (BatchState.DONE, 1, found["id"])
    assert airflow.rows(table) == rows
    assert airflow.runs(table) == 1
    assert f"its driver's log is at {batch.log_url}" in airflow.task_log(task)


def waiting(airflow: System, table: Table) -> dict[str, Any] | None:
    task = airflow.task(table)
    return task if task is not None and task["state"] == "deferred" else None


def over(airflow: System, table: Table) -> dict[str, Any] | None:
    task = airflow.task(table)
    return task if task is not None and task["state"] in ("success", "failed") else None
