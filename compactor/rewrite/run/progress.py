"""What long work says of itself while it lasts; the command line shows it unasked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)
EVERY_S = 10.0


class JobProgress:
    """Tells every ``EVERY_S`` seconds how far ``what`` is. Shorter work is not worth a line."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._begun = self._told = clock()

    @property
    def pause_s(self) -> float:
        """Seconds until the next line is due."""
        return max(0.0, self._told + EVERY_S - self._clock())

    def tell(self, *, done: int, under_way: int, waiting: int) -> None:
        """A line, if one is due: of tasks, more of which may come of those that are under way."""
        if self.pause_s:
            return
        self._told = self._clock()
        log.info(
            "%s: %d of %d tasks done, %d under way, after %.0f s",
            self._what,
            done,
            done + under_way + waiting,
            under_way,
            self._told - self._begun,
        )
