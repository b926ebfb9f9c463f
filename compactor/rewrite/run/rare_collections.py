"""Makes Python's garbage collector look for cycles less often than by default.

Planning and rewriting create many objects and hardly any cycles. A worker that looks for them after every 700 new objects
spends a twentieth of its time on that.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_OBJECTS = 20_000  #: until cycles are looked for


def collect_rarely() -> None:
    """Makes this process look for cycles rarely from now on."""
    gc.set_threshold(_NEW_OBJECTS)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Looks for cycles rarely until the block ends."""
    before = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
