"""Divides an uploaded file into parts that are sent and parts that the store copies from other files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compactor.storage.capabilities import TakenRange


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLimits:
    """The sizes of parts, in bytes, that a store admits and that are worth a request."""

    smallest: int  #: of any part except the last
    sent: int  #: the most of a part that is sent
    copied: int  #: the most of a part that the store copies
    parts: int = 10_000  #: the most parts of one upload


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The bytes of the new file from ``start`` to before ``end``.

    The store copies them from ``taken``, if there is one.
    """

    start: int
    end: int
    taken: TakenRange | None = None


def plan_parts(length: int, ranges: Sequence[TakenRange], limits: PartLimits) -> tuple[Part, ...]:
    """Divides a file into parts, in order.

    Bytes between two ranges may be too few for a part. They then take the first bytes of the second range with them. If
    the rest of that range is too small to be copied, it is sent as well.

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
        yield from _split_evenly(sent_from, start, limits.sent)
        for part in _split_evenly(start, taken.end, limits.copied):
            yield replace(part, taken=taken.part(part.start, part.end))
        sent_from = taken.end
    if sent_from < length or not length:
        yield from _split_evenly(sent_from, length, limits.sent) if length else [Part(start=0, end=0)]


def _split_evenly(start: int, end: int, largest: int) -> Iterator[Part]:
    """Yields as few parts as possible, of about the same size."""
    count = -(-(end - start) // largest)
    for number in range(count):
        size = end - start
        yield Part(start=start + size * number // count, end=start + size * (number + 1) // count)
