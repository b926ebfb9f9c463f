"""Waits for eventual states: for the state itself, however slow the machine, and never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

#: Seconds that a loaded machine may take for anything. Only a failing test ever waits that long.
PATIENCE = 300.0

_T = TypeVar("_T")


def until(what: str, condition: Callable[[], _T], *, seconds: float = PATIENCE, pause: float = 0.01) -> _T:
    """Returns the first true answer of ``condition``.

    Raises:
        AssertionError: there was none within ``seconds``; the message names ``what`` was waited for.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain: {what}"
        time.sleep(pause)
    return found
