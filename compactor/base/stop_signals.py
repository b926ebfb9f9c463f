"""Stops a role that runs pass after pass, by SIGTERM or SIGINT, once its current work is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """A request to stop, made by a signal; it also ends ``wait`` early."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def is_requested(self) -> bool:
        return self._event.is_set()

    def request(self) -> None:
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Waits up to ``seconds``; returns true as soon as a stop is requested."""
        return self._event.wait(seconds)


@contextmanager
def catch_stop_signals() -> Iterator[Stop]:
    """Turns signals into requests to stop while the block runs. A second signal has its usual effect."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    kinds = (signal.SIGTERM, signal.SIGINT)
    before = {kind: signal.getsignal(kind) for kind in kinds}

    def handle(number: int, frame: FrameType | None) -> None:
        stop.request()
        for kind, handler in before.items():
            signal.signal(kind, handler)

    for kind in kinds:
        signal.signal(kind, handle)
    try:
        yield stop
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
