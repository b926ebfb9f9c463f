from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.serialization.serialized_objects import DagSerialization

from compactor.airflow import tasks
from compactor.airflow.assets import requested
from compactor.airflow.commits import watched
from compactor.airflow.compact_table import CompactTableOperator, compact_task
from compactor.airflow.sensors import CompactionDueSensor
from compactor.base.errors import BadSetting

ASKED = [{"table": "a.t", "partition": None, "compaction": 7, "type": "major", "because": "12 deltas > 10"}]


class Events:
    """The outlet events of a task."""

    def __init__(self) -> None:
        self.added: list[tuple[str, dict[str, Any]]] = []

    def __getitem__(self, alias: Any) -> Events:
        return self

    def add(self, asset: Any, extra: dict[str, Any]) -> None:
        self.added.append((asset.uri, extra))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The requests that were made; each request is granted."""
    calls: list[tuple[Any, ...]] = []

    def request_once(metastore: str, words: dict[str, Any], run: str, *, only_if_due: bool) -> list[dict[str, Any]]:
        calls.append((metastore, words, run, only_if_due))
        return ASKED

    monkeypatch.setattr(tasks, "request_once", request_once)
    monkeypatch.setattr(tasks, "read_states", lambda metastore, ids: dict.fromkeys(ids, "initiated"))
    return calls


def context() -> Any:
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="compact", map_index=-1)
    return {"ti": ti, "outlet_events": Events()}


def test_it_asks_in_the_name_of_its_run_and_waits_without_a_slot(made: list[tuple[Any, ...]]) -> None:
    operator, given = CompactTableOperator(task_id="compact", table="a.t", wait_for=timedelta(hours=1)), context()
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(given)
    words: dict[str, Any] = {"table": "a.t", "partition": None, "type": "auto", "pool": None, "properties": {}}
    assert made == [("default", words, "d/r/compact/-1", True)]
    assert given["outlet_events"].added == [(requested("default").uri, {"entries": 1})]
    trigger = deferred.value.trigger.serialize()[1]
    assert (trigger["ids"], trigger["timeout_seconds"]) == ([7], 3600)
    assert deferred.value.kwargs == {"requests": ASKED}
    assert operator.execute_complete(None, {"7": "succeeded"}, ASKED) == [{**ASKED[0], "state": "succeeded"}]


def test_a_lost_task_is_tried_again_unless_the_author_says_otherwise() -> None:
    def load(table: str = "a.t") -> str:
        return table

    assert CompactTableOperator(task_id="compact", table="a.t").retries == 5
    assert CompactTableOperator(task_id="compact", table="a.t", retries=0).retries == 0
    with DAG("d", schedule=None, default_args={"retries": 7}):
        assert CompactTableOperator(task_id="compact", table="a.t").retries == 7
        assert CompactTableOperator.partial(task_id="mapped").expand(table=["a.t"]).retries == 7
    with DAG("d", schedule=None):
        assert CompactTableOperator.partial(task_id="mapped").expand(table=["a.t"]).retries == 5
        for retries, decorator in ((5, task.compact()), (1, task.compact(retries=1))):
            assert decorator(load)().operator.retries == retries


def test_it_requests_no_more_than_airflow_maps_over_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[int | None] = []

    def request_once(*words: Any, most: int | None = None, **more: Any) -> list[dict[str, Any]]:
        bounds.append(most)
        return ASKED

    monkeypatch.setattr(tasks, "request_once", request_once)
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "3")
    with DAG("d", schedule=None):
        alone = CompactTableOperator(task_id="alone", table="a.t", wait=False)
        mapped_over = CompactTableOperator(task_id="mapped_over", table="a.t", wait=False)

        @task
        def publish(compaction: dict[str, Any]) -> None: ...

        publish.expand(compaction=mapped_over.output)
    for operator in (alone, mapped_over):
        operator.execute(context())
    assert bounds == [None, 3]


def test_without_a_trigger_it_waits_in_its_slot(made: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter(["initiated", "initiated", "working", "ready for cleaning"])
    monkeypatch.setattr(tasks, "read_states", lambda metastore, ids: {one: next(states) for one in ids})
    operator = CompactTableOperator(task_id="compact", table="a.t", deferrable=False, poll_seconds=0.001)
    assert operator.execute(context()) == [{**ASKED[0], "state": "ready for cleaning"}]


@pytest.mark.parametrize("pause", [0, -1.0, float("nan")])
def test_a_trigger_that_would_fire_at_once_is_refused(pause: float) -> None:
    with pytest.raises(BadSetting, match=r"poll_seconds is .*; expected: a number of seconds above 0"):
        CompactTableOperator(task_id="compact", table="a.t", poll_seconds=pause)
    with pytest.raises(BadSetting, match=r"poll_seconds is .*; expected: a number of seconds above 0"):
        watched("a.t", poll_seconds=pause)
    if pause == 0:  # Airflow itself refuses the others
        with pytest.raises(BadSetting, match=r"poke_interval is .*; expected: a number of seconds above 0"):
            CompactionDueSensor(task_id="due", table="a.t", poke_interval=pause)


def test_what_has_ended_already_is_not_waited_for(made: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A trigger that fires as soon as it starts may find its task not yet deferred, and fail it."""
    monkeypatch.setattr(tasks, "read_states", lambda metastore, ids: dict.fromkeys(ids, "succeeded"))
    assert CompactTableOperator(task_id="compact", table="a.t").execute(context()) == [
        {**ASKED[0], "state": "succeeded"}
    ]


def test_it_need_not_wait(made: list[tuple[Any, ...]]) -> None:
    assert CompactTableOperator(task_id="compact", table="a.t", wait=False).execute(context()) == ASKED


def test_nothing_due_is_no_event(made: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "request_once", lambda *given, **more: [])
    given = context()
    assert CompactTableOperator(task_id="compact", table="a.t").execute(given) == []
    assert given["outlet_events"].added == []


def test_it_fails_with_the_compactions_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failure_message(metastore: str, wrong: Any) -> str:
        return f"{metastore}: {wrong}"

    monkeypatch.setattr(tasks, "describe_failures", failure_message)
    operator = CompactTableOperator(task_id="compact", table="a.t")
    with pytest.raises(AirflowFailException, match=r"^default: \{7: .failed.\}$"):
        operator.execute_complete(None, {"7": "failed"}, ASKED)


def test_it_links_to_its_tables_history_and_to_spark(
    made: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Any]] = []

    def tracking_url(metastore: str, ids: Any) -> str | None:
        asked.append((metastore, list(ids)))
        return "http://spark.example:4040" if ids else None

    monkeypatch.setattr(tasks, "tracking_url", tracking_url)
    operator = CompactTableOperator(task_id="compact", table="a.t", wait=False)
    links = {link.name: link for link in operator.operator_extra_links}
    ti: Any = None
    assert links["Compactor"].get_link(operator, ti_key=ti) == "/compactor/default/history?find=a.t"
    assert links["Spark"].get_link(operator, ti_key=ti) == ""
    operator.execute(context())
    assert links["Spark"].get_link(operator, ti_key=ti) == "http://spark.example:4040"
    assert asked == [("default", []), ("default", [7])]


def test_names_are_templates_and_it_can_be_mapped() -> None:
    with DAG("d", schedule=None) as dag:
        CompactTableOperator.partial(task_id="mapped", properties={"a": "b"}).expand(table=["a.t", "a.u"])
        CompactTableOperator(task_id="one", table="a.{{ params.t }}")
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert {"table", "partition", "type"} <= set(read.get_task("one").template_fields)
    assert read.get_task("mapped").is_mapped


def test_a_function_may_return_what_to_compact(made: list[tuple[Any, ...]]) -> None:
    with DAG("d", schedule=None):

        @task.compact(wait=False)  # type: ignore[untyped-decorator]  # it is looked up by its name
        def loaded(table: str) -> dict[str, str]:
            return {"table": table, "type": "minor"}

        operator = loaded("a.u").operator
    assert operator.execute(context()) == ASKED
    ((_, words, _, _),) = made
    assert (words["table"], words["type"]) == ("a.u", "minor")


@pytest.mark.parametrize("returned", [None, {}, {"table": "a.t", "pool": "x"}])
def test_a_function_that_returns_no_table_is_told(returned: Any) -> None:
    def loaded() -> Any:
        return returned

    with DAG("d", schedule=None):
        operator = compact_task(loaded)().operator
    with pytest.raises(
        AirflowFailException, match=r"expected: DATABASE\.TABLE, or a mapping with table, partition, type"
    ):
        operator.execute(context())
