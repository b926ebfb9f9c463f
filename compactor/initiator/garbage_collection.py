"""The garbage collector, told to wait while very many small values are made that all stay."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_asked = 0  #: blocks that are open, on whatever thread
_was_on = False  #: before the first of them


@contextmanager
def waiting() -> Iterator[None]:
    """Lets it wait to the end of the block, and of those on other threads: it would go through all values again and again,
    and find nothing.

    For a bounded number of values only; those that do not refer to each other are freed anyway.
    """
    _ask(1)
    try:
        yield
    finally:
        _ask(-1)


def _ask(more: int) -> None:
    global _asked, _was_on
    with _lock:
        if not _asked:
            _was_on = gc.isenabled()
        _asked += more
        if _asked:
            gc.disable()
        elif _was_on:
            gc.enable()
