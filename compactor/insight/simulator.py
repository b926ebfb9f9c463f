"""Replays the past under other settings: what was written comes again, and each pass decides anew. Pure.

The passes are those that were, and a compaction ends as long after the pass that asked for it as those that were did. Its
core-seconds and the bytes that it leaves are in proportion to the bytes that it reads, as they were in that table or
partition, or else in all.
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
    Recorded,
    arrivals,
    core_seconds_a_byte,
    happened,
    keeps,
)
from compactor.insight.curve import Curve

Decide = Callable[[Facts], Decision]
_NOTHING = {True: 1.0, False: 1.0}
_NEVER = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The facts that the replays of all tables and partitions share: the initiator's passes (epoch ms, in order), the end of
    the time that is replayed, the milliseconds from a pass to the beginning and to the end of what it asked for, and the
    figures of the runs of all."""

    passes: Sequence[int]
    end: int
    lag_ms: int = 0
    run_ms: int = 0
    keeps: dict[bool, float] = field(default_factory=lambda: dict(_NOTHING))
    core_seconds: dict[bool, float] = field(default_factory=lambda: dict(_NOTHING))

    @classmethod
    def of(cls, passes: Sequence[int], end: int, recorded: Sequence[Recorded]) -> Frame:
        """Measures it on all that is recorded."""
        runs = [run for one in recorded for run in one.runs]
        lags = [lag for one in recorded for lag in _lags(one)]
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
    """Sums over tables and partitions: runs, the core-seconds that they took, and directories that a reader met."""

    majors: int = 0
    minors: int = 0
    core_seconds: float = 0.0
    worst: int = 0
    directory_ms: int = 0
    all_ms: int = 0
    read_directories: float = 0.0  #: that reads met, in reads of a day times ms, as is their number
    reads: float = 0.0
    curve: Curve = field(default_factory=Curve)

    @property
    def runs(self) -> int:
        return self.majors + self.minors

    @property
    def mean(self) -> float:
        """The number of directories that a reader of one table or partition met, over all of them and all of the time."""
        return self.directory_ms / self.all_ms if self.all_ms else 0.0

    @property
    def mean_of_reads(self) -> float:
        """The number of directories that a read met: what is often read counts for more."""
        return self.read_directories / self.reads if self.reads else 0.0

    def run(self, core_seconds: float, *, major: bool) -> None:
        """Counts one run."""
        self.majors += major
        self.minors += not major
        self.core_seconds += core_seconds

    def lasted(self, content: Content, since: int, until: int, reads: float = 1.0) -> None:
        """Counts what a reader met from ``since`` to ``until`` (epoch ms), at ``reads`` a day."""
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
    """Counts what happened to one table or partition."""
    begin = recorded.begin
    for run in recorded.runs:
        if run.began >= begin.at:
            tally.run(run.core_seconds, major=run.major)
    watch = _Watch(begin.at, end, tally, recorded.reads)
    for at, content in happened(recorded):
        watch.turn(at, content)
    watch.close()


def replay(every: Iterable[tuple[Recorded, Decide]], frame: Frame, tally: Tally, policy: Policy = Policy()) -> None:
    """Counts what would have happened to all tables and partitions, if each ``decide`` had decided and ``policy`` had chosen
    among what was due in a pass."""
    tracks = [_Track(recorded, decide, frame, tally) for recorded, decide in every]
    waiting = [(track.first_look, number) for number, track in enumerate(tracks)]
    heapify(waiting)
    purse = Purse(policy.budget)
    while waiting and waiting[0][0] < len(frame.passes):
        look, now = waiting[0][0], frame.passes[waiting[0][0]]
        due: list[Wish[int]] = []
        while waiting and waiting[0][0] == look:
            _, number = heappop(waiting)
            wish = tracks[number].wish(number, now)
            if wish is None:
                heappush(waiting, (tracks[number].look_after(look), number))
            else:
                due.append(wish)
        chosen, later = choose(due, policy.order, purse, now)
        for one in chosen:
            heappush(waiting, (tracks[one.key].run(now), one.key))
        for one in later:
            heappush(waiting, (look + 1, one.key))
    for track in tracks:
        track.close()


class _Watch:
    """The content of one table or partition that its readers meet, as time goes on."""

    def __init__(self, begin: int, end: int, tally: Tally, reads: float) -> None:
        self._since, self._end, self._tally, self._reads = begin, end, tally, reads
        self._there = Content()

    def turn(self, at: int, content: Content) -> None:
        """Tells that from ``at`` on there is ``content``."""
        until = max(self._since, min(at, self._end))
        self._tally.lasted(self._there, self._since, until, self._reads)
        self._since, self._there = until, content

    def close(self) -> None:
        """Tells that nothing changes any more."""
        self._tally.lasted(self._there, self._since, max(self._since, self._end), self._reads)


class _Track:
    """One table or partition in a replay: what is there, and what will still be written."""

    def __init__(self, recorded: Recorded, decide: Decide, frame: Frame, tally: Tally) -> None:
        self._decide, self._frame, self._tally = decide, frame, tally
        self._content, self._waiting = recorded.begin.content, deque(arrivals(recorded))
        self._left, self._cost = (
            keeps(recorded.runs, frame.keeps),
            core_seconds_a_byte(recorded.runs, frame.core_seconds),
        )
        self._no_minor = any(look.no_minor for look in recorded.looks)
        self._reads = recorded.reads
        self._watch = _Watch(recorded.begin.at, frame.end, tally, recorded.reads)
        self._watch.turn(recorded.begin.at, self._content)
        self._kind: CompactionType | None = None
        self.first_look = bisect_left(frame.passes, recorded.begin.at)

    def wish(self, key: int, now: int) -> Wish[int] | None:
        """Looks at what is there at ``now``; returns the compaction that is due."""
        self._grow(now)
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
        """Returns the number of the next pass that may find anything else than that of number ``look``."""
        following = self._waiting[0].at if self._waiting else _NEVER
        return max(look + 1, bisect_left(self._frame.passes, following))

    def run(self, now: int) -> int:
        """Runs what the look at ``now`` found to be due; returns the number of the first pass after it has ended."""
        major, began = self._kind is CompactionType.MAJOR, now + self._frame.lag_ms
        self._grow(began)
        ended = began + self._frame.run_ms
        if ended > self._frame.end:
            return len(self._frame.passes)
        self._tally.run(_read(self._content, major=major) * self._cost[major], major=major)
        self._content = self._content.merged(major=major, keeps=self._left[major])
        self._watch.turn(ended, self._content)
        return bisect_left(self._frame.passes, ended)

    def close(self) -> None:
        """Takes in what is written after the last pass."""
        self._watch.close()

    def _grow(self, until: int) -> None:
        while self._waiting and self._waiting[0].at <= until:
            arrival = self._waiting.popleft()
            self._content = self._content.plus(arrival)
            self._watch.turn(arrival.at, self._content)


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
    """Returns the times from the look that asked for a run to its beginning."""
    asked = [look.at for look in recorded.looks if look.is_due]
    found = [(run, bisect_right(asked, run.began)) for run in recorded.runs]
    return [run.began - asked[number - 1] for run, number in found if number]
