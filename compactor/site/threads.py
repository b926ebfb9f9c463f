"""Threads: a pool that runs one step for many things, a repeated action, and work that may fail."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar

from compactor.orc.io.look_ahead import run_timed

_TURN_S = 0.1  #: the longest wait for the steps of another thread, which may hang in a store

_Thing = TypeVar("_Thing")
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
PATIENCE_S = 30.0  #: a call that takes longer is abandoned


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


class Periodic(ABC):
    """Calls ``_act`` every ``period_s`` seconds until the block ends or ``_act`` returns false."""

    def __init__(self, name: str, period_s: float) -> None:
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._period_s):
            if not self._act():
                return

    @abstractmethod
    def _act(self) -> bool:
        """Acts once. Returns false to stop; an exception ends the thread."""


def run_best_effort(what: str, act: Callable[[], _Answer], patience_s: float = PATIENCE_S) -> _Answer | None:
    """Returns the result of ``act``, or logs a warning and returns None if it fails or takes too long.

    ``act`` runs in its own daemon thread, because it may never return on a file system that hangs.

    Args:
        what: the name of the work in the log.
    """
    answers: list[_Answer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(act())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the pass has done its work
            errors.append(error)

    thread = threading.Thread(target=run, name=f"run_best_effort: {what}", daemon=True)
    thread.start()
    thread.join(patience_s)
    for error in errors:
        _log.warning("%s failed, which changes nothing else: %s", what, error, exc_info=error)
    if thread.is_alive():
        _log.warning("%s takes longer than %.0f s and is left to itself, which changes nothing else", what, patience_s)
    return answers[0] if answers else None
