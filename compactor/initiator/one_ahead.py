"""Things that take a while to make, each made while the one before is in use."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

_Thing = TypeVar("_Thing")


@contextmanager
def one_ahead(things: Iterator[_Thing]) -> Iterator[Iterator[_Thing]]:
    """Gives ``things``, made one after the other in a thread that is one ahead: where making them waits for a database, it
    works meanwhile. At the end of the block nothing is under way any longer.

    Raises:
        Exception: that of making a thing, in its turn; nothing is made after it.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as maker:
        yield _each(things, maker)


def _each(things: Iterator[_Thing], maker: ThreadPoolExecutor) -> Iterator[_Thing]:
    coming = maker.submit(_some, things)
    while thing := coming.result():
        coming = maker.submit(_some, things)
        yield thing[0]


def _some(things: Iterator[_Thing]) -> tuple[_Thing, ...]:
    """Returns the next of ``things``, if there is one."""
    for thing in things:
        return (thing,)
    return ()
