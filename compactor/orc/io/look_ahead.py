"""Runs steps that read from a store: in turn if it is near, side by side if each step waits for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

AHEAD = 16  #: steps under way at once
#: Threads are worth their start if a step waited so many seconds, and so many times as long as it computed.
WAIT_S, WAIT_RATIO = 0.004, 3

_Thing = TypeVar("_Thing")
_Result = TypeVar("_Result")


def look_ahead(
    step: Callable[[_Thing], _Result], things: Iterable[_Thing], *, at_once: int = AHEAD
) -> Iterator[_Result]:
    """Yields the result of ``step`` for each of ``things``, in order.

    If a step waits much longer than it computes, some of the following steps run ahead on threads. All of them have ended
    when the iterator ends or is closed.

    Args:
        at_once: the most steps under way, never more than ``AHEAD``.

    Raises:
        Exception: that of a step, in its turn. Later steps may have run already.
    """
    remaining = iter(things)
    for thing in remaining:
        result, has_waited = run_timed(step, thing)
        yield result
        if at_once > 1 and has_waited:
            yield from _on_threads(step, remaining, min(at_once, AHEAD))


def run_timed(step: Callable[[_Thing], _Result], thing: _Thing) -> tuple[_Result, bool]:
    """Returns the result of ``step``, and true if it waited so long that threads are worth their start.

    Waiting for the interpreter while other threads compute does not count, since further threads would wait, too.
    """
    started_at, worked, used = time.perf_counter(), time.thread_time(), time.process_time()
    result = step(thing)
    computed = time.thread_time() - worked
    waited = time.perf_counter() - started_at - (time.process_time() - used)
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
