"""Looking for cycles among Python's objects less often than Python does by default.

Planning and rewriting make many objects and hardly any cycle; a worker that looks after every 700 new ones spends a
twentieth of its time on that.
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
