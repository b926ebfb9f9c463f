"""Produces the next item of an iterator on a thread while the present item is in use."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

_Thing = TypeVar("_Thing")


@contextmanager
def one_ahead(things: Iterator[_Thing]) -> Iterator[Iterator[_Thing]]:
    """Yields an iterator over ``things`` that takes each item one step ahead, on a thread.

    So the wait for a database overlaps with the work on the item before. The thread has ended when the block ends.

    Raises:
        Exception: the error of taking an item, raised in its place; no item follows.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as maker:
        yield _take_ahead(things, maker)


def _take_ahead(things: Iterator[_Thing], maker: ThreadPoolExecutor) -> Iterator[_Thing]:
    coming = maker.submit(_take_next, things)
    while thing := coming.result():
        coming = maker.submit(_take_next, things)
        yield thing[0]


def _take_next(things: Iterator[_Thing]) -> tuple[_Thing, ...]:
    """Returns a tuple with the next item, which is empty at the end."""
    for thing in things:
        return (thing,)
    return ()
