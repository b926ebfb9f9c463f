"""Counts the parts of a message before it is parsed.

An empty part takes two bytes in a file and hundreds in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compactor.orc.format.varint import LongNumber, read_varint

SHORT = 256 * 1024  #: bytes of a message whose parts need not be counted: whatever they are, they fit into memory
_NUMBER, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5  #: wire types of protobuf


class Surplus(Exception):
    """A message has the ``field`` at least ``count`` times, more often than allowed.

    Field 0 stands for all fields.
    """

    def __init__(self, field: int, count: int) -> None:
        super().__init__(f"field {field}: {count}")
        self.field, self.count = field, count


def check_parts(data: bytes, allowed: Mapping[int, int], most: int, *, inside: int | None = None) -> None:
    """Checks how many fields a message has. A message of at most ``SHORT`` bytes needs no check.

    Stops counting at the first byte that does not parse, since the parser will report it.

    Args:
        allowed: the most occurrences of some fields.
        most: the most fields in total.
        inside: a repeated field whose own fields count towards ``most``.

    Raises:
        Surplus: a field occurs more often.
    """
    counts = dict.fromkeys(allowed, 0)
    total = 0
    for field, start, end in _fields(data, 0, len(data)):
        total += 1
        if field in counts:
            counts[field] += 1
            if counts[field] > allowed[field]:
                raise Surplus(field, counts[field])
        if field == inside:
            for _ in _fields(data, start, end):
                total += 1
                if total > most:
                    raise Surplus(0, total)
        if total > most:
            raise Surplus(0, total)


def _fields(data: bytes, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yields number, start and end of each field between two places; stops at a byte that does not parse."""
    try:
        while place < end:
            key = data[place]
            place += 1
            if key > 127:
                key, place = read_varint(data, place - 1)
            kind = key & 7
            if kind == _BYTES:
                length = data[place]
                place += 1
                if length > 127:
                    length, place = read_varint(data, place - 1)
                yield key >> 3, place, place + length
                place += length
                continue
            start = place
            if kind == _NUMBER:
                place = read_varint(data, place)[1]
            elif kind in (_FIXED_64, _FIXED_32):
                place += 8 if kind == _FIXED_64 else 4
            else:
                return
            yield key >> 3, start, place
    except (IndexError, LongNumber):
        return
