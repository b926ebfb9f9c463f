"""Replays the past under other settings: what was written comes again, and each pass decides anew. Pure.

The passes are those that were, and a compaction ends as long after the pass that asked for it as those that were did. Its
core-seconds and the bytes that it leaves are in proportion to the bytes that it reads, as they were in that table or
partition, or else in all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from compactor.compaction.decision import Decision, Facts
from compactor.compaction.states import CompactionType
from compactor.service.insight.arrivals import (
    Arrival,
    Content,
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

    @property
    def runs(self) -> int:
        return self.majors + self.minors

    @property
    def mean(self) -> float:
        """The number of directories that a reader of one table or partition met, over all of them and all of the time."""
        return self.directory_ms / self.all_ms if self.all_ms else 0.0

    def run(self, core_seconds: float, *, major: bool) -> None:
        """Counts one run."""
        self.majors += major
        self.minors += not major
        self.core_seconds += core_seconds

    def lasted(self, content: Content, milliseconds: int) -> None:
        """Counts what a reader met for some time."""
        self.directory_ms += content.directories * milliseconds
        self.all_ms += milliseconds
        self.worst = max(self.worst, content.directories)

    def to_json(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "majors": self.majors,
            "minors": self.minors,
            "core_seconds": round(self.core_seconds, 3),
            "mean_directories": round(self.mean, 3),
            "worst_directories": self.worst,
        }


def count(recorded: Recorded, end: int, tally: Tally) -> None:
    """Counts what happened to one table or partition."""
    begin = recorded.begin
    for run in recorded.runs:
        if run.began >= begin.at:
            tally.run(run.core_seconds, major=run.major)
    _over_time(happened(recorded), begin.at, end, tally)


def replay(recorded: Recorded, decide: Decide, frame: Frame, tally: Tally) -> None:
    """Counts what would have happened to one table or partition, if ``decide`` had decided."""
    _over_time(_replayed(recorded, decide, frame, tally), recorded.begin.at, frame.end, tally)


def _replayed(recorded: Recorded, decide: Decide, frame: Frame, tally: Tally) -> Iterable[tuple[int, Content]]:
    content, waiting = recorded.begin.content, deque(arrivals(recorded))
    left, cost = keeps(recorded.runs, frame.keeps), core_seconds_a_byte(recorded.runs, frame.core_seconds)
    no_minor = any(look.no_minor for look in recorded.looks)
    at, free = recorded.begin.at, recorded.begin.at
    yield at, content
    looks_at = bisect_left(frame.passes, at)
    while looks_at < len(frame.passes):
        now = frame.passes[looks_at]
        content = yield from _grown(content, waiting, now)
        kind = decide(_facts(content, minor_supported=not no_minor)).type if now >= free else None
        if kind in (CompactionType.MAJOR, CompactionType.MINOR) and content.deltas:
            major, began = kind is CompactionType.MAJOR, now + frame.lag_ms
            content = yield from _grown(content, waiting, began)
            free = began + frame.run_ms
            if free > frame.end:
                return
            tally.run(_read(content, major=major) * cost[major], major=major)
            content = content.merged(major=major, keeps=left[major])
            yield free, content
            looks_at = bisect_left(frame.passes, free)
            continue
        # nothing changes until the next one arrives
        following = waiting[0].at if waiting else _NEVER
        looks_at = max(looks_at + 1, bisect_left(frame.passes, min(following, free) if now < free else following))


def _grown(content: Content, waiting: deque[Arrival], until: int) -> Generator[tuple[int, Content], None, Content]:
    """Takes from ``waiting`` what arrives at ``until`` at the latest; yields the content after each, returns the last."""
    while waiting and waiting[0].at <= until:
        arrival = waiting.popleft()
        content = content.plus(arrival)
        yield arrival.at, content
    return content


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


def _over_time(states: Iterable[tuple[int, Content]], begin: int, end: int, tally: Tally) -> None:
    since, there = begin, Content()
    for at, content in states:
        tally.lasted(there, max(0, min(at, end) - since))
        since, there = max(since, min(at, end)), content
    tally.lasted(there, max(0, end - since))


def _lags(recorded: Recorded) -> list[int]:
    """Returns the times from the look that asked for a run to its beginning."""
    asked = [look.at for look in recorded.looks if look.is_due]
    found = [(run, bisect_right(asked, run.began)) for run in recorded.runs]
    return [run.began - asked[number - 1] for run, number in found if number]
