from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk._shared.module_loading import import_string
from airflow.triggers.base import BaseTrigger, TaskSuccessEvent

from compactor.airflow import tasks, triggers
from compactor.airflow.triggers import BatchTrigger, ChangeTrigger, DueTrigger, EntriesTrigger
from compactor.base.errors import DatabaseUnavailable, Refused
from compactor.batches.control import BatchStatus
from compactor.launch.batch_watch import BatchProgress
from tests.support.patience import PATIENCE

EACH = [
    ChangeTrigger(metastore="m", seen="s", poll_seconds=0.001, ends_task=False),
    EntriesTrigger(metastore="m", ids=[1, 2], poll_seconds=0.001, timeout_seconds=9.0),
    BatchTrigger(metastore="m", batch_id=7, poll_seconds=0.001),
    DueTrigger(metastore="m", table="a.t", partition="p=1", database=None, poll_seconds=0.001),
]


def first(trigger: BaseTrigger) -> Any:
    async def run() -> Any:
        return await anext(trigger.run())

    return asyncio.run(asyncio.wait_for(run(), PATIENCE))


@pytest.mark.parametrize("trigger", EACH, ids=lambda t: type(t).__name__)
def test_what_is_serialised_makes_an_equal_trigger(trigger: BaseTrigger) -> None:
    path, arguments = trigger.serialize()
    assert import_string(path)(**arguments).serialize() == (path, arguments)


@pytest.mark.parametrize("trigger", EACH, ids=lambda t: type(t).__name__)
def test_each_sleeps_before_its_first_look(monkeypatch: pytest.MonkeyPatch, trigger: BaseTrigger) -> None:
    """Airflow fails the task of a trigger that fires before the scheduler knows that the task waits."""

    class Asleep(Exception):
        pass

    async def sleep(seconds: float) -> None:
        assert seconds == 0.001
        raise Asleep

    monkeypatch.setattr(triggers.asyncio, "sleep", sleep)
    for look in ("read_marker", "read_states", "read_progress", "list_due"):
        monkeypatch.setattr(tasks, look, lambda *_: pytest.fail("it looks first"))
    with pytest.raises(Asleep):
        asyncio.run(anext(trigger.run()))


def looks(monkeypatch: pytest.MonkeyPatch, *answers: Any, interval: float = 300) -> None:
    remaining: Iterator[Any] = iter(answers)

    def look(metastore: str) -> tuple[str, float]:
        answer = next(remaining)
        if isinstance(answer, Exception):
            raise answer
        return answer, interval

    monkeypatch.setattr(tasks, "read_marker", look)


def test_it_fires_when_the_marker_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, "a", "a", "b")
    event = first(ChangeTrigger(metastore="m", seen="a", poll_seconds=0.001, ends_task=False))
    assert event.payload == "b"


def due(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[dict[str, Any]]:
    """Lets ``tasks.due`` answer so, and returns where it was asked to look."""
    remaining, asked = iter(answers), []

    def look(metastore: str, **where: Any) -> Any:
        asked.append(where)
        answer = next(remaining)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(tasks, "list_due", look)
    return asked


def waits_for(table: str | None = "a.t", database: str | None = None) -> DueTrigger:
    return DueTrigger(metastore="m", table=table, partition=None, database=database, poll_seconds=0.001)


def test_directories_are_looked_at_when_the_metastore_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, "a", "a", "a", "b")
    asked = due(monkeypatch, [], [{"table": "a.t"}])
    assert first(waits_for()).payload == {"due": [{"table": "a.t"}]}
    assert asked == [{"table": "a.t", "partition": None, "database": None}] * 2


def test_what_becomes_due_by_its_age_is_found_after_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, *["a"] * 9, interval=0.003)
    due(monkeypatch, [], [{"table": "a.t"}])
    assert first(waits_for(None, "a")).payload == {"due": [{"table": "a.t"}]}


def test_what_cannot_become_due_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers, "TROUBLE_PAUSE", 0.001)
    looks(monkeypatch, DatabaseUnavailable("it restarts"), "a")
    due(monkeypatch, Refused("a.t is an external table"))
    assert first(waits_for()).payload == {"error": "a.t is an external table"}


def test_it_ends_the_task_itself_with_the_marker_as_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, "b")
    event = first(ChangeTrigger(metastore="m", seen="", poll_seconds=0.001))
    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms == {"return_value": "b"}


def test_without_a_change_it_fires_once_the_check_interval_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 10: a full sweep comes though nothing seems to have changed."""
    looks(monkeypatch, "a", "a", "a", interval=0.003)
    event = first(ChangeTrigger(metastore="m", seen="a", poll_seconds=0.001, ends_task=False))
    assert event.payload == "a"


def test_a_database_that_is_down_for_a_while_does_not_fail_the_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(triggers, "TROUBLE_PAUSE", 0.001)
    looks(monkeypatch, DatabaseUnavailable("sqlite:///x is locked"), "b")
    with caplog.at_level("WARNING", logger=triggers.__name__):
        event = first(ChangeTrigger(metastore="m", seen="a", poll_seconds=0.001, ends_task=False))
    assert event.payload == "b"
    assert "sqlite:///x is locked" in caplog.text


def test_entries_are_waited_for_until_none_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([{1: "initiated", 2: "failed"}, {1: "working", 2: "failed"}, {1: "ready for cleaning", 2: "failed"}])
    monkeypatch.setattr(tasks, "read_states", lambda metastore, ids: next(answers))
    event = first(EntriesTrigger(metastore="m", ids=[1, 2], poll_seconds=0.001, timeout_seconds=9))
    assert event.payload == {"1": "ready for cleaning", "2": "failed"}


def test_entries_are_waited_for_no_longer_than_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "read_states", lambda metastore, ids: {1: "working"})
    event = first(EntriesTrigger(metastore="m", ids=[1], poll_seconds=0.001, timeout_seconds=0.005))
    assert event.payload == {"1": "working"}


def test_a_batch_is_watched_while_it_is_under_way(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(triggers, "TROUBLE_PAUSE", 0.001)

    def seen(status: BatchStatus, state: str) -> BatchProgress:
        entries = {1: f"a.b: {state}"}
        return BatchProgress(
            batch_id=7, status=status, tracking_url="http://h:4040", entries=entries, still_open=(1,), has_driver=True
        )

    answers: Iterator[Any] = iter(
        [
            seen(BatchStatus.UNDER_WAY, "initiated"),
            seen(BatchStatus.UNDER_WAY, "initiated"),
            DatabaseUnavailable("it restarts"),
            seen(BatchStatus.UNDER_WAY, "working"),
            seen(BatchStatus.ENDED, "ready for cleaning"),
        ]
    )

    def look(metastore: str, batch_id: int) -> BatchProgress:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    monkeypatch.setattr(tasks, "read_progress", look)
    with caplog.at_level("INFO", logger=triggers.__name__):
        event = first(BatchTrigger(metastore="m", batch_id=7, poll_seconds=0.001))
    assert event.payload == BatchStatus.ENDED.value
    told = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert told == [
        "batch 7: Spark shows it at http://h:4040",
        "compaction 1 of a.b: initiated",
        "compaction 1 of a.b: working",
        "compaction 1 of a.b: ready for cleaning",
    ]


def test_an_application_in_its_queue_ends_with_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = BatchProgress(batch_id=7, status=BatchStatus.UNDER_WAY, application="application_1_1")
    answers = iter([waits, replace(waits, status=BatchStatus.RELEASED)])
    released: list[int] = []
    monkeypatch.setattr(tasks, "read_progress", lambda metastore, batch_id: next(answers))
    monkeypatch.setattr(tasks, "release", lambda metastore, batch_id, because: released.append(batch_id))
    assert first(BatchTrigger(metastore="m", batch_id=7, poll_seconds=0.001)).payload == BatchStatus.RELEASED.value
    assert released == [7]


@pytest.mark.parametrize(
    ("state", "again", "expected"),
    [
        ("deferred", False, []),  # a triggerer that was taken for dead: another one has the trigger
        ("deferred", True, ["release"]),  # cleared, and the new try waits already
        ("failed", False, ["abort"]),
        ("success", False, ["abort"]),
        (None, False, ["release"]),
        ("queued", False, ["release"]),
        ("running", False, ["release"]),
    ],
)
def test_only_a_persons_action_ends_the_application(
    monkeypatch: pytest.MonkeyPatch, state: str | None, again: bool, expected: list[str]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(triggers, "read_task_state", lambda ti: state)
    monkeypatch.setattr(triggers, "is_waiting_again", lambda ti: again)
    for name in ("abort", "release"):
        monkeypatch.setattr(tasks, name, lambda *_, name=name: done.append(name))
    trigger = BatchTrigger(metastore="m", batch_id=7, poll_seconds=1)
    asyncio.run(trigger.on_kill())
    assert done == expected
