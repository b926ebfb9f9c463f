"""The options of a worker's pass, and its progress in memory: how much of each entry is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from compactor.site.threads import SideBySide
from compactor.state.runs import Progress


@dataclass(slots=True, kw_only=True)
class _EntryProgress:
    """The units of one entry by their bytes, with the finished share of each.

    While slices are merged, ``later`` are the units of the plan that follow.
    """

    began: float
    sizes: list[int] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    later: Sequence[int] = ()

    def progress(self, entry_id: int, now: float) -> Progress:
        done = sum(size * share for size, share in zip(self.sizes, self.shares, strict=True))
        return Progress(
            entry_id=entry_id,
            units=len(self.sizes) + len(self.later),
            units_done=sum(share == 1 for share in self.shares),
            bytes=sum(self.sizes) + sum(self.later),
            bytes_done=round(done),
            spent_ms=round(1000 * (now - self.began)),
        )


class UnderWay:
    """The progress that threads report for their entries. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._works: dict[int, _EntryProgress] = {}
        self._changed: set[int] = set()

    def begin(self, entry_id: int, sizes: Sequence[int], later: Sequence[int] = ()) -> Callable[[int, float], None]:
        """Adds units of an entry by their bytes; ``later`` are the sizes of known units that follow.

        Returns:
            a function that reports progress: it takes the index of a unit in ``sizes``, and the finished share.
        """
        with self._lock:
            work = self._works.setdefault(entry_id, _EntryProgress(began=self._clock()))
            first = len(work.sizes)
            work.sizes += sizes
            work.shares += [0.0] * len(sizes)
            work.later = later
            self._changed.add(entry_id)
        return partial(self._record_share, entry_id, first)

    def end(self, entry_id: int) -> None:
        """Forgets an entry that has ended."""
        with self._lock:
            self._works.pop(entry_id, None)
            self._changed.discard(entry_id)

    def changed(self) -> list[Progress]:
        """Returns the progress of the entries that advanced since the last call."""
        with self._lock:
            now, changed = self._clock(), sorted(self._changed)
            self._changed.clear()
            return [self._works[number].progress(number, now) for number in changed]

    def _record_share(self, entry_id: int, first: int, place: int, share: float) -> None:
        with self._lock:
            work = self._works.get(entry_id)
            if work is not None:
                work.shares[first + place] = share
                self._changed.add(entry_id)


def _goes_on() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a pass.

    With ``small_stripe_bytes`` None, the default of a unit applies. ``stops`` returns true once the pass has been asked to
    end soon. ``threads`` run steps that only need storage. ``under_way`` collects the progress of each entry.
    """

    full_verify: bool = False
    small_stripe_bytes: int | None = None
    stops: Callable[[], bool] = _goes_on
    threads: SideBySide = field(default_factory=lambda: SideBySide(1, "store"))
    under_way: UnderWay = field(default_factory=UnderWay)
