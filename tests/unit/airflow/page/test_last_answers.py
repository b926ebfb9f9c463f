from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from compactor.airflow.page.last_answers import LastAnswer


class Clock:
    """Says the seconds that a test wants."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def slow(clock: Clock, seconds: float) -> Iterator[int]:
    """Returns answers 1, 2, … each of which takes as long."""
    number = 0
    while True:
        clock.now += seconds
        number += 1
        yield number


@pytest.mark.parametrize(
    ("took", "stands"),
    [(0.01, 0.1), (1.9, 19.0), (60.0, 30.0)],
    ids=["a quick one", "a slow one", "a very slow one"],
)
def test_an_answer_stands_for_ten_times_as_long_as_it_took_and_half_a_minute_at_most(
    clock: Clock, took: float, stands: float
) -> None:
    last, answers = LastAnswer[int](clock), slow(clock, took)
    found = [last.get(lambda: next(answers))]
    for part in (0.99, 0.02):
        clock.now += stands * part
        found.append(last.get(lambda: next(answers)))
    assert found == [1, 1, 2]


def test_an_error_is_told_to_whoever_asked_and_stands_for_nobody(clock: Clock) -> None:
    last = LastAnswer[int](clock)

    def fail() -> int:
        clock.now += 5
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        last.get(fail)
    assert last.get(lambda: 1) == 1


def test_those_who_ask_meanwhile_wait_for_the_answer_that_is_on_its_way(clock: Clock) -> None:
    last, begun, go_on = LastAnswer[int](clock), threading.Event(), threading.Event()
    asked: list[int] = []
    got: list[int] = []

    def answer() -> int:
        asked.append(1)
        begun.set()
        assert go_on.wait(30)
        clock.now += 1
        return len(asked)

    askers = [threading.Thread(target=lambda: got.append(last.get(answer))) for _ in range(3)]
    askers[0].start()
    assert begun.wait(30)
    for other in askers[1:]:
        other.start()
    go_on.set()
    for one in askers:
        one.join(30)
    assert (asked, got) == ([1], [1, 1, 1])
