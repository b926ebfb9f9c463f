"""Measures how long a reader takes to open a compaction's inputs and its output.

It does what every reader does before the first row: list each directory, open each ORC file and read its footer. The worker
measures the output and then the inputs after the commit, when both are cached. No rows are read, and the shortest of three
rounds counts. It is a sample: at most one run of a pass per ``compactor.opening.interval``. Each side takes at most
``LONGEST`` seconds, and the rest is extrapolated.
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
from compactor.site.site import Site
from compactor.site.threads import run_best_effort
from compactor.storage.protocol import Storage
from compactor.worker.ending import Outcome, Result

log = logging.getLogger(__name__)
LONGEST = 1.0  #: seconds that one side may take; the round in progress is completed
ROUNDS = 3
AGAIN = 0.1  #: seconds within which another round begins; disturbances matter little for a longer round
_NOT_ROWS = (METADATA_FILE, ACID_VERSION_FILE, FLUSH_LENGTH_SUFFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCost:
    """Seconds until a reader has opened everything, before and after the compaction."""

    before: float
    after: float


class CostSampler:
    """Chooses which runs of a pass to measure. Used by several threads."""

    def __init__(self, site: Site, clock: Callable[[], float] = time.perf_counter) -> None:
        self._site = site
        self._clock = clock
        self._every = site.settings.milliseconds("compactor.opening.interval") / 1000
        self._next: float | None = None
        self._lock = threading.Lock()

    def measure(self, outcome: Outcome) -> ReadCost | None:
        """Returns the read cost before and after; None if the run is not sampled or cannot be measured."""
        if self._site.state is None or outcome.result is not Result.COMPACTED or not self._is_due():
            return None
        return run_best_effort("measuring the cost of reading", partial(self._measure_both, outcome))

    def _measure_both(self, outcome: Outcome) -> ReadCost | None:
        try:
            after = measure_opening(self._site.storage, outcome.location, outcome.output, self._clock)
            before = measure_opening(self._site.storage, outcome.location, outcome.inputs, self._clock)
        except CompactorError as error:  # another file format, or the cleaner has already removed the files
            log.debug("%s: cannot measure the time to open it: %s", outcome.entry.entity, error)
            return None
        return None if before is None or after is None else ReadCost(before=before, after=after)

    def _is_due(self) -> bool:
        with self._lock:
            now = self._clock()
            if not self._every or (self._next is not None and now < self._next):
                return False
            self._next = now + self._every
            return True


def measure_opening(
    storage: Storage, location: str, names: Sequence[str], clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """Returns the seconds to list ``names`` and read the footer of each file; None without files.

    It is the minimum of up to ``ROUNDS`` rounds, as time allows, so that other work on the machine does not count.

    Raises:
        BadFile: a file is not ORC, or is gone.
        StorageError: the store does not answer.
    """
    until = clock() + AGAIN
    rounds = [_measure_round(storage, location, names, clock)]
    while rounds[-1] is not None and len(rounds) < ROUNDS and clock() < until:
        rounds.append(_measure_round(storage, location, names, clock))
    return min((seconds for seconds in rounds if seconds is not None), default=None)


def _measure_round(storage: Storage, location: str, names: Sequence[str], clock: Callable[[], float]) -> float | None:
    started_at = clock()
    paths = [path for name in names for path in _list_files(storage, f"{location}/{name}")]
    listing_seconds = clock() - started_at
    opened = 0
    started_at = clock()
    for path in paths:
        with open_source(storage, path) as source:
            read_tail(source)
        opened += 1
        if clock() - started_at > LONGEST:
            break
    return listing_seconds + (clock() - started_at) * len(paths) / opened if opened else None


def _list_files(storage: Storage, path: str) -> list[str]:
    files = storage.listing(path).files
    return [f"{path}/{file.path}" for file in files if not file.path.endswith(_NOT_ROWS)]
