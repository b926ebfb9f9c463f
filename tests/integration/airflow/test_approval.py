"""The approval step of ``compact_table``, answered by people through Airflow's own API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from compactor.compaction.states import State
from demo.demo_folder import DemoPaths
from tests.support.patience import PATIENCE, until
from tests.support.tables import insert, make_table

pytestmark = pytest.mark.whole

Run = Callable[..., Any]


class People:
    """Callers of Airflow's API with a role, in this process."""

    def __init__(self, application: Any) -> None:
        self._application = application

    def call(self, role: str, method: str, path: str, **more: Any) -> Any:
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
        from starlette.testclient import TestClient

        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=f"{role}-1", role=role))
        client = TestClient(self._application, headers={"Authorization": f"Bearer {token}"})
        return client.request(method, f"/api/v2/dags/compact_table/dagRuns/{path}", **more)

    def asked(self) -> Any:
        """Returns the question put to a person, once there is one."""

        def found() -> Any:
            answer = self.call("op", "GET", "~/hitlDetails", params={"response_received": False})
            return answer.json()["hitl_details"]

        return until("somebody is asked", found, pause=0.2)[0]

    def answer(self, role: str, question: Any, answer: str) -> int:
        """Returns the status of Airflow's answer."""
        run = question["task_instance"]["dag_run_id"]
        path = f"{run}/taskInstances/approve/-1/hitlDetails"
        return int(self.call(role, "PATCH", path, json={"chosen_options": [answer]}).status_code)


@pytest.fixture(scope="module")
def people(airflow_database: object) -> People:
    from airflow.api_fastapi.app import create_app

    return People(create_app(apps="core"))


@pytest.fixture
def table(place: DemoPaths, monkeypatch: pytest.MonkeyPatch) -> DemoPaths:
    """``default.sales``, whose compaction reads more than may be read without being asked."""
    monkeypatch.setenv("AIRFLOW__COMPACTOR__APPROVAL_BYTES", "1kB")
    with place.site() as site:
        made = make_table(site, place.warehouse, "sales")
        for start in range(0, 12, 4):
            insert(site, made, range(start, start + 4))
    return place


@pytest.fixture
def beside() -> Iterator[Callable[..., Future[Any]]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit


def states(place: DemoPaths) -> list[State]:
    with place.site() as site:
        return [entry.state for entry in site.metastore.entries.queue()]


def tasks(run: Any) -> dict[str, str | None]:
    return {task.task_id: task.state for task in run.get_task_instances()}


def ask(run_dag: Run) -> Any:
    return run_dag("compact_table", table="default.sales", type="major", wait=False)


def test_an_approval_queues_the_request(table: DemoPaths, people: People, run_dag: Run, beside: Any) -> None:
    def approved() -> tuple[Any, int, int, list[State]]:
        question = people.asked()
        before = states(table)
        return question, people.answer("viewer", question, "Approve"), people.answer("op", question, "Approve"), before

    answered = beside(approved)
    run = ask(run_dag)
    question, by_viewer, by_op, before = answered.result(PATIENCE)
    assert question["subject"] == "Compact default.sales"
    assert "It would read" in question["body"]
    assert (by_viewer, by_op) == (403, 200)
    assert before == []
    assert run.state == "success", tasks(run)
    assert states(table) == [State.INITIATED]


def test_a_rejection_ends_it_without_a_request(table: DemoPaths, people: People, run_dag: Run, beside: Any) -> None:
    answered = beside(lambda: people.answer("op", people.asked(), "Reject"))
    run = ask(run_dag)
    assert answered.result(PATIENCE) == 200
    assert states(table) == []
    assert tasks(run)["request"] == "skipped"
    assert run.state == "success", tasks(run)


def test_below_the_limit_nobody_is_asked(table: DemoPaths, run_dag: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__APPROVAL_BYTES", "1GB")
    run = ask(run_dag)
    assert tasks(run)["approve"] == "skipped"
    assert states(table) == [State.INITIATED]
