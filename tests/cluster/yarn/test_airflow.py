"""Airflow's ``compaction_worker`` on a real YARN: its DAG in both deploy modes, and its tasks while applications wait, are
refused, killed or not wanted any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from html import unescape
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest

from compactor.answers.overview import queue_page
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.control import BatchStatus
from compactor.compaction.states import State
from compactor.launch.yarn_application import make_tag
from compactor.metastore.catalog.values import Table
from compactor.requests.abort import abort_compaction
from compactor.requests.request import request_compaction
from compactor.state.batches import Batch, BatchState
from tests.support.airflow_home import migrate, prepare
from tests.support.patience import until
from tests.support.planted_secrets import MARK, files_with_a_mark, watching_processes
from tests.support.yarn_site import NEVER_FITS, NO_DRIVER_FITS, YarnSite

prepare()
QUEUE = "hive.compactor.job.queue"
POOL = '[metastore.default.pool.p]\nqueue = "night"'
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient` is deprecated")


@pytest.fixture
def airflow(on_yarn: YarnSite, metastore_url: str, monkeypatch: pytest.MonkeyPatch) -> YarnSite:
    """The site as Airflow's workers and triggerer find it."""
    migrate()
    on_yarn.write_config(metastore_url, {"compactor.spark.files": str(on_yarn.config)}, POOL)
    for key, value in on_yarn.spark_home({}).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", str(on_yarn.config))
    monkeypatch.setenv("AIRFLOW__COMPACTOR__POLL_SECONDS", "0.5")
    use(monkeypatch, "cluster")
    return on_yarn


def use(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    extra = f'{{"conn_type": "spark", "host": "yarn", "extra": {{"deploy-mode": "{mode}"}}}}'
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", extra)


class Task:
    """A task of the DAG that submits a batch: one try of it, which ends, fails or waits in the triggerer."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        from compactor.airflow.operators import CompactionSubmitOperator

        self.operator = CompactionSubmitOperator(task_id="compact", metastore="default", **arguments)
        ti = SimpleNamespace(xcom_push=lambda key, value: None, try_number=1)
        self.context = {"ti": ti, "outlet_events": {}}
        self.trigger: Any = None

    def execute(self) -> Any:
        return self._run(lambda: self.operator.execute(self.context))

    def go_on(self, event: str) -> Any:
        return self._run(lambda: self.operator.execute_complete(self.context, event, **self.kwargs))

    def _run(self, call: Callable[[], Any]) -> Any:
        from airflow.sdk.exceptions import TaskDeferred

        try:
            return call()
        except TaskDeferred as deferred:  # it holds no slot from here on
            self.trigger, self.kwargs = deferred.trigger, deferred.kwargs
            return None

    def event(self) -> str:
        """The event that the trigger fires; it runs in Airflow's triggerer."""

        async def first() -> str:
            async for event in self.trigger.run():
                return str(event.payload)
            raise AssertionError("it fires nothing")

        return asyncio.run(first())


def planned(airflow: YarnSite, queue: str, name: str = "t") -> tuple[Table, Task]:
    """A table with a request in a batch, and the task that submits it."""
    from compactor.airflow import tasks

    table = airflow.table(name)
    request_compaction(airflow.site, table=name, properties={QUEUE: queue})
    (arguments,) = tasks.plan("default")
    return table, Task(arguments)


def the_batch(airflow: YarnSite) -> Batch:
    (batch,) = airflow.batches()
    return batch


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_the_dag(airflow: YarnSite, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans, submits under the pool's queue, waits and announces; the driver's log can be reached from the task's."""
    from compactor.airflow.dags import compaction_dags

    use(monkeypatch, mode)
    table = airflow.table("t")
    rows = airflow.rows(table)
    request_compaction(airflow.site, table="t", pool="p")
    (dag,) = (dag for dag in compaction_dags("default") if dag.dag_id == "compaction_worker")
    with watching_processes() as seen:
        run = dag.test()
    assert run.state == "success"
    assert [process for process in seen if MARK in process] == []
    assert MARK.encode() not in (prepare() / "airflow.db").read_bytes()  # XComs, the rendered fields of tasks, events
    staged = "__spark_conf__.zip"  # Spark's own, in a private directory, until the application ends (docs/security.md)
    assert files_with_a_mark(airflow.folder, (airflow.config.name, staged)) == {}
    assert airflow.entry(table).state is State.READY_FOR_CLEANING
    assert airflow.rows(table) == rows
    batch = the_batch(airflow)
    assert (batch.state, batch.attempt) == (BatchState.DONE, 1)
    found = airflow.yarn.until_ended(str(batch.application_id))  # a moment after its batch
    assert (found["queue"], found["finalStatus"]) == ("root.night", "SUCCEEDED")
    assert found["name"] == f"{airflow.site.host}-compactor-default.t"
    assert found["applicationTags"] == make_tag("default", batch.id, batch.planned_at)


def test_a_refused_application_is_told_and_nothing_stays_reserved(airflow: YarnSite) -> None:
    from airflow.sdk.exceptions import AirflowException

    table, task = planned(airflow, "nope")
    with pytest.raises(
        AirflowException, match=r"(?s)^batch 1: its application could not do it: Application application_\S+ "
    ):
        task.execute()
    assert the_batch(airflow).state is BatchState.RELEASED
    assert list_claimable_ids(airflow.site) == [airflow.entry(table).id]


def test_a_worker_that_dies_after_its_submit_is_followed_by_one_that_finds_the_application(
    airflow: YarnSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its tag, while it waits for its queue and no row names it. The task then waits without a slot; marking it failed
    ends application and request."""
    from compactor.airflow import tasks

    table, task = planned(airflow, "etl")
    with airflow.occupied("default", memory=NO_DRIVER_FITS), monkeypatch.context() as dying:

        def dies(*_: object) -> None:
            raise SystemExit

        dying.setattr(tasks, "record_launch", dies)
        with pytest.raises(SystemExit):
            task.execute()
        dying.undo()
        assert the_batch(airflow).application_id is None
        task.execute()
        batch = the_batch(airflow)
        (found,) = airflow.yarn.applications(tag=make_tag("default", batch.id, batch.planned_at))
        assert (found["state"], batch.application_id) == ("ACCEPTED", found["id"])
        assert task.trigger is not None
        progress = tasks.read_progress("default", batch.id)
        assert progress.status is BatchStatus.UNDER_WAY
        assert progress.log_url is None  # there is no container yet
        assert list_claimable_ids(airflow.site) == []
        tasks.abort("default", batch.id)
        assert airflow.yarn.until_ended(found["id"])["state"] == "KILLED"
    assert airflow.entry(table).state is State.ABORTED


def test_a_request_that_is_cancelled_ends_an_application_in_its_queue(airflow: YarnSite) -> None:
    table, task = planned(airflow, "etl")
    with airflow.occupied("default", memory=NO_DRIVER_FITS):
        task.execute()
        abort_compaction(airflow.site, airflow.entry(table).id)
        assert task.event() == BatchStatus.RELEASED.value
        found = airflow.yarn.until_ended(str(the_batch(airflow).application_id))
        assert found["state"] == "KILLED"
    assert task.go_on(BatchStatus.RELEASED.value) == {str(airflow.entry(table).id): "default.t: aborted"}


def test_a_killed_application_is_noticed_at_once_and_followed_by_another(airflow: YarnSite) -> None:
    """Not when its reservation ends, ten minutes later. Page and task name the driver's log while it runs."""
    from compactor.airflow import tasks

    airflow.spark_home(NEVER_FITS)
    table, task = planned(airflow, "etl")
    rows = airflow.rows(table)
    task.execute()
    first = until("a driver at work", lambda: working(airflow, table), pause=0.2)
    (row,) = queue_page(airflow.site, find="", state=None, limit=10, offset=0).rows
    assert row["batch"]["log_url"] == first.log_url  # type: ignore[index]
    until("the driver's log", lambda: "0 of 2 tasks done, 2 under way" in log_of(first), pause=0.2)
    airflow.yarn.kill(str(first.application_id))
    news = tasks.read_progress("default", first.id).list_news(None)  # as the trigger logs it
    assert any(f"{first.application_id} has ended: YARN says KILLED" in line for line in news)
    assert f"batch {first.id}: its driver's log is at {first.log_url}" in news
    assert task.event() == BatchStatus.LOST.value
    airflow.spark_home({})
    task.go_on(BatchStatus.LOST.value)
    assert task.event() == BatchStatus.ENDED.value
    assert task.go_on(BatchStatus.ENDED.value) == {str(airflow.entry(table).id): "default.t: ready for cleaning"}
    assert airflow.rows(table) == rows
    batch = the_batch(airflow)
    assert (batch.attempt, batch.application_id == first.application_id) == (2, False)


def log_of(batch: Batch) -> str:
    with urlopen(f"{batch.log_url}/stdout/?start=0") as page:
        return unescape(page.read().decode())


def working(airflow: YarnSite, table: Table) -> Batch | None:
    batch = the_batch(airflow)
    return batch if airflow.entry(table).state is State.WORKING and batch.log_url else None
