"""The last answer to a question that the databases count long for, given to everybody who asks soon after.

A page that is open on many desks asks again and again. An answer stands for ten times as long as it took, so all of them
together keep a database busy for a tenth of the time at most, and what is answered quickly is asked each time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from compactor.answers.fleet import Fleet, count_fleet
from compactor.site.site import Site

_T = TypeVar("_T")
_TIMES = 10  #: the time that an answer took
_LONGEST_S = 30  #: after which it is asked anew, whatever it took


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer(Generic[_T]):
    value: _T
    until: float


class LastAnswer(Generic[_T]):
    """The last answer to one question; one asker at a time has it answered, and the others wait for that."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._last: _Answer[_T] | None = None

    def get(self, answer: Callable[[], _T]) -> _T:
        """Returns the last answer as long as it stands, else that of ``answer``, whose errors stand for nobody."""
        with self._lock:
            begun, last = self._clock(), self._last
            if last is None or begun >= last.until:
                value = answer()
                ended = self._clock()
                last = self._last = _Answer(value=value, until=ended + min(_TIMES * (ended - begun), _LONGEST_S))
            return last.value


_ALL: dict[tuple[str, str], LastAnswer[Fleet]] = {}


def last_count_of(site: Site) -> Fleet:
    """Returns what this process counted last over all of a metastore (``fleet.counted``), or counts it anew."""
    key = (site.name, site.metastore.database.url)
    return _ALL.setdefault(key, LastAnswer()).get(partial(count_fleet, site))
