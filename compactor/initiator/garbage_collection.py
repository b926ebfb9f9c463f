"""Pauses the garbage collector while very many small values are created that all stay alive."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_open_blocks = 0  #: number of open blocks on all threads
_was_on = False  #: whether the collector was on before the first block


@contextmanager
def waiting() -> Iterator[None]:
    """Pauses the collector until the end of this block and of those on other threads.

    It would visit all values repeatedly, and find nothing to free. For a bounded number of values only. Values without
    reference cycles are freed anyway.
    """
    _change_open_blocks(1)
    try:
        yield
    finally:
        _change_open_blocks(-1)


def _change_open_blocks(change: int) -> None:
    global _open_blocks, _was_on
    with _lock:
        if not _open_blocks:
            _was_on = gc.isenabled()
        _open_blocks += change
        if _open_blocks:
            gc.disable()
        elif _was_on:
            gc.enable()
