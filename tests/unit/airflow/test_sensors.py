from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from airflow.serialization.serialized_objects import BaseSerialization, DagSerialization

from compactor.airflow import tasks
from compactor.airflow.sensors import ChangeSensor, CompactionDueSensor, RequestsSensor, marker_variable, unquote_marker


def changed() -> ChangeSensor:
    return ChangeSensor(task_id="changed", metastore="archive", poll_seconds=2.0)


@pytest.mark.parametrize("pushed", ["6-6-0-ab", '"6-6-0-ab"'])
def test_a_marker_is_kept_as_the_metastore_gave_it(pushed: str) -> None:
    """Airflow's triggerer stores the value of an ending task in quotes; with them no marker would ever match again."""
    assert unquote_marker(pushed) == "6-6-0-ab"


def test_the_scheduler_starts_the_trigger_without_a_worker() -> None:
    with DAG("d", schedule=None) as dag:
        changed()
    task = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task("changed")
    assert task.start_from_trigger is True
    assert task.start_trigger_args.trigger_cls == "compactor.airflow.triggers.ChangeTrigger"
    assert BaseSerialization.deserialize(task.start_trigger_args.trigger_kwargs)["ends_task"] is True


def test_the_marker_of_the_last_scan_is_a_template_of_the_trigger() -> None:
    """The triggerer only renders keyword arguments that are template fields of the sensor."""
    sensor = changed()
    assert sensor.start_trigger_args is not None
    assert "seen" in sensor.template_fields
    assert sensor.start_trigger_args.trigger_kwargs["seen"] == sensor.seen
    assert marker_variable("archive") in sensor.seen


def test_started_on_a_worker_it_defers_to_a_trigger_that_comes_back() -> None:
    sensor = changed()
    sensor.seen = "m1"
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    assert deferred.value.method_name == "execute_complete"
    assert deferred.value.trigger.serialize()[1] == {
        "metastore": "archive",
        "seen": "m1",
        "poll_seconds": 2.0,
        "ends_task": False,
    }
    assert sensor.execute_complete({}, "m2") == "m2"


def test_the_wait_for_requests_ends_well_when_all_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "read_states", lambda metastore, ids: {3: "working", 4: "succeeded"})
    sensor = RequestsSensor(task_id="done", metastore="m", ids=[3, 4], poll_seconds=1.0, timeout=60)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({"params": {"wait": True}})
    assert deferred.value.trigger.serialize()[1]["ids"] == [3, 4]
    event = {"3": "ready for cleaning", "4": "succeeded"}
    assert sensor.execute_complete({}, event) == event


def test_what_is_done_already_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "read_states", lambda metastore, ids: dict.fromkeys(ids, "succeeded"))
    sensor = RequestsSensor(task_id="done", metastore="m", ids=["3"], poll_seconds=1.0, timeout=60)
    assert sensor.execute({"params": {"wait": True}}) == {"3": "succeeded"}


def test_waiting_can_be_skipped() -> None:
    sensor = RequestsSensor(task_id="done", metastore="m", ids=[3], poll_seconds=1.0, timeout=60)
    with pytest.raises(AirflowSkipException):
        sensor.execute({"params": {"wait": False}})


def test_a_failed_request_fails_the_task_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failure_message(metastore: str, wrong: Any) -> str:
        return f"{metastore}: {wrong}"

    monkeypatch.setattr(tasks, "describe_failures", failure_message)
    sensor = RequestsSensor(task_id="done", metastore="m", ids=[3], poll_seconds=1.0, timeout=60)
    with pytest.raises(AirflowFailException, match=r"^m: \{3: .failed.\}$"):
        sensor.execute_complete({}, {"3": "failed", "4": "succeeded"})


DUE = [{"table": "a.t", "partition": None, "type": "major", "because": "12 deltas > 10"}]


def due_at_last(monkeypatch: pytest.MonkeyPatch, *looks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lets ``tasks.due`` find one of ``looks`` after the other, and returns where it looked."""
    asked: list[dict[str, Any]] = []
    found = iter(looks)

    def due(metastore: str, **where: Any) -> list[dict[str, Any]]:
        asked.append(where)
        return next(found)

    monkeypatch.setattr(tasks, "list_due", due)
    return asked


def test_what_is_due_already_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = due_at_last(monkeypatch, DUE)
    assert CompactionDueSensor(task_id="due", table="a.t").execute({}) == DUE
    assert asked == [{"table": "a.t", "partition": None, "database": None}]


def test_what_is_not_due_is_waited_for_without_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    due_at_last(monkeypatch, [])
    sensor = CompactionDueSensor(task_id="due", database="a", poke_interval=2, timeout=60)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    assert deferred.value.trigger.serialize()[1] == {
        "metastore": "default",
        "table": None,
        "partition": None,
        "database": "a",
        "poll_seconds": 2.0,
    }
    assert deferred.value.timeout == timedelta(seconds=60)
    assert sensor.execute_complete({}, {"due": DUE}) == DUE
    with pytest.raises(AirflowFailException, match="it is gone"):
        sensor.execute_complete({}, {"error": "it is gone"})


def test_in_a_slot_it_pokes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = due_at_last(monkeypatch, [], DUE)
    sensor = CompactionDueSensor(task_id="due", table="a.t", deferrable=False, poke_interval=0.001)
    assert sensor.execute({"ti": SimpleNamespace(try_number=1, max_tries=0, start_date=None)}) == DUE
    assert len(asked) == 2


@pytest.mark.parametrize("where", [{}, {"table": "a.t", "database": "a"}, {"database": "a", "partition": "p=1"}])
def test_where_it_looks_is_said_once(where: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="either table=DATABASE"):
        CompactionDueSensor(task_id="due", **where)
