"""Proves without decoding that timestamps of a stripe have at most six digits below a second.

A nanosecond is stored as its number without zeros at the end, and three bits that count these zeros: 0 for none, else one
less than their number. So only these bits need to be looked at. Seconds are bounded by statistics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import numpy as np

from compactor.orc.format.plain_streams import KEPT_BYTES, plain_streams
from compactor.orc.format.run_length_decoding import WIDTHS, delta_values, patched_values, whole_number
from compactor.orc.format.stripe_footer import DIRECT_V2, SECONDARY, read_stripe_footer
from compactor.orc.format.tail import Tail
from compactor.orc.format.varint import LongNumber
from compactor.orc.io.source import Source

_MOST_MILLISECONDS = (
    2**63 // 10**6 - 10**6
)  #: from 1970 that fit into 64 bits of nanoseconds, a quarter of an hour spared
_SIX_DIGITS = 2  #: the least number in the three bits of a value with six digits or fewer


def are_microseconds(source: Source, tail: Tail, stripe_index: int, columns: Collection[int]) -> bool:
    """Returns true if all timestamps of ``columns`` (ids) are proved to be whole microseconds.

    They then also fit into 64 bits of nanoseconds, and none is before 1970.

    Returns false if that is unknown; then decode them.

    Raises:
        BadFile: the stripe is damaged.
    """
    statistics = tail.stripe_statistics
    if statistics is None:
        return False
    for column in columns:
        times = statistics[stripe_index][column].timestamp_statistics
        if not times.HasField("minimum_utc") or not times.HasField("maximum_utc"):
            return False
        if times.minimum_utc < 0 or times.maximum_utc > _MOST_MILLISECONDS:
            return False
    footer = read_stripe_footer(source, tail, stripe_index)
    streams = plain_streams(source, tail, stripe_index, footer, columns, kinds=frozenset({SECONDARY}), room=KEPT_BYTES)
    return len(streams) == len(columns) and all(
        footer.columns[stream.column].kind == DIRECT_V2 and _have_six_digits(stream.read()) for stream in streams
    )


def _have_six_digits(data: bytes) -> bool:
    """Returns true if every value of the stream of nanoseconds is a whole microsecond."""
    packed: dict[int, list[bytes]] = defaultdict(list)  # by the width of the values
    place = 0
    try:
        while place < len(data):
            first = data[place]
            kind = first >> 6
            if kind == 0:  # one value, repeated
                size = (first >> 3 & 7) + 1
                values, place = [whole_number(data, place + 1, size)], place + 1 + size
            else:
                width, count = WIDTHS[first >> 1 & 31], ((first & 1) << 8 | data[place + 1]) + 1
                if kind == 1:
                    end = place + 2 + (width * count + 7) // 8
                    if end > len(data):
                        return False
                    # runs of a whole number of bytes are looked at together, zeros fill the others
                    packed[width].append(data[place + 2 : end] + bytes(-(end - place - 2) % width))
                    place = end
                    continue
                if kind == 2:
                    values, place = patched_values(data, place, width, count)
                else:
                    values, place = delta_values(data, place, width if first >> 1 & 31 else 0, count)
            if any(value and (value & 7) < _SIX_DIGITS for value in values):
                return False
    except (IndexError, LongNumber):
        return False  # damaged; the decoder explains it
    return all(_ends_have_six_digits(b"".join(runs), width) for width, runs in packed.items())


def _ends_have_six_digits(data: bytes, width: int) -> bool:
    """Judges values of ``width`` bits."""
    if width < 3:
        return not any(data)  # without a digit, only zero
    for start in range(0, len(data), width << 16):
        groups = np.frombuffer(data[start : start + (width << 16)], np.uint8).reshape(-1, width)  # of eight values each
        suspects = np.zeros(len(groups), np.bool_)
        for end in range(width - 1, 8 * width, width):  # the last bit of each value
            byte, shift = end >> 3, 7 - (end & 7)
            last = groups[:, byte] >> shift
            if shift > 5:
                last = last | groups[:, byte - 1] << (8 - shift)
            suspects |= last & 7 < _SIX_DIGITS
        bits = np.unpackbits(groups[suspects]).reshape(-1, width)
        if np.any(bits[(bits[:, -3] | bits[:, -2]) == 0]):  # a value with these bits may still be zero
            return False
    return True
