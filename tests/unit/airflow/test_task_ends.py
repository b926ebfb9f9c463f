from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom
from airflow.utils.state import TaskInstanceState

from compactor.airflow.task_ends import (
    WAITING_TRY,
    fail_without_retry,
    is_cleared,
    is_ended_by_person,
    is_waiting_again,
    read_task_state,
)
from compactor.base.errors import DatabaseUnavailable, Refused


def ti(map_index: int) -> Any:
    return SimpleNamespace(dag_id="d", task_id="compact", run_id="r", map_index=map_index)


@pytest.mark.parametrize(
    ("map_index", "answer", "expected", "by_person"),
    [
        (-1, {"r": {"compact": "deferred"}}, "deferred", False),
        (3, {"r": {"compact_3": TaskInstanceState.FAILED}}, "failed", True),
        (3, {"r": {"compact_3": "success"}}, "success", True),
        (3, {"r": {"compact_3": None}}, None, False),
        (3, {"r": {"compact_3": "queued"}}, "queued", False),
        (-1, {}, None, False),
    ],
)
def test_the_api_says_it(
    monkeypatch: pytest.MonkeyPatch, map_index: int, answer: dict[str, Any], expected: str | None, by_person: bool
) -> None:
    asked: dict[str, Any] = {}

    def states(**what: Any) -> dict[str, Any]:
        asked.update(what)
        return answer

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(states))
    assert read_task_state(ti(map_index)) == expected
    assert is_ended_by_person(ti(map_index)) is by_person
    assert is_cleared(ti(map_index)) is (expected is None)
    assert asked["map_index"] == (map_index if map_index >= 0 else None)
    assert (asked["dag_id"], asked["task_ids"], asked["run_ids"]) == ("d", ["compact"], ["r"])


@pytest.mark.parametrize(("left", "again"), [(None, False), (2, False), (3, True)])
def test_a_later_try_says_that_it_waits(monkeypatch: pytest.MonkeyPatch, left: int | None, again: bool) -> None:
    """XCom has the number that this try left, or one that a later try has left since."""
    asked: dict[str, Any] = {}

    def found(**what: Any) -> int | None:
        asked.update(what)
        return left

    monkeypatch.setattr(XCom, "get_one", found)
    assert is_waiting_again(SimpleNamespace(**vars(ti(3)), try_number=2)) is again
    assert asked == {"key": WAITING_TRY, "dag_id": "d", "task_id": "compact", "run_id": "r", "map_index": 3}


def test_what_needs_a_person_is_not_tried_again() -> None:
    with pytest.raises(AirflowFailException, match="the table is external"), fail_without_retry():
        raise Refused("the table is external")


def test_a_database_that_is_down_is_tried_again() -> None:
    with pytest.raises(DatabaseUnavailable), fail_without_retry():
        raise DatabaseUnavailable("it restarts")
