from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from airflow.serialization.serialized_objects import BaseSerialization, DagSerialization

from compactor.airflow import tasks
from compactor.airflow.sensors import ChangeSensor, RequestsSensor, marker_variable, plain


def changed() -> ChangeSensor:
    return ChangeSensor(task_id="changed", metastore="archive", poll_seconds=2.0)


@pytest.mark.parametrize("pushed", ["6-6-0-ab", '"6-6-0-ab"'])
def test_a_marker_is_kept_as_the_metastore_gave_it(pushed: str) -> None:
    """Airflow's triggerer stores the value of an ending task in quotes; with them no marker would ever match again."""
    assert plain(pushed) == "6-6-0-ab"


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


def test_the_wait_for_requests_ends_well_when_all_are_done() -> None:
    sensor = RequestsSensor(task_id="done", metastore="m", ids=[3, 4], poll_seconds=1.0, timeout=60)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({"params": {"wait": True}})
    assert deferred.value.trigger.serialize()[1]["ids"] == [3, 4]
    event = {"3": "ready for cleaning", "4": "succeeded"}
    assert sensor.execute_complete({}, event) == event


def test_waiting_can_be_skipped() -> None:
    sensor = RequestsSensor(task_id="done", metastore="m", ids=[3], poll_seconds=1.0, timeout=60)
    with pytest.raises(AirflowSkipException):
        sensor.execute({"params": {"wait": False}})


def test_a_failed_request_fails_the_task_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failure_message(metastore: str, wrong: Any) -> str:
        return f"{metastore}: {wrong}"

    monkeypatch.setattr(tasks, "failure_message", failure_message)
    sensor = RequestsSensor(task_id="done", metastore="m", ids=[3], poll_seconds=1.0, timeout=60)
    with pytest.raises(AirflowFailException, match=r"^m: \{3: .failed.\}$"):
        sensor.execute_complete({}, {"3": "failed", "4": "succeeded"})
