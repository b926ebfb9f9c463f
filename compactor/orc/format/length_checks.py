"""Checks lengths of texts, binaries, lists, maps and dictionary entries before a decoder uses them.

A damaged length stream still decodes to numbers, and the ORC C++ library trusts them. Negative lengths make it read outside
its memory, huge ones make it allocate all memory of the machine. No checksum reveals this. So every run is parsed here as
the ORC specification defines it (run-length encoding, versions 1 and 2), and its sum is compared with the possible sum:
first by the largest values of its width, which is quick and mostly sufficient, then by its actual numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from compactor.base.errors import BadFile
from compactor.orc.format import messages
from compactor.orc.format.plain_streams import PlainStream
from compactor.orc.format.run_length_decoding import (
    WIDTHS,
    delta_start,
    delta_values,
    patched_values,
    unpack,
    whole_number,
)
from compactor.orc.format.stripe_footer import DATA, DICTIONARY, DICTIONARY_DATA, DICTIONARY_V2, DIRECT, LENGTH
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TypeKind
from compactor.orc.format.varint import LongNumber, read_varint

MAX_LENGTH = 2**31 - 1  #: of one value, in bytes or elements
#: Elements of lists and maps in a stripe: many more than a stripe of 2 GB of any writer could hold.
MAX_ELEMENTS = 1 << 28
MAX_ENTRIES = 1 << 26  #: of a dictionary; decoders take some bytes for each at once
#: How far a sum may exceed the possible sum. A decoder then allocates at most that much.
SLACK, SLACK_BYTES = 4, 1 << 26


class _InvalidLengths(Exception):
    """A run extends beyond the end of its stream, or has a number that cannot be a length."""


class Lengths(NamedTuple):
    """The number of lengths in a stream, and bounds of their sum and of the longest one."""

    number: int
    total: int
    longest: int


def check_lengths(
    streams: Sequence[PlainStream], footer: messages.Message, tail: Tail, stripe_index: int
) -> Mapping[int, Lengths]:
    """Checks that the lengths in a stripe are valid and have a possible sum, and returns them by column.

    Raises:
        BadFile: a stream has invalid lengths, or an impossible sum.
    """
    lengths: dict[int, Lengths] = {}
    sizes = {(stream.kind, stream.column): stream.length for stream in streams}
    for stream in streams:
        if stream.kind != LENGTH:
            continue
        column = stream.column
        encoding = footer.columns[column]
        limit, entries = MAX_ELEMENTS, None
        if tail.types[column].kind not in (TypeKind.LIST, TypeKind.MAP):
            dictionary = encoding.kind in (DICTIONARY, DICTIONARY_V2)
            entries = encoding.dictionary_size if dictionary else None
            _check_entries(entries or 0, column, tail, stripe_index)
            limit = sizes.get((DICTIONARY_DATA if dictionary else DATA, column), 0)
        what = f"file {tail.name}, stripe {stripe_index}: its length stream of column {column}"
        lengths[column] = _check(stream.read(), encoding.kind in (DIRECT, DICTIONARY), limit, entries, what)
    return lengths


def _check_entries(entries: int, column: int, tail: Tail, stripe_index: int) -> None:
    if entries > MAX_ENTRIES:
        raise BadFile(
            f"file {tail.name}, stripe {stripe_index}: the dictionary of column {column} has {entries} entries, at most "
            f"{MAX_ENTRIES} were expected; the file is damaged, restore it or move it away"
        )


def exact_lengths(stream: PlainStream, footer: messages.Message) -> Lengths:
    """Returns number, sum and longest of all lengths of a checked stream."""
    data, first_version = stream.read(), footer.columns[stream.column].kind in (DIRECT, DICTIONARY)
    return _lengths_v1(data) if first_version else _lengths_v2(data, exact=True)


def _check(data: bytes, first_version: bool, limit: int, entries: int | None, what: str) -> Lengths:
    try:
        if not first_version:
            lengths = _lengths_v2(data, exact=False)
            if lengths.total > max(SLACK * limit, SLACK_BYTES):
                lengths = _lengths_v2(data, exact=True)
        else:
            lengths = _lengths_v1(data)
        if lengths.total > max(SLACK * limit, SLACK_BYTES):
            raise _InvalidLengths(f"adds up to {lengths.total}, more than the possible {limit}")
        if entries is not None and lengths.number < entries:
            raise _InvalidLengths(f"has {lengths.number} lengths for {entries} dictionary entries")
    except (_InvalidLengths, LongNumber, IndexError) as error:
        reason = "is cut off" if isinstance(error, IndexError) else str(error)
        raise BadFile(f"{what} {reason}; the file is damaged, restore it or move it away") from error
    return lengths


def _lengths_v1(data: bytes) -> Lengths:
    """Returns the lengths of version 1.

    Each run has up to 130 numbers with a fixed step, or 128 literal ones.
    """
    place = number = total = longest = 0
    while place < len(data):
        control = data[place]
        place += 1
        if control < 128:
            count = control + 3
            step = data[place] - 256 if data[place] > 127 else data[place]
            base, place = read_varint(data, place + 1)
            length, most = _sum([base, base + step * (count - 1)], count * base + step * (count * (count - 1) // 2))
        else:
            values = []
            for _ in range(256 - control):
                value, place = read_varint(data, place)
                values.append(value)
            count = len(values)
            length, most = _sum(values, sum(values))
        number, total, longest = number + count, total + length, max(longest, most)
    return Lengths(number, total, longest)


def _lengths_v2(data: bytes, *, exact: bool) -> Lengths:
    """Returns the lengths of version 2.

    Unless ``exact``, bit-packed numbers may count as the largest of their width.
    """
    place = number = total = longest = 0
    end = len(data)
    while place < end:
        first = data[place]
        kind = first >> 6
        if kind == 0:  # one value, repeated
            width, count = (first >> 3 & 7) + 1, (first & 7) + 3
            most = data[place + 1] if width == 1 else whole_number(data, place + 1, width)  # nearly all take one byte
            place += 1 + width
            length = most * count
            if most > MAX_LENGTH:
                _sum([most], length)
        else:
            width, count = WIDTHS[first >> 1 & 31], ((first & 1) << 8 | data[place + 1]) + 1
            if kind == 1:
                size = (width * count + 7) // 8
                if place + 2 + size > end:
                    raise IndexError
                if exact or width > 31:
                    values = unpack(data[place + 2 : place + 2 + size], width, count)
                    length, most = _sum(values, sum(values))
                else:
                    most = (1 << width) - 1
                    length = count * most
                place += 2 + size
            elif kind == 2:
                length, most, place = _sum_patched(data, place, width, count)
            else:
                length, most, place = _sum_deltas(data, place, width if first >> 1 & 31 else 0, count, exact=exact)
        number += count
        total += length
        if most > longest:
            longest = most
    return Lengths(number, total, longest)


def _sum_patched(data: bytes, place: int, width: int, count: int) -> tuple[int, int, int]:
    """Returns sum, longest and end of a run with patches."""
    lengths, end = patched_values(data, place, width, count)
    return *_sum(lengths, sum(lengths)), end


def _sum_deltas(data: bytes, place: int, width: int, count: int, *, exact: bool) -> tuple[int, int, int]:
    """Returns sum and longest of a run of differences, all with the sign of the first, and the run's end."""
    base, step, further_place = delta_start(data, place)
    if width == 0:
        length = count * base + step * (count * (count - 1) // 2)
        return *_sum([base, base + step * (count - 1)], length), further_place
    further = max(0, count - 2)
    end = further_place + (width * further + 7) // 8
    farthest = base + step + (-1 if step < 0 else 1) * further * ((1 << width) - 1)
    if not exact and min(base, farthest) >= 0 and max(base, farthest) <= MAX_LENGTH and end <= len(data):
        return count * max(base, farthest), max(base, farthest), end
    lengths, end = delta_values(data, place, width, count)
    return *_sum(lengths, sum(lengths)), end


def _sum(values: list[int], total: int) -> tuple[int, int]:
    """Returns ``total`` and the largest of ``values``, if all are possible lengths."""
    longest = max(values)
    if min(values) < 0 or longest > MAX_LENGTH:
        raise _InvalidLengths(f"has {min(values)} or {longest}, a length is within 0..{MAX_LENGTH}")
    return total, longest
