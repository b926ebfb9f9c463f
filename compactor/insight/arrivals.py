"""Arrivals of deltas in a table or partition, inferred from what was found at each look at it and what each run read. Pure.

Nobody tells when a delta was written: it is there at one look and was not at the one before, or a run merged it in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The directories that a reader meets: deltas, and bytes of them, of the delete deltas among them and of the base."""

    deltas: int = 0
    delta_bytes: int = 0
    delete_bytes: int = 0
    base_bytes: int = 0

    @property
    def directories(self) -> int:
        return self.deltas + (self.base_bytes > 0)

    def plus(self, arrival: Arrival) -> Content:
        """Returns the content after something was written."""
        return replace(
            self,
            deltas=self.deltas + arrival.deltas,
            delta_bytes=self.delta_bytes + arrival.bytes,
            delete_bytes=self.delete_bytes + arrival.delete_bytes,
        )

    def merged(self, *, major: bool, keeps: float) -> Content:
        """Returns the content after a compaction; of each byte that it reads, ``keeps`` are written."""
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
    """A look at ``at``, and what was found. ``is_due`` says that it asked for a compaction; ``no_minor``, that a minor one
    was due but cannot be made of such files."""

    at: int
    content: Content
    is_due: bool = False
    no_minor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run: when it began and ended, what it read and wrote, and the core-seconds that it took."""

    began: int
    ended: int
    major: bool
    directories_read: int
    bytes_read: int
    bytes_written: int
    core_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """All that is recorded of one table or partition, in the order of time; ``reads`` are those of its table on a day."""

    looks: Sequence[Looked]
    runs: Sequence[Ran] = ()
    reads: float = 1.0

    @property
    def begin(self) -> Looked:
        """The first look: what was there before is not told."""
        return self.looks[0]


def happened(recorded: Recorded) -> Iterator[tuple[int, Content]]:
    """Yields what was there from which time on, by looks and by the ends of runs."""
    for at, _, _, after in _steps(recorded):
        yield at, after


def arrivals(recorded: Recorded) -> list[Arrival]:
    """Returns what was written after the first look, in the order of time."""
    found = (
        _merged(one, before) if isinstance(one, Ran) else _seen(one, before) for _, one, before, _ in _steps(recorded)
    )
    return sorted((arrival for arrival in found if arrival.deltas > 0), key=lambda arrival: arrival.at)


def _steps(recorded: Recorded) -> Iterator[tuple[int, Looked | Ran, Content, Content]]:
    """Yields each look and each end of a run with its time, and what was known to be there before it and after."""
    begin = recorded.begin
    events: list[tuple[int, Looked | Ran]] = [(look.at, look) for look in recorded.looks]
    events += [(run.ended, run) for run in recorded.runs if run.began >= begin.at]
    there = begin.content
    for at, one in sorted(events, key=lambda event: (event[0], isinstance(event[1], Looked))):
        after = one.content if isinstance(one, Looked) else _after(one, there)
        yield at, one, there, after
        there = after


def _seen(look: Looked, before: Content) -> Arrival:
    size = max(0, look.content.delta_bytes - before.delta_bytes)
    deletes = min(size, max(0, look.content.delete_bytes - before.delete_bytes))
    return Arrival(at=look.at, deltas=look.content.deltas - before.deltas, bytes=size, delete_bytes=deletes)


def _merged(run: Ran, before: Content) -> Arrival:
    """Returns what a run merged and no look had shown: it was there when the run began."""
    known = before.delta_bytes + (before.base_bytes if run.major else 0)
    deltas = run.directories_read - (before.directories if run.major else before.deltas)
    return Arrival(at=run.began, deltas=deltas, bytes=max(0, run.bytes_read - known))


def _after(run: Ran, before: Content) -> Content:
    if run.major:
        return Content(base_bytes=run.bytes_written)
    return replace(
        before, deltas=1, delta_bytes=run.bytes_written, delete_bytes=min(before.delete_bytes, run.bytes_written)
    )


def keeps(runs: Sequence[Ran], default: Mapping[bool, float]) -> dict[bool, float]:
    """Returns how many bytes became of one that was read, by major or not."""
    return {major: _ratio(runs, major, "bytes_written", default[major]) for major in (True, False)}


def core_seconds_a_byte(runs: Sequence[Ran], default: Mapping[bool, float]) -> dict[bool, float]:
    """Returns the core-seconds for each byte that was read, by major or not."""
    return {major: _ratio(runs, major, "core_seconds", default[major]) for major in (True, False)}


def _ratio(runs: Sequence[Ran], major: bool, of: str, default: float) -> float:
    these = [run for run in runs if run.major is major]
    read = sum(run.bytes_read for run in these)
    return sum(getattr(run, of) for run in these) / read if read else default
