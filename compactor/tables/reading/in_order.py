"""Runs jobs in several threads; yields their results in the order of the jobs, with few of them in memory."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
Job: TypeAlias = Callable[[], Iterator[T]]
WAITING = 2  #: results of a job that may wait to be taken
_TURN_S = 0.1


def in_order(jobs: Iterable[Job[T]], threads: int) -> Iterator[T]:
    """Yields the results of all jobs in the order of the jobs; ``threads`` jobs run at a time.

    Jobs are taken from ``jobs`` in the caller's thread. An error of a job is raised after the results before it. When the
    caller stops, each job ends after its current result.
    """
    if threads <= 1:
        for only_job in jobs:
            yield from only_job()
        return
    stop = threading.Event()
    running: deque[_Running[T]] = deque()
    waiting = iter(jobs)
    with ThreadPoolExecutor(threads, thread_name_prefix="scan") as pool:
        try:
            while True:
                while len(running) < threads and (job := next(waiting, None)) is not None:
                    running.append(_Running(job=job, stop=stop))
                    pool.submit(running[-1].run)
                if not running:
                    return
                yield from running[0].results()
                running.popleft()
        finally:
            stop.set()


@dataclass(frozen=True, kw_only=True)
class _Running(Generic[T]):
    """A job and the queue of its results: one-element tuples, an error, or None at the end."""

    job: Job[T]
    stop: threading.Event
    queue: queue.Queue[tuple[T] | BaseException | None] = field(default_factory=lambda: queue.Queue(WAITING))

    def run(self) -> None:
        try:
            for result in self.job():
                if not self._put((result,)):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that takes the results
            self._put(error)

    def _put(self, result: tuple[T] | BaseException | None) -> bool:
        """Returns false if nobody takes results any more."""
        while not self.stop.is_set():
            try:
                self.queue.put(result, timeout=_TURN_S)
            except queue.Full:
                continue
            return True
        return False

    def results(self) -> Iterator[T]:
        while (result := self.queue.get()) is not None:
            if isinstance(result, BaseException):
                raise result
            yield result[0]
