"""Runs units in this process.

``process_runner`` uses processes of this machine, ``launch.spark_runner`` executors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import chain
from typing import Protocol, TypeAlias

from compactor.rewrite.run.execute import TaskInput, TaskResult, attempt_tasks
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.progress import JobProgress
from compactor.rewrite.run.task_queue import Job, JobAnswer, Task, TaskQueue


class Runner(Protocol):
    """Runs the units of some entries; several calls may be under way at once."""

    @property
    def application(self) -> str | None:
        """The cluster's name for the application that runs the units; None without a cluster."""

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        """Runs jobs and returns the answer of each, in order. A failed job does not affect the others.

        Errors come from ``execute``, or from the ``check`` of a job.
        """


#: Begins parcels. The future holds the results of all their tasks, in order.
Begin: TypeAlias = Callable[[list[list[TaskInput]]], Future[list[TaskResult | Failure]]]


def keep_busy(
    queue: TaskQueue,
    parcels_under_way: int,
    begin: Begin,
    *,
    together: int = 1,
    large: int = 1,
    lost: type[Exception] | tuple[()] = (),
    abandon: Callable[[], None] | None = None,
) -> list[Task]:
    """Keeps up to ``parcels_under_way`` parcels under way until no task waits.

    Args:
        together: the number of parcels to begin at once.
        large: the same for parcels of large tasks.
        lost: the error that means that parcels ended without a result.
        abandon: ends everything that is under way. It is called if no job may go on and nothing ends, for example because a
            cluster has no room for it.

    Returns:
        The tasks that ended without a result.
    """
    under_way: dict[Future[list[TaskResult | Failure]], list[list[Task]]] = {}
    suspects: list[Task] = []
    progress = JobProgress(queue.what)
    while True:
        while (room := parcels_under_way - sum(map(len, under_way.values()))) > 0 and (
            parcels := queue.take(min(room, together), large=large)
        ):
            under_way[begin([[task.work for task in parcel] for parcel in parcels])] = parcels
        if not under_way:
            return suspects
        ended = wait(under_way, progress.pause_s, FIRST_COMPLETED).done
        if not ended and abandon is not None and not queue.may_go_on():
            abandon()
            return suspects
        for done in ended:
            tasks = list(chain.from_iterable(under_way.pop(done)))
            try:
                results = done.result()
            except lost:
                suspects += tasks
                continue
            for task, result in zip(tasks, results, strict=True):
                queue.put(task, result)
        running = sum(len(parcel) for parcels in under_way.values() for parcel in parcels)
        progress.report(done=queue.done, under_way=running, waiting=queue.waiting)


def attempt_parcels(parcels: Sequence[Sequence[TaskInput]]) -> list[TaskResult | Failure]:
    """Performs the tasks of all ``parcels``, one after another, and returns their results."""
    return [result for tasks in parcels for result in attempt_tasks(tasks)]


def run_here(parcels: list[list[TaskInput]]) -> Future[list[TaskResult | Failure]]:
    """Performs the tasks before it returns."""
    done: Future[list[TaskResult | Failure]] = Future()
    done.set_result(attempt_parcels(parcels))
    return done


class InProcessRunner:
    """Runs units in this process, ``threads`` at a time (the codecs release the interpreter's lock)."""

    application: str | None = None

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        queue = TaskQueue(jobs, self._threads, parcel_units=1)
        if self._threads == 1:
            keep_busy(queue, 1, run_here)
        else:
            with ThreadPoolExecutor(self._threads, thread_name_prefix="unit") as pool:
                keep_busy(queue, self._threads, lambda parcels: pool.submit(attempt_parcels, parcels))
        return queue.answers()
