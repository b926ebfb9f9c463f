"""The end of a task: which errors are tried again, and whether a person ended or cleared the task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from airflow.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from compactor.base.errors import CompactorError, DatabaseUnavailable

#: For tasks that may lose their worker or trigger: what they wait for continues, and the next try finds it. An API server
#: that is away costs a try each time; with these delays it may be away for five minutes.
RETRIES = max(5, conf.getint("core", "default_task_retries", fallback=0))
RETRY_DELAY, BACKOFF = timedelta(seconds=10), 2.0
#: States in which a person can put a waiting or running task, by marking it or its run.
ENDED = frozenset({"failed", "success", "skipped", "removed"})
WAITING_TRY = "waiting_try"  #: the XCom key under which a try records its number before it waits


def read_task_state(ti: Any) -> str | None:
    """Returns the current state of a task instance; None if it was cleared or no longer exists."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    mapped = ti.map_index is not None and ti.map_index >= 0
    states = RuntimeTaskInstance.get_task_states(
        dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id], map_index=ti.map_index if mapped else None
    )
    key = f"{ti.task_id}_{ti.map_index}" if mapped else ti.task_id
    state = states.get(ti.run_id, {}).get(key)
    return None if state is None else str(getattr(state, "value", state))


def is_ended_by_person(ti: Any) -> bool:
    """Tells whether the task is over although neither its process nor its trigger ended it."""
    return read_task_state(ti) in ENDED


def is_cleared(ti: Any) -> bool:
    """Tells whether a person has cleared the running task, or deleted its run."""
    return read_task_state(ti) in ("restarting", None)


def is_waiting_again(ti: Any) -> bool:
    """Tells whether a later try of the task is waiting.

    The task was cleared, and ran again before this check.
    """
    from airflow.sdk.execution_time.xcom import XCom

    waiting_try = XCom.get_one(
        key=WAITING_TRY, dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index
    )
    return waiting_try is not None and int(waiting_try) > ti.try_number


@contextmanager
def fail_without_retry() -> Iterator[None]:
    """Fails the task with our message and without a retry: most of our errors need a person.

    Only an unavailable database is left to the task's retries, since it may come back.
    """
    try:
        yield
    except DatabaseUnavailable:
        raise
    except CompactorError as error:
        raise AirflowFailException(str(error)) from error
