"""Chosen interleavings: statements that stop at their steps until a test lets them go on. One runs at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any, Generic, TypeVar
from unittest.mock import patch

from compactor.base import steps
from compactor.base.steps import AnyStep, TransactionStep, WriteStep
from tests.support.patience import PATIENCE

#: Steps at which no database transaction is open, so that another program can do anything.
STEPS: tuple[AnyStep, ...] = (
    *TransactionStep,
    WriteStep.WRITE_BEGUN,
    WriteStep.WRITE_STAGED,
    WriteStep.WRITE_DURABLE,
    WriteStep.WRITE_COMMITTED,
)
_T = TypeVar("_T")


class Interrupted(BaseException):
    """Ends a statement where it has stopped, as Ctrl-C does."""


class Acting(Generic[_T]):
    """A statement in a thread of its own, which stops at some steps. Made by ``Interleaving.begin``."""

    def __init__(self, act: Callable[[], _T], stops: Collection[AnyStep]) -> None:
        self._act, self._stops = act, stops
        self._future: Future[_T] = Future()
        self._goes, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._reached: AnyStep | None = None
        self._is_interrupted = False
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return self._future.done()

    def go_on(self) -> AnyStep | None:
        """Lets it run to its next step, and returns that; None once it has ended."""
        assert not self.is_over
        self._reached = None
        self._goes.release()
        assert self._stopped.acquire(timeout=PATIENCE)
        return self._reached

    def run_to(self, step: AnyStep) -> None:
        """Lets it run until it reaches ``step``, which it must."""
        while (reached := self.go_on()) is not step:
            if reached is None:
                self._future.result()
                raise AssertionError(f"{step} was not reached")

    def end(self) -> _T:
        """Lets it run to its end, and returns or raises what it does."""
        while not self.is_over:
            self.go_on()
        self._thread.join(PATIENCE)
        return self._future.result()

    def interrupt(self) -> None:
        """Raises ``Interrupted`` where it has stopped, and lets it run to its end, which ``end`` raises."""
        self._is_interrupted = True
        self.go_on()

    def stop_at(self, step: AnyStep) -> None:
        if threading.current_thread() is self._thread and step in self._stops and not self._is_interrupted:
            self._reached = step
            self._stopped.release()
            self._goes.acquire()
            if self._is_interrupted:
                raise Interrupted

    def _run(self) -> None:
        self._goes.acquire()
        try:
            self._future.set_result(self._act())
        except BaseException as error:  # noqa: BLE001 - it is raised where the end is waited for
            self._future.set_exception(error)
        self._stopped.release()


class Interleaving:
    """Statements that are under way."""

    def __init__(self) -> None:
        self._every: list[Acting[Any]] = []

    def begin(self, act: Callable[[], _T], stops: Collection[AnyStep] = STEPS) -> Acting[_T]:
        """Returns a statement that waits to be let go on."""
        acting = Acting(act, stops)
        self._every.append(acting)
        return acting

    def watch(self, step: AnyStep) -> None:
        for acting in self._every:
            acting.stop_at(step)

    def end(self) -> None:
        for acting in self._every:
            with suppress(BaseException):
                acting.end()


@contextmanager
def interleaving() -> Iterator[Interleaving]:
    """Lets statements stop within the block; at its end the rest of them runs. Waits for locks take no time."""
    stage = Interleaving()
    steps.watchers.append(stage.watch)
    try:
        with patch("compactor.tables.transactions.held_locks.time", SimpleNamespace(sleep=lambda seconds: None)):
            try:
                yield stage
            finally:
                stage.end()
    finally:
        steps.watchers.remove(stage.watch)
