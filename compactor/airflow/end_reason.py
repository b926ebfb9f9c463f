"""Why a task ends: a person's doing, or a process that is gone. Only Airflow's API knows."""

from __future__ import annotations

from typing import Any

#: What a person makes of a task that waits or runs: mark failed, mark succeeded, and what marking its run does.
ENDED = frozenset({"failed", "success", "skipped", "removed"})
WAITING_TRY = "waiting_try"  #: under this key a try leaves its number in XCom before it waits


def state_of(ti: Any) -> str | None:
    """The state of a task instance as the API knows it now; None where it has none (it was cleared), or is gone."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    mapped = ti.map_index is not None and ti.map_index >= 0
    found = RuntimeTaskInstance.get_task_states(
        dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id], map_index=ti.map_index if mapped else None
    )
    key = f"{ti.task_id}_{ti.map_index}" if mapped else ti.task_id
    state = found.get(ti.run_id, {}).get(key)
    return None if state is None else str(getattr(state, "value", state))


def ended_by_person(ti: Any) -> bool:
    """True where the task is over though its own process or trigger did not end it."""
    return state_of(ti) in ENDED


def waits_again(ti: Any) -> bool:
    """Whether a later try of a waiting task is what waits: it was cleared, and ran again before anybody looked."""
    from airflow.sdk.execution_time.xcom import XCom

    found = XCom.get_one(
        key=WAITING_TRY, dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index
    )
    return found is not None and int(found) > ti.try_number
