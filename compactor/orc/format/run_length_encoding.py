"""Encodes columns of integers without NULL by numpy, in version 2 of ORC's run-length encoding.

The ORC C++ library encodes values one by one, and spends a third of its time on the keys of ACID rows, which are mostly
constant or rise one by one. Here each run of up to 512 values gets the smallest of three forms: a fixed delta, packed
deltas or packed values. If all rows are equal, runs are not examined one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from compactor.orc.format import messages, statistics
from compactor.orc.format.types import OrcType, TypeKind
from compactor.orc.format.varint import varint

Integers: TypeAlias = npt.NDArray[np.int64]
_Words: TypeAlias = npt.NDArray[np.uint64]
MAX_RUN = 512  #: values of one run
_DIRECT, _DELTA = 1 << 6, 3 << 6  #: kinds of a run, in its first byte
#: The bits per packed value that are used here, and their codes in a run's first byte.
_CODES = {1: 0, 2: 1, 4: 3, 8: 7, 16: 15, 24: 23, 32: 27, 40: 28, 48: 29, 56: 30, 64: 31}
_WIDTHS = np.array(sorted(_CODES))
_LARGEST = np.array([(1 << width) - 1 for width in sorted(_CODES)], np.uint64)
_EXACT = 1 << 62  #: differences of values whose magnitude is below it fit into 64 bits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedColumn:
    """One column of a stripe.

    Positions in ``index`` are offsets into the plain ``data`` and into the run there.
    """

    name: str
    kind: TypeKind
    rows: int
    data: bytes
    index: messages.Message
    statistics: messages.Message


class IntegerColumn:
    """Encodes a column of ``kind`` SHORT, INT or LONG in a stripe with row groups of ``stride`` rows."""

    def __init__(self, name: str, kind: TypeKind, stride: int) -> None:
        self._name, self._type, self._stride = name, OrcType(kind=kind), stride
        self._data = bytearray()
        self._rows = 0
        self._waiting = np.empty(0, np.int64)  #: the last rows, fewer than a full run
        self._places: list[tuple[int, int]] = []  #: the start of each row group
        self._groups: list[messages.Message] = []  #: the statistics of each row group; the last may still grow

    def append(self, values: Integers) -> None:
        """Appends rows."""
        if not len(values):
            return
        begins = self._begins(self._rows, len(values))
        goes_on = self._rows % self._stride > 0
        parts = _statistics(values, np.concatenate([[0], begins]) if goes_on else begins)
        if goes_on:
            self._groups[-1] = statistics.merge([self._groups[-1], parts.pop(0)], self._type)
        self._groups += parts
        self._rows += len(values)
        waiting = np.concatenate([self._waiting, values])
        whole = len(waiting) - len(waiting) % MAX_RUN
        self._waiting = waiting[whole:].copy()
        self._encode(waiting[:whole], self._rows - len(waiting))

    def _begins(self, first: int, count: int) -> npt.NDArray[np.intp]:
        """Returns the indexes of the rows that begin a row group, among ``count`` rows from row ``first`` on."""
        return np.arange(-first % self._stride, count, self._stride)

    def _encode(self, values: Integers, first: int) -> None:
        if not len(values):
            return
        runs = _runs(values)
        places = np.cumsum([len(self._data), *map(len, runs)])
        self._places += [
            (int(places[row // MAX_RUN]), row % MAX_RUN) for row in self._begins(first, len(values)).tolist()
        ]
        self._data += b"".join(runs)

    def finish(self) -> EncodedColumn:
        """Returns the column of all rows."""
        self._encode(self._waiting, self._rows - len(self._waiting))
        index = messages.RowIndex()
        for place, group in zip(self._places, self._groups, strict=True):
            index.entry.add(positions=place, statistics=group)
        return EncodedColumn(
            name=self._name,
            kind=self._type.kind,
            rows=self._rows,
            data=bytes(self._data),
            index=index,
            statistics=statistics.merge(self._groups, self._type),
        )


def _statistics(values: Integers, begins: npt.NDArray[np.intp]) -> list[messages.Message]:
    """Returns the statistics of the parts of ``values`` that start at ``begins``."""
    lows, highs = np.minimum.reduceat(values, begins).tolist(), np.maximum.reduceat(values, begins).tolist()
    sums = np.add.reduceat(values, begins).tolist()
    counts = np.diff(begins, append=len(values)).tolist()
    parts = []
    for low, high, total, count in zip(lows, highs, sums, counts, strict=True):
        part = messages.ColumnStatistics(number_of_values=count, has_null=False)
        part.int_statistics.minimum, part.int_statistics.maximum = low, high
        # a sum of more than 64 bits is omitted, as the specification says
        if max(-low, high) * count < 1 << 63:
            part.int_statistics.sum = total
        parts.append(part)
    return parts


def _runs(values: Integers) -> list[bytes]:
    """Returns runs of ``MAX_RUN`` values, and one run of the rest."""
    whole, rest = divmod(len(values), MAX_RUN)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return [_fixed_delta_run(MAX_RUN, low, 0)] * whole + ([_fixed_delta_run(rest, low, 0)] if rest else [])
    exact = low > -_EXACT and high < _EXACT
    return [
        *_rows(values[: whole * MAX_RUN].reshape(whole, MAX_RUN), exact),
        *_rows(values[whole * MAX_RUN :].reshape(min(rest, 1), rest), exact),
    ]


def _rows(values: Integers, exact: bool) -> list[bytes]:
    """Returns a run for each row of ``values``; ``exact`` if their differences fit into 64 bits."""
    count, length = values.shape
    if not count:
        return []
    encoded = [b""] * count
    is_direct = np.ones(count, np.bool_)
    if exact and length > 1:
        deltas = np.diff(values, axis=1)
        least, most = deltas.min(axis=1), deltas.max(axis=1)
        for row in np.flatnonzero(least == most):
            encoded[row] = _fixed_delta_run(length, int(values[row, 0]), int(least[row]))
        rising = (least >= 0) & (least < most)
        is_direct = (least < 0) & (least < most)
        for chosen, width, packed in _pack_by_width(deltas[:, 1:].view(np.uint64), most.view(np.uint64), rising, 2):
            for row, tail in zip(chosen, packed, strict=True):
                encoded[row] = (
                    _header(_DELTA, width, length)
                    + varint(_zigzag(int(values[row, 0])))
                    + varint(_zigzag(int(deltas[row, 0])))
                    + tail.tobytes()
                )
    if is_direct.any():
        zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
        for chosen, width, packed in _pack_by_width(zigzag, zigzag.max(axis=1), is_direct, 1):
            for row, tail in zip(chosen, packed, strict=True):
                encoded[row] = _header(_DIRECT, width, length) + tail.tobytes()
    return encoded


def _pack_by_width(
    values: _Words, largest: _Words, chosen: npt.NDArray[np.bool_], least_width: int
) -> Iterator[tuple[npt.NDArray[np.intp], int, npt.NDArray[np.uint8]]]:
    """Yields the ``chosen`` rows grouped by the bits that their values (up to ``largest``) need.

    Each group is a tuple of row numbers, bits per value and packed bytes.
    """
    widths = np.maximum(_WIDTHS[np.searchsorted(_LARGEST, largest)], least_width)
    for width in np.unique(widths[chosen]):
        rows = np.flatnonzero(chosen & (widths == width))
        yield rows, int(width), _pack_bits(values[rows], int(width))


def _pack_bits(values: _Words, width: int) -> npt.NDArray[np.uint8]:
    """Returns each row's values in ``width`` bits each, the highest first.

    A row's last byte is padded with zeros.
    """
    count, length = values.shape
    if width >= 8:
        whole = np.ascontiguousarray(values.astype(">u8")).view(np.uint8).reshape(count, length, 8)
        return np.ascontiguousarray(whole[:, :, 8 - width // 8 :]).reshape(count, length * width // 8)
    each = 8 // width
    filled = np.zeros((count, -(-length // each), each), np.uint8)
    filled.reshape(count, -1)[:, :length] = values
    packed: npt.NDArray[np.uint8] = np.bitwise_or.reduce(
        filled << np.arange(8 - width, -1, -width, dtype=np.uint8), axis=2
    )
    return packed


def _fixed_delta_run(length: int, first: int, delta: int) -> bytes:
    return bytes((_DELTA | (length - 1) >> 8, (length - 1) & 255)) + varint(_zigzag(first)) + varint(_zigzag(delta))


def _header(kind: int, width: int, length: int) -> bytes:
    return bytes((kind | _CODES[width] << 1 | (length - 1) >> 8, (length - 1) & 255))


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1
