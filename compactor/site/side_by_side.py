"""A thread pool that runs one step for many things, since most steps wait for a store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from compactor.orc.io.look_ahead import run_timed

_TURN_S = 0.1  #: the longest wait for the steps of another thread, which may hang in a store

_Thing = TypeVar("_Thing")
_Result = TypeVar("_Result")


class SideBySide:
    """Runs up to ``count`` steps at once until the block ends.

    With 1, one after the other in the calling thread.

    Args:
        at_once: uses threads from the beginning, without measuring whether steps wait: for long steps that wait for a
            database.
    """

    def __init__(self, count: int, name: str, *, at_once: bool = False) -> None:
        self.count = count
        self._at_once = at_once
        self._far = at_once  # true if the last steps waited: then the next ones start on threads
        self._computing = threading.Lock()
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name) if count > 1 else None

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def map(self, step: Callable[[_Thing], _Result], things: Iterable[_Thing]) -> list[_Result]:
        """Returns the result of ``step`` for each of ``things``, in their order.

        Unless ``at_once``, steps start in this thread, and move to threads once a step has waited. The next call starts on
        threads if these steps waited more than they computed. With a near store, threads only compete for the interpreter.
        The error of a failed step is raised after the running steps have ended; other steps may not have run.
        """
        every = list(things)
        if self._pool is None or len(every) < 2:
            return [step(thing) for thing in every]
        results: dict[int, _Result] = {}
        numbers = iter(range(len(every)))  # each thread takes the next one
        if not self._far:
            with self._turn():
                self._far = _run_until_one_waits(step, every, numbers, results)
        if len(results) < len(every):
            threads = min(self.count, len(every) - len(results))
            shares = [self._pool.submit(_work, step, every, numbers, results) for _ in range(threads)]
            _, has_waited = run_timed(wait, shares)
            self._far = self._at_once or has_waited
            for share in shares:
                share.result()
        return [results[number] for number in range(len(every))]

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Lets one thread at a time run steps that compute, unless the steps of another thread take long.

        Otherwise each small system call would hand the interpreter over to the other thread.
        """
        taken = self._computing.acquire(timeout=_TURN_S)
        try:
            yield
        finally:
            if taken:
                self._computing.release()


def _run_until_one_waits(
    step: Callable[[_Thing], _Result], things: Sequence[_Thing], numbers: Iterator[int], results: dict[int, _Result]
) -> bool:
    """Runs steps one after the other up to the first that waits; returns false if none waits."""
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
