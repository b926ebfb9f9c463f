"""How long a reader takes to open what a compaction read, and what it made instead: measured, not estimated.

Measured is what every reader does before its first row: list each directory, open each of its ORC files and read the
footer. Both sides are measured one after the other by the worker once the compaction is committed, when the operating
system or the store has both at hand; rows are not read, and of three rounds the shortest counts. It is a sample: of the
runs of a pass at most one in ``compactor.opening.interval``, and of each side no more than fits into ``LONGEST`` seconds,
the rest in proportion.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compactor.acid.names import ACID_VERSION_FILE, FLUSH_LENGTH_SUFFIX, METADATA_FILE
from compactor.errors import CompactorError
from compactor.orc.format.tail import read_tail
from compactor.rows.opening import open_source
from compactor.service.site import Site
from compactor.service.worker.outcome import Outcome, Result
from compactor.storage.protocol import Storage

log = logging.getLogger(__name__)
LONGEST = 1.0  #: seconds that one side may take, but for the round that it ends in
ROUNDS = 3
_NOT_ROWS = (METADATA_FILE, ACID_VERSION_FILE, FLUSH_LENGTH_SUFFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCost:
    """Seconds until a reader has opened everything, before and after."""

    before: float
    after: float


class Sampler:
    """Chooses the runs of one pass that are measured. Used by several threads."""

    def __init__(self, site: Site, clock: Callable[[], float] = time.perf_counter) -> None:
        self._site = site
        self._clock = clock
        self._every = site.settings.milliseconds("compactor.opening.interval") / 1000
        self._next: float | None = None
        self._lock = threading.Lock()

    def measure(self, outcome: Outcome) -> ReadCost | None:
        """What the compaction brought its readers; None where it is not its turn, or there is nothing to compare."""
        if self._site.state is None or outcome.result is not Result.COMPACTED or not self._is_its_turn():
            return None
        try:
            after = seconds_to_open(self._site.storage, outcome.location, outcome.output, self._clock)
            before = seconds_to_open(self._site.storage, outcome.location, outcome.inputs, self._clock)
        except CompactorError as error:  # a file of another format, or gone: the cleaner may have been there already
            log.debug("%s: how long it takes to open is not measured: %s", outcome.entry.entity, error)
            return None
        return None if before is None or after is None else ReadCost(before=before, after=after)

    def _is_its_turn(self) -> bool:
        with self._lock:
            now = self._clock()
            if not self._every or (self._next is not None and now < self._next):
                return False
            self._next = now + self._every
            return True


def seconds_to_open(
    storage: Storage, location: str, names: Sequence[str], clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """Seconds to list the directories ``names`` and to read the footer of each of their files; None without a file.

    The least of ``ROUNDS``, as long as there is time for another: what else the machine did meanwhile is no reader's wait.

    Raises:
        BadFile: a file is none of ORC, or gone.
        StorageError: the store does not answer.
    """
    until = clock() + LONGEST
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
