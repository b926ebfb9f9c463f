"""Steps side by side: all are done, in order, and an error is raised at the end."""

from __future__ import annotations

import threading

import pytest

from compactor.orc.io import look_ahead
from compactor.site import side_by_side
from compactor.site.side_by_side import SideBySide
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
    monkeypatch.setattr(side_by_side, "_TURN_S", PATIENCE)
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
    monkeypatch.setattr(side_by_side, "_TURN_S", 0.001)
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
