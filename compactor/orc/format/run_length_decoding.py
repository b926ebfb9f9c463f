"""Decodes single runs of ORC's run-length encoding, version 2."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from compactor.orc.format.varint import read_varint

WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)  #: bits of a value, by the five-bit code for the width


def patched_values(data: bytes, place: int, width: int, count: int) -> tuple[list[int], int]:
    """Returns the values and the end of a run with the upper bits of its few large numbers in patches."""
    third, fourth = data[place + 2], data[place + 3]
    base_bytes, patch_width = (third >> 5) + 1, WIDTHS[third & 31]
    gap_width, patches = (fourth >> 5) + 1, fourth & 31
    base = whole_number(data, place + 4, base_bytes)
    sign = 1 << (8 * base_bytes - 1)
    base = -(base - sign) if base & sign else base
    place += 4 + base_bytes
    size = (width * count + 7) // 8
    values = unpack(data[place : place + size], width, count)
    place += size
    # patches are packed in the next width that the format has
    packed = next((w for w in WIDTHS if w >= gap_width + patch_width), 64)
    size = (packed * patches + 7) // 8
    at = 0
    for patch in unpack(data[place : place + size], packed, patches):
        at += patch >> patch_width
        values[at] |= (patch & ((1 << patch_width) - 1)) << width
    return [base + value for value in values], place + size


def delta_start(data: bytes, place: int) -> tuple[int, int, int]:
    """Returns the first value of a run of differences, the first difference, and the place of the others."""
    base, place = read_varint(data, place + 2)
    raw, place = read_varint(data, place)
    return base, (raw >> 1) ^ -(raw & 1), place


def delta_values(data: bytes, place: int, width: int, count: int) -> tuple[list[int], int]:
    """Returns the values and the end of a run of differences, all with the sign of the first.

    ``width`` is 0 if all differences are equal.
    """
    base, step, place = delta_start(data, place)
    if width == 0:
        return [base + step * at for at in range(count)], place
    further = max(0, count - 2)
    size = (width * further + 7) // 8
    sign = -1 if step < 0 else 1
    steps = [step, *(sign * value for value in unpack(data[place : place + size], width, further))]
    return list(accumulate(steps[: count - 1], initial=base)), place + size


def unpack(data: bytes, width: int, count: int) -> list[int]:
    """Returns ``count`` big-endian numbers of ``width`` bits."""
    if 8 * len(data) < width * count:
        raise IndexError
    if width < 63:
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=width * count).reshape(count, width)
        numbers: list[int] = (bits @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64))).tolist()
        return numbers
    whole = int.from_bytes(data, "big") >> (8 * len(data) - width * count)
    mask = (1 << width) - 1
    return [whole >> (width * place) & mask for place in range(count - 1, -1, -1)]


def whole_number(data: bytes, place: int, size: int) -> int:
    """Returns the big-endian number in ``size`` bytes."""
    if place + size > len(data):
        raise IndexError
    return int.from_bytes(data[place : place + size], "big")
