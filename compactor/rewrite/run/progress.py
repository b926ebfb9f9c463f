"""Logs the progress of long work. The command line shows these lines by default."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)
EVERY_S = 10.0


class JobProgress:
    """Logs the progress of ``what`` every ``EVERY_S`` seconds. Shorter work is not worth a line."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._started_at = self._last_line = clock()

    @property
    def pause_s(self) -> float:
        """Seconds until the next line is due."""
        return max(0.0, self._last_line + EVERY_S - self._clock())

    def report(self, *, done: int, under_way: int, waiting: int) -> None:
        """Logs a line if one is due. The numbers count tasks; those under way may give rise to more."""
        if self.pause_s:
            return
        self._last_line = self._clock()
        log.info(
            "%s: %d of %d tasks done, %d under way, after %.0f s",
            self._what,
            done,
            done + under_way + waiting,
            under_way,
            self._last_line - self._started_at,
        )
