"""The garbage collector, told to wait while very many small values are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def waiting() -> Iterator[None]:
    """Lets it wait to the end of the block: it would go through all values again and again, and find nothing.

    For a bounded number of values only; those that do not refer to each other are freed anyway.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
