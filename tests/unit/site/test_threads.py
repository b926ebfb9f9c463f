"""Steps side by side: all are done, in order, and an error is raised at the end."""

from __future__ import annotations

import errno
import logging
import threading

import pytest

from compactor.orc.io import look_ahead
from compactor.site.threads import Periodic, SideBySide, run_best_effort
from tests.support.far_store import OthersMeet, count_as_far
from tests.support.patience import PATIENCE


@pytest.mark.parametrize("count", [1, 3])
def test_results_come_in_the_order_of_the_things(count: int) -> None:
    with SideBySide(count, "test") as threads:
        assert threads.map(lambda number: number * number, range(100)) == [number * number for number in range(100)]
        assert threads.map(str, []) == []


def test_as_many_at_once_as_there_are_threads() -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE)
    with SideBySide(3, "test", at_once=True) as threads:
        assert threads.map(lambda _: meeting.wait() >= 0, range(6)) == [True] * 6


def test_once_a_step_has_waited_the_others_are_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count_as_far(monkeypatch)
    meeting = OthersMeet(4)
    with SideBySide(3, "test") as threads:
        threads.map(lambda _: meeting.wait(), range(4))


def test_where_no_step_waits_all_are_done_in_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that only compute contend for the interpreter: over small tables a worker took half as long again."""
    monkeypatch.setattr(look_ahead, "WAIT_S", float("inf"))
    with SideBySide(3, "test") as threads:
        assert set(threads.map(lambda _: threading.get_ident(), range(100))) == {threading.get_ident()}


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_is_raised(count: int) -> None:
    with SideBySide(count, "test") as threads, pytest.raises(ZeroDivisionError):
        threads.map(lambda number: 1 // number, [1, 0, 2])


def test_threads_that_compute_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each small system call of two threads hands the interpreter over: a worker's two groups cost a third more."""
    monkeypatch.setattr(look_ahead, "WAIT_S", float("inf"))
    monkeypatch.setattr("compactor.site.threads._TURN_S", PATIENCE)
    order: list[int] = []
    begun = threading.Event()

    def step(_: int) -> None:
        order.append(threading.get_ident())
        if len(order) == 1:
            begun.set()
            other.join(0.05)  # it waits for its turn

    with SideBySide(3, "test") as threads:
        other = threading.Thread(target=lambda: begun.wait(PATIENCE) and threads.map(step, range(5)))
        other.start()
        threads.map(step, range(5))
        other.join()
    assert order == [threading.get_ident()] * 5 + [order[-1]] * 5


def test_steps_that_hang_hold_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compactor.site.threads._TURN_S", 0.001)
    hangs, free = threading.Event(), threading.Event()

    def hang(_: int) -> bool:
        hangs.set()
        return free.wait(PATIENCE)

    with SideBySide(3, "test") as threads:
        other = threading.Thread(target=lambda: threads.map(hang, range(2)))
        other.start()
        assert hangs.wait(PATIENCE)
        assert threads.map(lambda one: one, range(5)) == [0, 1, 2, 3, 4]
        free.set()
        other.join()


class Counting(Periodic):
    def __init__(self, period_s: float, most: int) -> None:
        super().__init__("counting", period_s)
        self.acted = 0
        self.done = threading.Event()
        self._most = most

    def _act(self) -> bool:
        self.acted += 1
        if self.acted == self._most:
            self.done.set()
        return self.acted < self._most


def test_it_acts_until_it_returns_false() -> None:
    with Counting(0.001, most=3) as counting:
        assert counting.done.wait(PATIENCE)
        counting._thread.join(PATIENCE)
        assert not counting._thread.is_alive()
    assert counting.acted == 3


@pytest.mark.parametrize("fails", [False, True])
def test_it_ends_with_the_block_and_does_not_act_before_its_time(fails: bool) -> None:
    counting = Counting(3600, most=2)
    try:
        with counting:
            assert counting._thread.is_alive()
            if fails:
                raise ValueError
    except ValueError:
        pass
    assert not counting._thread.is_alive()
    assert counting.acted == 0


def test_the_answer_comes_back() -> None:
    assert run_best_effort("a figure", lambda: 7) == 7


def test_a_failure_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> int:
        raise OSError(errno.EIO, "Input/output error")

    assert run_best_effort("a figure", fail) is None
    assert "a figure failed, which changes nothing else: [Errno 5] Input/output error" in caplog.text


def test_who_hangs_is_left_to_itself(caplog: pytest.LogCaptureFixture) -> None:
    """As on a file system that is away."""
    caplog.set_level(logging.WARNING)
    goes_on = threading.Event()
    assert run_best_effort("a figure", goes_on.wait, patience_s=0.01) is None
    goes_on.set()
    assert "a figure takes longer than 0 s and is left to itself" in caplog.text
