"""Threads that do one step for many things: most of a step over tables and partitions is waiting for a store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from compactor.orc.io.look_ahead import run_timed

_TURN_S = 0.1  #: the longest wait for the steps of another thread, which may be in the hands of a store

_Thing = TypeVar("_Thing")
_Result = TypeVar("_Result")


class SideBySide:
    """Up to ``count`` steps at once, until the block ends; with 1, one after the other in the calling thread.

    Args:
        at_once: begins side by side, without a look whether steps wait: for steps that are long, and wait for a database.
    """

    def __init__(self, count: int, name: str, *, at_once: bool = False) -> None:
        self.count = count
        self._at_once = at_once
        self._far = at_once  # the last steps have waited: the next ones begin side by side
        self._computing = threading.Lock()
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name) if count > 1 else None

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def map(self, step: Callable[[_Thing], _Result], things: Iterable[_Thing]) -> list[_Result]:
        """Returns what ``step`` returns for each of ``things``, in their order.

        Unless ``at_once``, they begin in this thread, and go on side by side once a step has waited, as do those of the next
        call unless these have computed more than they waited: where the store is near, threads only contend for the
        interpreter. Where a step fails, its error is raised once nothing is under way any longer; others may not be done.
        """
        every = list(things)
        if self._pool is None or len(every) < 2:
            return [step(one) for one in every]
        results: dict[int, _Result] = {}
        numbers = iter(range(len(every)))  # each thread takes the next one
        if not self._far:
            with self._turn():
                self._far = _one_waits(step, every, numbers, results)
        if len(results) < len(every):
            left = min(self.count, len(every) - len(results))
            shares = [self._pool.submit(_work, step, every, numbers, results) for _ in range(left)]
            _, has_waited = run_timed(wait, shares)
            self._far = self._at_once or has_waited
            for share in shares:
                share.result()
        return [results[number] for number in range(len(every))]

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Lets steps that compute be done by one thread at a time, unless another one's take long: each small system call
        of two threads would hand the interpreter over to the other."""
        taken = self._computing.acquire(timeout=_TURN_S)
        try:
            yield
        finally:
            if taken:
                self._computing.release()


def _one_waits(
    step: Callable[[_Thing], _Result], things: Sequence[_Thing], numbers: Iterator[int], results: dict[int, _Result]
) -> bool:
    """Does the steps one after the other up to one that waits; false if none does."""
    for number in numbers:
        results[number], has_waited = run_timed(step, things[number])
        if has_waited:
            return True
    return False


def _work(
    step: Callable[[_Thing], _Result], things: Sequence[_Thing], numbers: Iterator[int], results: dict[int, _Result]
) -> None:
    for number in numbers:
        results[number] = step(things[number])
