"""The time zone of this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def time_zone(name: str) -> Iterator[None]:
    """Moves this process to a time zone until the block ends."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TZ", name)
            time.tzset()
            yield
    finally:
        time.tzset()
