"""Batches that no task has in hand: before their task starts, and between two of its tries.

A batch whose task may still start stays reserved, however long it waits for a slot. A batch whose task is over, or that
``plan`` could not hand on, is given back. A launched batch whose task a person has ended between two tries is ended.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from airflow.configuration import conf
from airflow.sdk import Variable, get_current_context

from compactor.airflow.configuration import airflow_pools
from compactor.airflow.task_ends import ENDED
from compactor.batches.assembly import PlannedBatch
from compactor.site.site import Site, own_state
from compactor.state.batches import Batch, SchedulerTask

log = logging.getLogger(__name__)
#: States of a task that will not start unless a person clears it.
_OVER = ENDED | {"upstream_failed"}
#: States of a task in which only a person can have put it while its batch is under way. Tries that ran out leave ``failed``.
_MARKED = ENDED - {"failed"}
#: The Airflow variable that tells one Airflow from another on the same metastore.
_INSTALLATION = "compactor_installation"


def most_mapped() -> int:
    """Returns how many tasks Airflow makes of one list at most; it refuses a longer list."""
    return int(conf.getint("core", "max_map_length", fallback=1024))


def current_task() -> Any | None:
    """Returns the task instance that runs in this process; None outside of one."""
    try:
        return get_current_context()["ti"]
    except RuntimeError:
        return None


def name_run(ti: Any) -> str:
    """Returns the name of the task's DAG run, unique among all Airflows."""
    return f"{_read_installation()}/{ti.dag_id}/{ti.run_id}"


def name_task(run: str, pool: str | None, planned: Sequence[PlannedBatch]) -> SchedulerTask:
    """Returns the task of ``compaction_worker`` that will submit this pool's batch after ``planned``."""
    pools = airflow_pools()
    index = sum(_task_id(batch.pool, pools) == _task_id(pool, pools) for batch in planned)
    return SchedulerTask(run=run, name=f"{_task_id(pool, pools)}_{index}")


def _task_id(pool: str | None, pools: Mapping[str, str]) -> str:
    return f"compact__{pool}" if pool in pools else "compact"


def _read_installation() -> str:
    known: str | None = Variable.get(_INSTALLATION, default=None)
    if known is None:
        Variable.set(_INSTALLATION, uuid.uuid4().hex[:12])
        known = Variable.get(_INSTALLATION)
    return str(known)


def keep_or_give_back(site: Site, run: str | None = None) -> None:
    """Reserves this Airflow's batches whose task may still start; gives back those whose task is over.

    Args:
        run: the run that plans now; what an earlier try of its ``plan`` has planned and nobody has launched is given back.
    """
    batches = own_state(site).batches
    reserved_ms = site.settings.milliseconds("compactor.batch.reserved")
    states_of = cache(_read_states)
    for batch, task in _with_tasks_of_ours(batches.list_unlaunched(site.name)):
        if task.run != run and _may_still_start(states_of(task.run), task.name):
            batches.keep(batch.id, reserved_ms)
        elif batches.forget_task(batch.id):
            log.info("batch %s is given back: its task %s of %s does not start it", batch.id, task.name, task.run)


def end_marked(site: Site) -> None:
    """Ends launched batches whose task a person has marked or skipped, and their requests.

    A task that waits or runs ends them itself. Between two tries, and while the triggerer is down, nobody else does.
    """
    from compactor.batches.control import BatchStatus, read_batch
    from compactor.launch import batch_watch

    batches = own_state(site).batches
    states_of = cache(_read_states)
    for batch, task in _with_tasks_of_ours(batches.list_launched(site.name)):
        if _name_state(states_of(task.run).get(task.name)) not in _MARKED:
            continue
        # Another try of ``plan`` hands the names out again. A batch that has ended since is over as its task is.
        is_newest = batch.id == max(b.id for b in batches.list_of_run(site.name, task.run) if b.scheduler_task == task)
        now = read_batch(site, batch.id)
        if is_newest and now.status is BatchStatus.UNDER_WAY and now.open_entries:
            log.info("batch %s is ended: a person has ended its task %s of %s", batch.id, task.name, task.run)
            batch_watch.abort(site, batch.id)


def _with_tasks_of_ours(batches: Iterable[Batch]) -> Iterator[tuple[Batch, SchedulerTask]]:
    """Yields the batches that belong to tasks of this Airflow, with their tasks."""
    prefix = f"{_read_installation()}/"
    for batch in batches:
        if batch.scheduler_task is not None and batch.scheduler_task.run.startswith(prefix):
            yield batch, batch.scheduler_task


def give_back_planned(site: Site, run: str) -> None:
    """Gives back the batches of a run that nobody has launched: its list of batches did not reach Airflow."""
    batches = own_state(site).batches
    for batch in batches.list_of_run(site.name, run):
        if batches.forget_task(batch.id):
            log.info("batch %s is given back: its plan could not be handed on", batch.id)


def _read_states(run: str) -> Mapping[str, Any]:
    """Returns the states of the tasks of a run by name, as in ``compact_3``; empty if the run is deleted."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    _, dag_id, run_id = run.split("/", 2)
    states: Mapping[str, Any] = RuntimeTaskInstance.get_task_states(dag_id=dag_id, run_ids=[run_id]).get(run_id, {})
    return states


def _may_still_start(states: Mapping[str, Any], name: str) -> bool:
    """Tells whether a mapped task is not over yet.

    Before ``plan`` has ended, only the unmapped task exists.
    """
    task = name if name in states else name.rpartition("_")[0]
    if task not in states:
        return False
    return _name_state(states[task]) not in _OVER


def _name_state(state: Any) -> str:
    return str(getattr(state, "value", state))
