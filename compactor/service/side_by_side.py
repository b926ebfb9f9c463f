"""Threads that do one step for many things: most of a step over tables and partitions is waiting for a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

_Thing = TypeVar("_Thing")
_Result = TypeVar("_Result")


class SideBySide:
    """Up to ``count`` steps at once, until the block ends; with 1, one after the other in the calling thread."""

    def __init__(self, count: int, name: str) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name) if count > 1 else None

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def map(self, step: Callable[[_Thing], _Result], things: Iterable[_Thing]) -> list[_Result]:
        """Returns what ``step`` returns for each of ``things``, in their order.

        An error of a step ends only that share of the work; it is raised once nothing is under way any longer.
        """
        every = list(things)
        if self._pool is None or len(every) < 2:
            return [step(one) for one in every]
        results: dict[int, _Result] = {}
        numbers = iter(range(len(every)))  # each thread takes the next one
        shares = [self._pool.submit(_work, step, every, numbers, results) for _ in range(min(self.count, len(every)))]
        wait(shares)
        for share in shares:
            share.result()
        return [results[number] for number in range(len(every))]


def _work(
    step: Callable[[_Thing], _Result], things: Sequence[_Thing], numbers: Iterator[int], results: dict[int, _Result]
) -> None:
    for number in numbers:
        results[number] = step(things[number])
