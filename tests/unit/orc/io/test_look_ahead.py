"""Steps on many things, in turn or side by side."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from compactor.orc.io import look_ahead as module
from compactor.orc.io.look_ahead import AHEAD, WAIT_RATIO, WAIT_S, look_ahead
from tests.support.patience import PATIENCE


class Clock:
    """The time that passed, and what this thread computed."""

    def __init__(self) -> None:
        self.passed = self.computed = 0.0

    def step(self, *, waits: float, computes: float = 0.0) -> None:
        self.passed += waits + computes
        self.computed += computes


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    computed = dict.fromkeys(("thread_time", "process_time"), lambda: made.computed)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: made.passed, **computed))
    return made


class Far:
    """A step that waits for a store: all but the first until ``together`` of them are under way."""

    def __init__(self, clock: Clock, together: int) -> None:
        self._clock = clock
        self._met = threading.Barrier(together)
        self._lock = threading.Lock()
        self.under_way = self.most = 0

    def __call__(self, number: int) -> int:
        if number == 0:
            self._clock.step(waits=2 * WAIT_S)
            return 0
        with self._lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        self._met.wait(PATIENCE)
        with self._lock:
            self.under_way -= 1
        return 10 * number


@pytest.mark.parametrize(("waits", "computes"), [(WAIT_S / 2, 0.0), (2 * WAIT_S, 3 * WAIT_S / WAIT_RATIO)])
def test_a_near_store_is_read_in_turn(clock: Clock, waits: float, computes: float) -> None:
    """A local file is opened sooner than a thread is started, and what computes gains nothing from one."""
    by: set[int] = set()

    def step(number: int) -> int:
        clock.step(waits=waits, computes=computes)
        by.add(threading.get_ident())
        return number

    assert list(look_ahead(step, range(40))) == list(range(40))
    assert by == {threading.get_ident()}


def test_steps_that_wait_do_so_together(clock: Clock) -> None:
    far = Far(clock, together=AHEAD)
    assert list(look_ahead(far, range(1 + 3 * AHEAD))) == [10 * number for number in range(1 + 3 * AHEAD)]
    assert far.most == AHEAD


@pytest.mark.parametrize(("at_once", "most"), [(3, 3), (1, 1), (0, 1)])
def test_the_caller_bounds_them(clock: Clock, at_once: int, most: int) -> None:
    far = Far(clock, together=most)
    assert list(look_ahead(far, range(7), at_once=at_once)) == [10 * number for number in range(7)]
    assert far.most == most


def test_nothing_is_under_way_after_an_error_or_an_early_end(clock: Clock) -> None:
    def failing(number: int) -> int:
        clock.step(waits=2 * WAIT_S)
        if number == 2:
            raise ValueError("two")
        return number

    found = look_ahead(failing, range(1000))
    assert (next(found), next(found)) == (0, 1)
    with pytest.raises(ValueError, match="two"):
        next(found)
    assert not _threads()
    left: Iterator[int] = look_ahead(failing, iter((0, 1, 3, 4)))
    assert (next(left), next(left)) == (0, 1)
    left.close()  # type: ignore[attr-defined]
    assert not _threads()


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ahead")]
