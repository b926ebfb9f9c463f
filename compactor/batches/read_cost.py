"""Measures how long a reader takes to open a compaction's inputs, and its output.

The measurement does what every reader does before its first row: list each directory, open each of its ORC files and
read the footer. The worker measures both sides one after the other once the compaction is committed, when the operating
system or the store has both cached; no rows are read, and the shortest of three rounds counts. It is a sample: at most
one run of a pass per ``compactor.opening.interval``, and on each side only as much as fits into ``LONGEST`` seconds, with
the rest extrapolated.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from compactor.acid.names import ACID_VERSION_FILE, FLUSH_LENGTH_SUFFIX, METADATA_FILE
from compactor.base.errors import CompactorError
from compactor.orc.format.tail import read_tail
from compactor.rows.remote_source import open_source
from compactor.site.best_effort import beside
from compactor.site.site import Site
from compactor.storage.protocol import Storage
from compactor.worker.outcome import Outcome, Result

log = logging.getLogger(__name__)
LONGEST = 1.0  #: seconds that one side may take; the round in progress is completed
ROUNDS = 3
AGAIN = 0.1  #: seconds within which another round begins: beside a longer one, what disturbs it counts little
_NOT_ROWS = (METADATA_FILE, ACID_VERSION_FILE, FLUSH_LENGTH_SUFFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCost:
    """Seconds until a reader has opened everything, before and after the compaction."""

    before: float
    after: float


class Sampler:
    """Chooses which runs of a pass to measure. Used by several threads."""

    def __init__(self, site: Site, clock: Callable[[], float] = time.perf_counter) -> None:
        self._site = site
        self._clock = clock
        self._every = site.settings.milliseconds("compactor.opening.interval") / 1000
        self._next: float | None = None
        self._lock = threading.Lock()

    def measure(self, outcome: Outcome) -> ReadCost | None:
        """Returns the read cost before and after; None if this run is not sampled, there is nothing to compare, or measuring
        it fails or hangs."""
        if self._site.state is None or outcome.result is not Result.COMPACTED or not self._is_due():
            return None
        return beside("measuring the cost of reading", partial(self._measured, outcome))

    def _measured(self, outcome: Outcome) -> ReadCost | None:
        try:
            after = seconds_to_open(self._site.storage, outcome.location, outcome.output, self._clock)
            before = seconds_to_open(self._site.storage, outcome.location, outcome.inputs, self._clock)
        except CompactorError as error:  # another file format, or already removed by the cleaner
            log.debug("%s: the time to open it is not measured: %s", outcome.entry.entity, error)
            return None
        return None if before is None or after is None else ReadCost(before=before, after=after)

    def _is_due(self) -> bool:
        with self._lock:
            now = self._clock()
            if not self._every or (self._next is not None and now < self._next):
                return False
            self._next = now + self._every
            return True


def seconds_to_open(
    storage: Storage, location: str, names: Sequence[str], clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """Returns the seconds to list the directories ``names`` and read the footer of each of their files; None if there is
    no file.

    It is the minimum of up to ``ROUNDS`` rounds, as time allows, so that other work of the machine does not count.

    Raises:
        BadFile: a file is not ORC, or is gone.
        StorageError: the store does not answer.
    """
    until = clock() + AGAIN
    found = [_round(storage, location, names, clock)]
    while found[-1] is not None and len(found) < ROUNDS and clock() < until:
        found.append(_round(storage, location, names, clock))
    return min((seconds for seconds in found if seconds is not None), default=None)


def _round(storage: Storage, location: str, names: Sequence[str], clock: Callable[[], float]) -> float | None:
    begun = clock()
    paths = [path for name in names for path in _files(storage, f"{location}/{name}")]
    listed = clock() - begun
    opened = 0
    begun = clock()
    for path in paths:
        with open_source(storage, path) as source:
            read_tail(source)
        opened += 1
        if clock() - begun > LONGEST:
            break
    return listed + (clock() - begun) * len(paths) / opened if opened else None


def _files(storage: Storage, path: str) -> list[str]:
    files = storage.listing(path).files
    return [f"{path}/{file.path}" for file in files if not file.path.endswith(_NOT_ROWS)]
