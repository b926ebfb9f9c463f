"""Ranges of a store's files that become part of a new file without passing through this process.

An executor collects the ranges while it writes a file, and hands them to its store with the new bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class TakingOver:
    """A store takes over ranges of at least ``smallest`` bytes, and only whole files if ``whole``."""

    smallest: int
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRange:
    """The ``length`` bytes of the file ``source`` from ``offset`` on, at ``position`` of a new file.

    The store must refuse them if the source's tag is no longer ``tag``. ``last`` holds their last bytes.
    """

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
    """The bytes ``content`` that a new file must have from ``start`` on, as read from their source."""

    start: int
    content: bytes = field(repr=False)


def ends_of(ranges: Iterable[TakenRange]) -> tuple[KnownBytes, ...]:
    """Returns the last bytes of each range. If they are in the right place, so are the bytes before them."""
    return tuple(KnownBytes(start=taken.end - len(taken.last), content=taken.last) for taken in ranges if taken.last)


def pieces(ranges: Sequence[TakenRange], start: int, end: int) -> Iterator[tuple[int, int, TakenRange | None]]:
    """Divides a new file from ``start`` to before ``end`` into ``ranges`` and the bytes between them.

    Yields start, end and the part of a range, or None between two ranges. ``ranges`` are in the order of their positions.
    """
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
