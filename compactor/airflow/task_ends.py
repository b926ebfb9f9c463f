"""How tasks end: our errors without a retry, and whether a person ended or cleared a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from compactor.base.errors import CompactorError, DatabaseUnavailable

#: States in which a person can put a waiting or running task, by marking it or its run.
ENDED = frozenset({"failed", "success", "skipped", "removed"})
WAITING_TRY = "waiting_try"  #: the XCom key under which a try records its number before it waits


def task_state(ti: Any) -> str | None:
    """Returns the current state of a task instance; None if it has none (it was cleared) or no longer exists."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    mapped = ti.map_index is not None and ti.map_index >= 0
    found = RuntimeTaskInstance.get_task_states(
        dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id], map_index=ti.map_index if mapped else None
    )
    key = f"{ti.task_id}_{ti.map_index}" if mapped else ti.task_id
    state = found.get(ti.run_id, {}).get(key)
    return None if state is None else str(getattr(state, "value", state))


def ended_by_person(ti: Any) -> bool:
    """Returns true if the task is over although its own process or trigger did not end it."""
    return task_state(ti) in ENDED


def is_waiting_again(ti: Any) -> bool:
    """Returns true if a later try of the task is the one waiting: it was cleared, and ran again before this check."""
    from airflow.sdk.execution_time.xcom import XCom

    found = XCom.get_one(
        key=WAITING_TRY, dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index
    )
    return found is not None and int(found) > ti.try_number


@contextmanager
def fail_without_retry() -> Iterator[None]:
    """Fails the task with our message and without a retry, since these errors need a person.

    A database that is down may come back, so that error is left to the task's retries.
    """
    try:
        yield
    except DatabaseUnavailable:
        raise
    except CompactorError as error:
        raise AirflowFailException(str(error)) from error
