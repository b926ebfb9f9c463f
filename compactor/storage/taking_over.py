"""Ranges of a store's files that become part of a new file without passing through this process.

Values only: an executor collects the ranges while it writes a file, and hands them to its store with the bytes that are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class TakingOver:
    """The terms on which a store takes ranges over: of at least ``smallest`` bytes, and of whole files only if ``whole``."""

    smallest: int
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRange:
    """The ``length`` bytes of the file ``source`` from ``offset`` on, at ``position`` of a new file. The store must refuse
    them once the source's tag is no longer ``tag``; ``last`` are the last of them."""

    position: int
    length: int
    source: str
    offset: int
    tag: str
    last: bytes = field(default=b"", repr=False)

    @property
    def end(self) -> int:
        """The position after the range."""
        return self.position + self.length

    def part(self, start: int, end: int) -> TakenRange:
        """Returns the part from position ``start`` to before ``end``, both within the range."""
        return replace(
            self,
            position=start,
            length=end - start,
            offset=self.offset + start - self.position,
            last=self.last[-(end - start) :] if end == self.end else b"",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBytes:
    """The bytes ``content`` of a new file from ``start`` on, which were read where they come from."""

    start: int
    content: bytes = field(repr=False)


def ends_of(ranges: Iterable[TakenRange]) -> tuple[KnownBytes, ...]:
    """Returns the last bytes of each range: if they are at their place, so are those before."""
    return tuple(KnownBytes(start=one.end - len(one.last), content=one.last) for one in ranges if one.last)


def pieces(ranges: Sequence[TakenRange], start: int, end: int) -> Iterator[tuple[int, int, TakenRange | None]]:
    """Divides the bytes of a new file from ``start`` to before ``end`` into those of ``ranges``, which are in the order of
    their positions, and those in between: start, end, and the part of a range."""
    for taken in ranges:
        if taken.end <= start:
            continue
        if max(taken.position, start) >= end:
            break
        if taken.position > start:
            yield start, taken.position, None
            start = taken.position
        stop = min(end, taken.end)
        yield start, stop, taken.part(start, stop)
        start = stop
    if start < end:
        yield start, end, None
