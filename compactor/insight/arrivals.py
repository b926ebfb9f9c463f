"""Infers when deltas arrived in a table or partition, from the initiator's looks and the runs' inputs.

Pure.

Nothing records when a delta was written. It appears between two looks, or a run merges it before the next look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

PARTS = 96  #: of the time; as many as a plot shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The directories that a reader opens.

    The number of deltas, and the bytes of deltas, delete deltas and base.
    """

    deltas: int = 0
    delta_bytes: int = 0
    delete_bytes: int = 0
    base_bytes: int = 0

    @property
    def directories(self) -> int:
        return self.deltas + (self.base_bytes > 0)

    def plus(self, arrival: Arrival) -> Content:
        """Returns the content after ``arrival`` was written."""
        return replace(
            self,
            deltas=self.deltas + arrival.deltas,
            delta_bytes=self.delta_bytes + arrival.bytes,
            delete_bytes=self.delete_bytes + arrival.delete_bytes,
        )

    def merged(self, *, major: bool, keeps: float) -> Content:
        """Returns the content after a compaction that writes ``keeps`` bytes for each byte it reads."""
        if major:
            return Content(base_bytes=round(keeps * (self.base_bytes + self.delta_bytes)))
        return replace(
            self,
            deltas=min(1, self.deltas),
            delta_bytes=round(keeps * self.delta_bytes),
            delete_bytes=round(keeps * self.delete_bytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Deltas that were written at ``at`` (epoch ms) at the latest."""

    at: int
    deltas: int
    bytes: int
    delete_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A look of the initiator at ``at`` (epoch ms) and the content that it saw.

    ``is_due``: it requested a compaction. ``no_minor``: a minor one was due, but these files do not allow it.
    """

    at: int
    content: Content
    is_due: bool = False
    no_minor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run: its begin and end (epoch ms), input, output and core-seconds."""

    began: int
    ended: int
    major: bool
    directories_read: int
    bytes_read: int
    bytes_written: int
    core_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The records of one table or partition, oldest first.

    ``reads`` is the number of reads of its table a day.
    """

    looks: Sequence[Looked]
    runs: Sequence[Ran] = ()
    reads: float = 1.0

    @property
    def begin(self) -> Looked:
        """The first look; the content before it is unknown."""
        return self.looks[0]


def happened(recorded: Recorded) -> Iterator[tuple[int, Content]]:
    """Yields the content from each look and each end of a run on."""
    for at, _, _, after in _replay_events(recorded):
        yield at, after


def arrivals(recorded: Recorded) -> list[Arrival]:
    """Returns what was written after the first look, oldest first."""
    results = []
    for _, event, before, _ in _replay_events(recorded):
        arrival = _arrived_before_run(event, before) if isinstance(event, Ran) else _arrived_before_look(event, before)
        if arrival.deltas > 0:
            results.append(arrival)
    return sorted(results, key=lambda arrival: arrival.at)


def _replay_events(recorded: Recorded) -> Iterator[tuple[int, Looked | Ran, Content, Content]]:
    """Yields each look and each end of a run: its time, and the known content before and after it."""
    begin = recorded.begin
    events: list[tuple[int, Looked | Ran]] = [(look.at, look) for look in recorded.looks]
    events += [(run.ended, run) for run in recorded.runs if run.began >= begin.at]
    content = begin.content
    for at, event in sorted(events, key=lambda timed: (timed[0], isinstance(timed[1], Looked))):
        after = event.content if isinstance(event, Looked) else _content_after(event, content)
        yield at, event, content, after
        content = after


def _arrived_before_look(look: Looked, before: Content) -> Arrival:
    size = max(0, look.content.delta_bytes - before.delta_bytes)
    deletes = min(size, max(0, look.content.delete_bytes - before.delete_bytes))
    return Arrival(at=look.at, deltas=look.content.deltas - before.deltas, bytes=size, delete_bytes=deletes)


def _arrived_before_run(run: Ran, before: Content) -> Arrival:
    """Returns what a run merged although no look had shown it: it was there when the run began."""
    known = before.delta_bytes + (before.base_bytes if run.major else 0)
    deltas = run.directories_read - (before.directories if run.major else before.deltas)
    return Arrival(at=run.began, deltas=deltas, bytes=max(0, run.bytes_read - known))


def _content_after(run: Ran, before: Content) -> Content:
    if run.major:
        return Content(base_bytes=run.bytes_written)
    return replace(
        before, deltas=1, delta_bytes=run.bytes_written, delete_bytes=min(before.delete_bytes, run.bytes_written)
    )


def keeps(runs: Sequence[Ran], default: Mapping[bool, float]) -> dict[bool, float]:
    """Returns the bytes written for each byte read, by major (True) and minor (False)."""
    return {major: _ratio(runs, major, "bytes_written", default[major]) for major in (True, False)}


def core_seconds_a_byte(runs: Sequence[Ran], default: Mapping[bool, float]) -> dict[bool, float]:
    """Returns the core-seconds for each byte read, by major (True) and minor (False)."""
    return {major: _ratio(runs, major, "core_seconds", default[major]) for major in (True, False)}


def _ratio(runs: Sequence[Ran], major: bool, figure: str, default: float) -> float:
    same_kind = [run for run in runs if run.major is major]
    read = sum(run.bytes_read for run in same_kind)
    return sum(getattr(run, figure) for run in same_kind) / read if read else default


@dataclass(slots=True)
class Curve:
    """The mean of many values over time, from ``begin`` to ``end`` (epoch ms), in ``PARTS`` equal parts.

    A curve without an end keeps nothing.
    """

    begin: int = 0
    end: int = 0
    _sums: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    _times: list[float] = field(default_factory=lambda: [0.0] * PARTS)

    def add(self, value: float, since: int, until: int) -> None:
        """Adds a value that held from ``since`` to ``until``."""
        width = (self.end - self.begin) / PARTS
        since, until = max(since, self.begin), min(until, self.end)
        if width <= 0 or until <= since:
            return
        first, last = int((since - self.begin) / width), min(PARTS - 1, int((until - self.begin) / width))
        for part in range(first, last + 1):
            start = self.begin + part * width
            time = min(until, start + width) - max(since, start)
            if time > 0:
                self._sums[part] += value * time
                self._times[part] += time

    def points(self) -> list[tuple[int, float]]:
        """Returns the middle of each part with values (epoch ms), with their mean."""
        width = (self.end - self.begin) / PARTS
        return [
            (round(self.begin + (part + 0.5) * width), total / time)
            for part, (total, time) in enumerate(zip(self._sums, self._times, strict=True))
            if time
        ]
