"""Runs units in this process, or in processes of this machine.

``ProcessRunner`` uses processes of this machine, ``launch.spark_runner`` executors.

Threads would share the time that Python needs for tiny files.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain
from multiprocessing.connection import wait as wait_for
from typing import Any, Protocol, TypeAlias

from compactor.base.private_files import SAFE_PATH
from compactor.rewrite.plan.unit import Unit
from compactor.rewrite.run.execute import TaskInput, TaskResult, attempt_task, attempt_tasks
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.process_settings import collect_rarely, exclude_pandas, limit_memory
from compactor.rewrite.run.task_queue import PARCEL_BYTES, Job, JobAnswer, Task, TaskQueue

log = logging.getLogger(__name__)
EVERY_S = 10.0


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


class JobProgress:
    """Logs the progress of ``what`` every ``EVERY_S`` seconds. Shorter work is not worth a line."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._started_at = self._last_line = clock()

    @property
    def pause_s(self) -> float:
        """Seconds until the next line is due."""
        return max(0.0, self._last_line + EVERY_S - self._clock())

    def report(self, *, done: int, under_way: int, waiting: int) -> None:
        """Logs a line if one is due. The numbers count tasks; those under way may give rise to more."""
        if self.pause_s:
            return
        self._last_line = self._clock()
        log.info(
            "%s: %d of %d tasks done, %d under way, after %.0f s",
            self._what,
            done,
            done + under_way + waiting,
            under_way,
            self._last_line - self._started_at,
        )


class ProcessRunner:
    """Keeps up to ``width`` processes busy, each with up to ``memory`` bytes (0: no limit).

    Processes end with ``close``, or when this process is killed. They start with the first work. Without a limit, a single
    small unit runs in this process instead. With a limit no unit does, because some libraries end a process that lacks
    memory.
    """

    application: str | None = None

    def __init__(self, width: int, memory: int = 0) -> None:
        self._width, self._memory = width, memory
        self._pool: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> ProcessRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts all processes and returns when they wait for work."""
        for ready in [self._begin([]) for _ in range(self._width)]:
            ready.result()

    def close(self) -> None:
        """Ends the processes once their current work is done."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        queue = TaskQueue(jobs, self._width)
        if self._is_little(jobs):
            keep_busy(queue, 1, run_here)
        while suspects := keep_busy(queue, self._width, self._begin, lost=BrokenProcessPool):
            for task in suspects:  # any of them may have killed its process
                queue.put(task, _attempt_alone(task.work, self._memory))
        return queue.answers()

    def _is_little(self, jobs: Sequence[Job]) -> bool:
        units = [unit for job in jobs for unit in job.units]
        here = self._pool is None and not self._memory
        return here and len(units) < 2 and sum(unit.input_bytes for unit in units) <= PARCEL_BYTES

    def _begin(self, parcels: list[list[TaskInput]]) -> Future[list[TaskResult | Failure]]:
        with self._lock:
            if self._pool is None:
                self._pool = _processes(self._width, self._memory)
            try:
                return self._pool.submit(self._attempt(), parcels)
            except BrokenProcessPool:
                self._pool = _processes(self._width, self._memory)
                return self._pool.submit(self._attempt(), parcels)

    def _attempt(self) -> Callable[[list[list[TaskInput]]], list[TaskResult | Failure]]:
        """Returns the function that a process applies to parcels."""
        return attempt_parcels


def _attempt_alone(task: TaskInput, memory: int) -> TaskResult | Failure:
    """Performs ``task`` in a separate process, so that nothing else suffers if the process is killed."""
    with _processes(1, memory) as pool:
        try:
            return pool.submit(attempt_task, task).result()
        except BrokenProcessPool:
            location = (task if isinstance(task, Unit) else task.unit).location
            limit = f", whose limit is {memory} bytes (compactor.unit.memory)" if memory else ""
            return Failure(
                kind="CompactorError",
                message=f"{location}: the process that rewrote it was killed, perhaps for lack of memory{limit}; give the "
                "worker more, or rewrite the partition with INSERT OVERWRITE",
            )


class _ProcessPool(ProcessPoolExecutor):
    """Processes that import nothing from the current directory, where another user may have left a module.

    The pool starts multiprocessing's tracker of resources, and ``submit`` the processes and the server that forks them. All
    begin with ``python -c``, which looks in the current directory first.
    """

    def __init__(self, width: int, **options: Any) -> None:
        with _safe_path():
            super().__init__(width, **options)

    def submit(self, *call: Any, **named: Any) -> Future[Any]:
        with _safe_path():
            return super().submit(*call, **named)


_CHANGING = threading.Lock()  #: held while our environment is another one


@contextmanager
def _safe_path() -> Iterator[None]:
    with _CHANGING:
        before = os.environ.get(SAFE_PATH)
        os.environ[SAFE_PATH] = "1"
        try:
            yield
        finally:
            os.environ.pop(SAFE_PATH)
            if before is not None:
                os.environ[SAFE_PATH] = before


def _processes(width: int, memory: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("forkserver")  # this process has threads, so it must not fork
    context.set_forkserver_preload(["compactor.rewrite.run.runner"])
    return _ProcessPool(width, mp_context=context, initializer=_begin, initargs=(memory,))


def _begin(memory: int) -> None:
    """Prepares a new process: it ignores an interruption of the command line, and ends with its parent."""
    exclude_pandas()
    limit_memory(memory)
    collect_rarely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)
