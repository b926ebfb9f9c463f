"""Steps that read from a store: one after the other where it is near, side by side where each waits for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

AHEAD = 16  #: steps under way at once
#: Seconds that a step must have waited, and how many times as long as it computed, so that threads are worth their start.
WAIT_S, WAIT_RATIO = 0.004, 3

_Thing = TypeVar("_Thing")
_Result = TypeVar("_Result")


def look_ahead(
    step: Callable[[_Thing], _Result], things: Iterable[_Thing], *, at_once: int = AHEAD
) -> Iterator[_Result]:
    """Yields what ``step`` returns for each of ``things``, in their order. Once one has waited much longer than it computed,
    some of the following ones are under way on threads; none is any longer when the iterator ends or is closed.

    Args:
        at_once: most steps under way; there are never more than ``AHEAD``.

    Raises:
        Exception: that of a step, in its turn; steps after it may have been done.
    """
    left = iter(things)
    for thing in left:
        result, has_waited = timed(step, thing)
        yield result
        if at_once > 1 and has_waited:
            yield from _on_threads(step, left, min(at_once, AHEAD))


def timed(step: Callable[[_Thing], _Result], thing: _Thing) -> tuple[_Result, bool]:
    """Returns what ``step`` returns, and true if it has waited so much longer than it computed that threads are worth their
    start. While other threads of this process compute, it waits for the interpreter, and further threads would, too."""
    begun, worked, used = time.perf_counter(), time.thread_time(), time.process_time()
    result = step(thing)
    computed = time.thread_time() - worked
    waited = time.perf_counter() - begun - (time.process_time() - used)
    return result, waited > max(WAIT_S, WAIT_RATIO * computed)


def _on_threads(step: Callable[[_Thing], _Result], things: Iterator[_Thing], at_once: int) -> Iterator[_Result]:
    under_way: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(at_once, thread_name_prefix="ahead") as pool:
        try:
            under_way.extend(pool.submit(step, thing) for thing in islice(things, at_once))
            while under_way:
                result = under_way.popleft().result()
                under_way.extend(pool.submit(step, thing) for thing in islice(things, 1))
                yield result
        finally:
            for later in under_way:
                later.cancel()
