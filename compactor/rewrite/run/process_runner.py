"""Runs units in processes of this machine.

Threads would share the time that Python needs for tiny files.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from typing import Any

from compactor.base.private_files import SAFE_PATH
from compactor.orc.codecs.without_pandas import exclude_pandas
from compactor.rewrite.plan.unit import Unit
from compactor.rewrite.run.execute import TaskInput, TaskResult, attempt_task
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.memory_limit import limit_memory
from compactor.rewrite.run.rare_collections import collect_rarely
from compactor.rewrite.run.runner import attempt_parcels, keep_busy, run_here
from compactor.rewrite.run.task_queue import PARCEL_BYTES, Job, JobAnswer, TaskQueue


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
    context.set_forkserver_preload(["compactor.rewrite.run.process_runner"])
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
