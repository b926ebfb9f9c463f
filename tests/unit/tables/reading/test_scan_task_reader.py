from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from compactor.tables.reading.scan_task_reader import Job, in_order


def counting(first: int, count: int) -> Job[int]:
    return lambda: iter(range(first, first + count))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_jobs(threads: int) -> None:
    jobs = [counting(10 * number, number % 10) for number in range(30)]
    assert list(in_order(jobs, threads)) == [value for job in jobs for value in job()]


def test_as_many_jobs_run_at_a_time_as_there_are_threads() -> None:
    meeting = threading.Barrier(3, timeout=30)

    def job() -> Iterator[int]:
        meeting.wait()
        yield threading.get_ident()

    assert len(set(in_order([job] * 3, 3))) == 3


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_after_the_results_before_it(threads: int) -> None:
    def failing() -> Iterator[int]:
        yield 7
        raise ZeroDivisionError

    found = in_order([counting(0, 2), failing, counting(100, 1000)], threads)
    assert [next(found) for _ in range(3)] == [0, 1, 7]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_a_caller_that_stops_stops_the_jobs() -> None:
    begun: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            begun.append(1)
            yield 1

    before = threading.active_count()
    found = in_order([endless] * 5, 2)
    assert next(found) == 1
    found.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
    assert len(begun) < 20
