"""Replays the past under other settings.

The recorded writes arrive, and each pass decides again. Pure.

Passes run at their recorded times. A simulated compaction takes as long after its pass as the recorded ones did. Its
core-seconds and the bytes that it writes are proportional to the bytes that it reads, with the ratios of that table or
partition, or of all tables if it has no runs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from statistics import median

from compactor.compaction.decision import Decision, Facts
from compactor.compaction.economy import Policy, Purse, Wish, benefit, choose
from compactor.compaction.states import CompactionType
from compactor.insight.arrivals import (
    Content,
    Curve,
    Recorded,
    arrivals,
    core_seconds_a_byte,
    happened,
    keeps,
)

Decide = Callable[[Facts], Decision]
_NOTHING = {True: 1.0, False: 1.0}
_NEVER = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The facts that the replays of all tables and partitions share.

    ``passes`` are the initiator's passes (epoch ms, in order) and ``end`` is the end of the replayed time. ``lag_ms`` is the
    time from a pass to the begin of a compaction that it requests, ``run_ms`` the time that this takes. ``keeps`` and
    ``core_seconds`` are the ratios of all runs, by major (True) and minor (False).
    """

    passes: Sequence[int]
    end: int
    lag_ms: int = 0
    run_ms: int = 0
    keeps: dict[bool, float] = field(default_factory=lambda: dict(_NOTHING))
    core_seconds: dict[bool, float] = field(default_factory=lambda: dict(_NOTHING))

    @classmethod
    def from_passes(cls, passes: Sequence[int], end: int, recorded: Sequence[Recorded]) -> Frame:
        """Measures the facts from all records."""
        runs = [run for history in recorded for run in history.runs]
        lags = [lag for history in recorded for lag in _lags(history)]
        return cls(
            passes=passes,
            end=end,
            lag_ms=round(median(lags)) if lags else 0,
            run_ms=round(median(run.ended - run.began for run in runs)) if runs else 0,
            keeps=keeps(runs, _NOTHING),
            core_seconds=core_seconds_a_byte(runs, {True: 0.0, False: 0.0}),
        )


@dataclass(slots=True, kw_only=True)
class Tally:
    """Sums over tables and partitions: runs, their core-seconds, and the directories that readers open."""

    majors: int = 0
    minors: int = 0
    core_seconds: float = 0.0
    worst: int = 0
    directory_ms: int = 0
    all_ms: int = 0
    read_directories: float = 0.0  #: directories times reads a day times ms
    reads: float = 0.0
    curve: Curve = field(default_factory=Curve)

    @property
    def runs(self) -> int:
        return self.majors + self.minors

    @property
    def mean(self) -> float:
        """The mean number of directories over all tables and partitions and all of the time."""
        return self.directory_ms / self.all_ms if self.all_ms else 0.0

    @property
    def mean_of_reads(self) -> float:
        """The mean number of directories that a read opens: tables that are read often count for more."""
        return self.read_directories / self.reads if self.reads else 0.0

    def run(self, core_seconds: float, *, major: bool) -> None:
        """Counts one run."""
        self.majors += major
        self.minors += not major
        self.core_seconds += core_seconds

    def add_period(self, content: Content, since: int, until: int, reads: float = 1.0) -> None:
        """Counts content that lasted from ``since`` to ``until`` (epoch ms), at ``reads`` a day."""
        ms = until - since
        self.directory_ms += content.directories * ms
        self.all_ms += ms
        self.read_directories += reads * content.directories * ms
        self.reads += reads * ms
        self.worst = max(self.worst, content.directories)
        self.curve.add(content.directories, since, until)

    def to_json(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "majors": self.majors,
            "minors": self.minors,
            "core_seconds": round(self.core_seconds, 3),
            "mean_directories": round(self.mean, 3),
            "directories_a_read": round(self.mean_of_reads, 3),
            "worst_directories": self.worst,
        }


def count(recorded: Recorded, end: int, tally: Tally) -> None:
    """Counts what really happened to one table or partition."""
    begin = recorded.begin
    for run in recorded.runs:
        if run.began >= begin.at:
            tally.run(run.core_seconds, major=run.major)
    watch = _Watch(begin.at, end, tally, recorded.reads)
    for at, content in happened(recorded):
        watch.change(at, content)
    watch.close()


def replay(histories: Iterable[tuple[Recorded, Decide]], frame: Frame, tally: Tally, policy: Policy = Policy()) -> None:
    """Counts what would have happened to all tables and partitions.

    Args:
        histories: the records of each, with the function that decides about it.
        policy: chooses among the compactions that are due in a pass.
    """
    tracks = [_Track(recorded, decide, frame, tally) for recorded, decide in histories]
    waiting = [(track.first_look, number) for number, track in enumerate(tracks)]
    heapify(waiting)
    purse = Purse(policy.budget)
    while waiting and waiting[0][0] < len(frame.passes):
        look, now = waiting[0][0], frame.passes[waiting[0][0]]
        due: list[Wish[int]] = []
        while waiting and waiting[0][0] == look:
            _, number = heappop(waiting)
            wish_now = tracks[number].wish(number, now)
            if wish_now is None:
                heappush(waiting, (tracks[number].look_after(look), number))
            else:
                due.append(wish_now)
        chosen, later = choose(due, policy.order, purse, now)
        for wish in chosen:
            heappush(waiting, (tracks[wish.key].run(now), wish.key))
        for wish in later:
            heappush(waiting, (look + 1, wish.key))
    for track in tracks:
        track.close()


class _Watch:
    """Follows the content of one table or partition over time, and counts it."""

    def __init__(self, begin: int, end: int, tally: Tally, reads: float) -> None:
        self._since, self._end, self._tally, self._reads = begin, end, tally, reads
        self._content_now = Content()

    def change(self, at: int, content: Content) -> None:
        """Changes the content to ``content`` at ``at``."""
        until = max(self._since, min(at, self._end))
        self._tally.add_period(self._content_now, self._since, until, self._reads)
        self._since, self._content_now = until, content

    def close(self) -> None:
        """Counts the last content up to the end."""
        self._tally.add_period(self._content_now, self._since, max(self._since, self._end), self._reads)


class _Track:
    """One table or partition in a replay: its content, and the writes still to come."""

    def __init__(self, recorded: Recorded, decide: Decide, frame: Frame, tally: Tally) -> None:
        self._decide, self._frame, self._tally = decide, frame, tally
        self._content, self._waiting = recorded.begin.content, deque(arrivals(recorded))
        self._ratio_kept, self._cost = (
            keeps(recorded.runs, frame.keeps),
            core_seconds_a_byte(recorded.runs, frame.core_seconds),
        )
        self._no_minor = any(look.no_minor for look in recorded.looks)
        self._reads = recorded.reads
        self._watch = _Watch(recorded.begin.at, frame.end, tally, recorded.reads)
        self._watch.change(recorded.begin.at, self._content)
        self._kind: CompactionType | None = None
        self.first_look = bisect_left(frame.passes, recorded.begin.at)

    def wish(self, key: int, now: int) -> Wish[int] | None:
        """Looks at the content at ``now``; returns the compaction that is due."""
        self._add_arrivals(now)
        content = self._content
        self._kind = self._decide(_facts(content, minor_supported=not self._no_minor)).type
        if self._kind not in (CompactionType.MAJOR, CompactionType.MINOR) or not content.deltas:
            return None
        major = self._kind is CompactionType.MAJOR
        return Wish(
            key=key,
            benefit=benefit(self._kind, deltas=content.deltas, delete_bytes=content.delete_bytes, reads=self._reads),
            cost=_read(content, major=major) * self._cost[major],
        )

    def look_after(self, look: int) -> int:
        """Returns the number of the next pass that may see something else than pass ``look``."""
        following = self._waiting[0].at if self._waiting else _NEVER
        return max(look + 1, bisect_left(self._frame.passes, following))

    def run(self, now: int) -> int:
        """Runs the compaction that was due at ``now``; returns the number of the first pass after its end."""
        major, began = self._kind is CompactionType.MAJOR, now + self._frame.lag_ms
        self._add_arrivals(began)
        ended = began + self._frame.run_ms
        if ended > self._frame.end:
            return len(self._frame.passes)
        self._tally.run(_read(self._content, major=major) * self._cost[major], major=major)
        self._content = self._content.merged(major=major, keeps=self._ratio_kept[major])
        self._watch.change(ended, self._content)
        return bisect_left(self._frame.passes, ended)

    def close(self) -> None:
        """Counts the last content up to the end."""
        self._watch.close()

    def _add_arrivals(self, until: int) -> None:
        while self._waiting and self._waiting[0].at <= until:
            arrival = self._waiting.popleft()
            self._content = self._content.plus(arrival)
            self._watch.change(arrival.at, self._content)


def _facts(content: Content, *, minor_supported: bool) -> Facts:
    return Facts(
        base_bytes=content.base_bytes,
        delta_bytes=content.delta_bytes,
        delete_bytes=content.delete_bytes,
        files=content.directories,
        deltas=content.deltas,
        delete_deltas=min(content.deltas, int(content.delete_bytes > 0)),
        has_base=content.base_bytes > 0,
        minor_supported=minor_supported,
    )


def _read(content: Content, *, major: bool) -> int:
    return content.delta_bytes + (content.base_bytes if major else 0)


def _lags(recorded: Recorded) -> list[int]:
    """Returns the times (ms) from the look that requested each run to its begin."""
    request_times = [look.at for look in recorded.looks if look.is_due]
    runs = [(run, bisect_right(request_times, run.began)) for run in recorded.runs]
    return [run.began - request_times[number - 1] for run, number in runs if number]
