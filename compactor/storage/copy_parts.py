"""Divides a file that is uploaded by parts into those that are sent and those that the store copies from other files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compactor.storage.taking_over import TakenRange


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLimits:
    """The sizes of parts that a store admits and that are worth their request, in bytes: of any but the last part, of one
    that is sent, and of one that it copies."""

    smallest: int
    sent: int
    copied: int
    parts: int = 10_000  #: the most that one upload may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The bytes of the new file from ``start`` to before ``end``; the store copies them if they are those of ``taken``."""

    start: int
    end: int
    taken: TakenRange | None = None


def plan_parts(length: int, ranges: Sequence[TakenRange], limits: PartLimits) -> tuple[Part, ...]:
    """Returns the parts of a file, in order. What is between two ranges takes bytes of the second one with it if it is too
    small for a part, and a range that is then too small itself is sent as well.

    Args:
        ranges: in the order of their positions.
    """
    parts = tuple(_parts(length, ranges, limits))
    if len(parts) > limits.parts and limits.smallest < limits.sent:
        return plan_parts(length, ranges, replace(limits, smallest=min(limits.sent, 2 * limits.smallest)))
    return parts


def _parts(length: int, ranges: Sequence[TakenRange], limits: PartLimits) -> Iterator[Part]:
    sent_from = 0
    for taken in ranges:
        before = taken.position - sent_from
        start = taken.position if not before else max(taken.position, sent_from + limits.smallest)
        if taken.end - start < limits.smallest:
            continue
        yield from _even(sent_from, start, limits.sent)
        for part in _even(start, taken.end, limits.copied):
            yield replace(part, taken=taken.part(part.start, part.end))
        sent_from = taken.end
    if sent_from < length or not length:
        yield from _even(sent_from, length, limits.sent) if length else [Part(start=0, end=0)]


def _even(start: int, end: int, largest: int) -> Iterator[Part]:
    """Yields as few parts as possible, of about the same size."""
    count = -(-(end - start) // largest)
    for number in range(count):
        size = end - start
        yield Part(start=start + size * number // count, end=start + size * (number + 1) // count)
