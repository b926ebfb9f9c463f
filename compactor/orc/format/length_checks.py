"""Checks the lengths in a stripe (of texts, binaries, lists, maps, dictionary entries) before a decoder uses them.

A damaged length stream still decodes to numbers, and the ORC C++ library trusts them: negative ones make it read outside
its memory, huge ones make it allocate all memory of the machine. No checksum reveals this, so every run is parsed here as
the ORC specification says (run-length encoding, versions 1 and 2) and its sum compared with what is possible: first by
the largest values that its width allows, which is quick and mostly sufficient, else by its actual numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from compactor.errors import BadFile
from compactor.orc.format import messages
from compactor.orc.format.plain_streams import PlainStream
from compactor.orc.format.stripe_footer import DATA, DICTIONARY, DICTIONARY_DATA, DICTIONARY_V2, DIRECT, LENGTH
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TypeKind

MAX_LENGTH = 2**31 - 1  #: of one value, in bytes or elements
#: Elements of lists and maps in a stripe: many more than a stripe of 2 GB of any writer could hold.
MAX_ELEMENTS = 1 << 28
#: How far a quick sum may exceed what is possible; a decoder then allocates at most that much.
SLACK, SLACK_BYTES = 4, 1 << 26
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)  #: bits of a value, by the five-bit code for the width


class _Cut(Exception):
    """A run extends beyond the end of its stream, or has a number that cannot be a length."""


def check_lengths(streams: Sequence[PlainStream], footer: messages.Message, tail: Tail, stripe_index: int) -> None:
    """Checks that every length stream among ``streams`` of a stripe has valid lengths with a possible sum.

    Raises:
        BadFile: some stream does not.
    """
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
            limit = sizes.get((DICTIONARY_DATA if dictionary else DATA, column), 0)
        what = f"file {tail.name}, stripe {stripe_index}: its length stream of column {column}"
        _check(stream.read(), encoding.kind in (DIRECT, DICTIONARY), limit, entries, what)


def total_length(stream: PlainStream, footer: messages.Message) -> int:
    """Returns the sum of all lengths of a checked stream."""
    data = stream.read()
    runs = _runs_v1(data) if footer.columns[stream.column].kind == DIRECT else _runs_v2(data, exact=True)
    return _added(runs)[1]


def _check(data: bytes, first_version: bool, limit: int, entries: int | None, what: str) -> None:
    try:
        if not first_version:
            count, total = _added(_runs_v2(data, exact=False))
            if total > max(SLACK * limit, SLACK_BYTES):
                count, total = _added(_runs_v2(data, exact=True))
        else:
            count, total = _added(_runs_v1(data))
        if total > max(SLACK * limit, SLACK_BYTES):
            raise _Cut(f"adds up to {total}, more than the possible {limit}")
        if entries is not None and count < entries:
            raise _Cut(f"has {count} lengths for {entries} dictionary entries")
    except (_Cut, IndexError) as error:
        reason = str(error) if isinstance(error, _Cut) else "is cut off"
        raise BadFile(f"{what} {reason}; the file is damaged, restore it or move it away") from error


def _added(runs: Iterator[tuple[int, int]]) -> tuple[int, int]:
    total = count = 0
    for values, length in runs:
        total, count = total + length, count + values
    return count, total


def _runs_v1(data: bytes) -> Iterator[tuple[int, int]]:
    """Yields count and sum of each run of version 1: up to 130 numbers with a fixed step, or up to 128 literal ones."""
    place = 0
    while place < len(data):
        control = data[place]
        place += 1
        if control < 128:
            count = control + 3
            step = data[place] - 256 if data[place] > 127 else data[place]
            base, place = _varint(data, place + 1)
            yield count, _sum([base, base + step * (count - 1)], count * base + step * (count * (count - 1) // 2))
            continue
        values = []
        for _ in range(256 - control):
            value, place = _varint(data, place)
            values.append(value)
        yield len(values), _sum(values, sum(values))


def _runs_v2(data: bytes, *, exact: bool) -> Iterator[tuple[int, int]]:
    """Yields count and sum of each run of version 2; unless ``exact``, the sum may be as large as the widths allow."""
    place = 0
    while place < len(data):
        first = data[place]
        kind = first >> 6
        if kind == 0:  # one value, repeated
            width, count = (first >> 3 & 7) + 1, (first & 7) + 3
            value = _number(data, place + 1, width)
            place += 1 + width
            yield count, _sum([value], value * count)
            continue
        width, count = _WIDTHS[first >> 1 & 31], ((first & 1) << 8 | data[place + 1]) + 1
        if kind == 1:
            size = (width * count + 7) // 8
            if place + 2 + size > len(data):
                raise IndexError
            if exact or width > 31:
                values = _unpacked(data[place + 2 : place + 2 + size], width, count)
                total = _sum(values, sum(values))
            else:
                total = count * ((1 << width) - 1)
            place += 2 + size
        elif kind == 2:
            total, place = _patched(data, place, width, count)
        else:
            total, place = _delta(data, place, width if first >> 1 & 31 else 0, count, exact=exact)
        yield count, total


def _patched(data: bytes, place: int, width: int, count: int) -> tuple[int, int]:
    """Returns the sum of a run with the upper bits of its few large numbers in a list of patches, and the run's end."""
    third, fourth = data[place + 2], data[place + 3]
    base_bytes, patch_width = (third >> 5) + 1, _WIDTHS[third & 31]
    gap_width, patches = (fourth >> 5) + 1, fourth & 31
    base = _number(data, place + 4, base_bytes)
    sign = 1 << (8 * base_bytes - 1)
    base = -(base - sign) if base & sign else base
    place += 4 + base_bytes
    size = (width * count + 7) // 8
    values = _unpacked(data[place : place + size], width, count)
    place += size
    # patches are packed in the next width that the format has
    packed = next((w for w in _WIDTHS if w >= gap_width + patch_width), 64)
    size = (packed * patches + 7) // 8
    at = 0
    for patch in _unpacked(data[place : place + size], packed, patches):
        at += patch >> patch_width
        values[at] |= (patch & ((1 << patch_width) - 1)) << width
    lengths = [base + value for value in values]
    return _sum(lengths, sum(lengths)), place + size


def _delta(data: bytes, place: int, width: int, count: int, *, exact: bool) -> tuple[int, int]:
    """Returns the sum of a run of differences, all with the sign of the first, and the run's end."""
    base, place = _varint(data, place + 2)
    raw, place = _varint(data, place)
    step = (raw >> 1) ^ -(raw & 1)
    if width == 0:
        return _sum([base, base + step * (count - 1)], count * base + step * (count * (count - 1) // 2)), place
    further = max(0, count - 2)
    size = (width * further + 7) // 8
    sign = -1 if step < 0 else 1
    farthest = base + step + sign * further * ((1 << width) - 1)
    if not exact and min(base, farthest) >= 0 and max(base, farthest) <= MAX_LENGTH and place + size <= len(data):
        return count * max(base, farthest), place + size
    steps = [step, *(sign * value for value in _unpacked(data[place : place + size], width, further))]
    values = list(accumulate(steps[: count - 1], initial=base))
    return _sum(values, sum(values)), place + size


def _unpacked(data: bytes, width: int, count: int) -> list[int]:
    """Returns ``count`` big-endian numbers of ``width`` bits."""
    if 8 * len(data) < width * count:
        raise IndexError
    if width < 63:
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=width * count).reshape(count, width)
        found: list[int] = (bits @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64))).tolist()
        return found
    whole = int.from_bytes(data, "big") >> (8 * len(data) - width * count)
    mask = (1 << width) - 1
    return [whole >> (width * place) & mask for place in range(count - 1, -1, -1)]


def _number(data: bytes, place: int, size: int) -> int:
    if place + size > len(data):
        raise IndexError
    return int.from_bytes(data[place : place + size], "big")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value, place = value | (byte & 0x7F) << shift, place + 1
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise _Cut("has a number of more than 64 bits")


def _sum(values: list[int], total: int) -> int:
    """Returns ``total`` if all ``values`` are possible lengths."""
    if min(values) < 0 or max(values) > MAX_LENGTH:
        raise _Cut(f"has {min(values)} or {max(values)}, a length is within 0..{MAX_LENGTH}")
    return total
