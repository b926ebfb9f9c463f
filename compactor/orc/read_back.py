"""Checks that an encoded file holds the values that were passed to its writer (PROTOCOL 4).

Rows are reduced to a few checksums for each column while they are written, and again while they are read back. As the order
of rows is the same, this finds any changed, lost, moved or doubled value. Arrow's decoder reads all rows. If Arrow has also
written the file, pyorc reads some rows of each stripe, too.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc as po
from isal import isal_zlib

from compactor.base.errors import NotLossless, VerificationFailed
from compactor.orc.codecs.arrow_codec import SMALL_FILE, read_in_batches
from compactor.orc.codecs.arrow_types import Array
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec, relabel_batch
from compactor.orc.codecs.pyorc_codec import read_rows
from compactor.orc.codecs.stripe_view import BATCH_BYTES, BATCH_ROWS
from compactor.orc.format.java_zones import is_utc
from compactor.orc.format.stripe_footer import writer_zone
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.types import TypeKind, Types, subtree
from compactor.orc.io.source import LocalSource

log = logging.getLogger(__name__)
SAMPLE = 16  #: rows at the start of each stripe that the other decoder reads
_SECOND = 10**9
_VALID, _LENGTHS, _DATA, _SECONDS = range(4)
_Bytes: TypeAlias = npt.NDArray[np.uint8]


class ValueDigest:
    """Checksums of the NULLs, lengths and values of each column, in the order of rows."""

    def __init__(self, types: Types) -> None:
        self._types = types
        self._sums: dict[tuple[int, int], int] = defaultdict(int)
        self.rows = self._bytes = 0

    @property
    def rows_at_once(self) -> int:
        """The number of such rows that may be decoded at once."""
        return max(16, min(BATCH_ROWS, BATCH_BYTES * self.rows // max(1, self._bytes)))

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows of either codec's schema."""
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        for column, array in zip(self._types[0].children, batch.columns, strict=True):
            self._add(array, column)

    def differing_columns(self, other: ValueDigest) -> list[int]:
        """Returns the numbers of the columns that differ."""
        return sorted({key[0] for key in self._sums.keys() | other._sums.keys() if self._sums[key] != other._sums[key]})

    def _add(self, array: Array, column: int) -> None:
        item, valid = self._types[column], _validity(array)
        self._update(column, _VALID, _ones(len(array)) if valid is None else valid)
        if item.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
            nanos, seconds = _nanoseconds(array, valid)
            self._update(column, _DATA, nanos)
            self._update(column, _SECONDS, seconds)
        elif item.kind is TypeKind.STRUCT:
            for part, child in zip(array.flatten(), item.children, strict=True):
                self._add(part, child)
        elif item.kind in (TypeKind.LIST, TypeKind.MAP):
            array, offsets = self._add_lengths(array, column, valid)
            parts = [array.values] if item.kind is TypeKind.LIST else [array.keys, array.items]
            for part, child in zip(parts, item.children, strict=True):
                self._add(part.slice(offsets[0], offsets[-1] - offsets[0]), child)
        elif pa.types.is_binary(array.type) or pa.types.is_string(array.type):
            array, offsets = self._add_lengths(array, column, valid)
            data = array.buffers()[2]
            if data is not None:
                self._update(column, _DATA, np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]])
        elif pa.types.is_boolean(array.type):
            bits = _bits(array, array.buffers()[1])
            self._update(column, _DATA, bits if valid is None else bits & valid)
        else:
            self._update(column, _DATA, _fixed_width_values(array, valid))

    def _add_lengths(self, array: Array, column: int, valid: _Bytes | None) -> tuple[Array, npt.NDArray[np.int32]]:
        """Adds the lengths of lists, maps or texts.

        Returns the array without values below a NULL, and its offsets.
        """
        offsets = _offsets(array)
        lengths = np.diff(offsets)
        if valid is not None:
            lengths *= valid
            if lengths.sum() != offsets[-1] - offsets[0]:
                array = array.drop_null()
                offsets = _offsets(array)
        self._update(column, _LENGTHS, lengths)
        return array, offsets

    def _update(self, column: int, part: int, values: npt.NDArray[np.generic]) -> None:
        key = column, part
        self._sums[key] = isal_zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data, self._sums[key])


def _bits(array: Array, buffer: pa.Buffer | None) -> _Bytes:
    """Returns the bits of one of the buffers of ``array``, each as a byte."""
    if buffer is None:
        return np.zeros(0, np.uint8)
    first = array.offset // 8
    packed = np.frombuffer(buffer, np.uint8)[first : (array.offset + len(array) + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[array.offset - 8 * first :][: len(array)]


def _validity(array: Array) -> _Bytes | None:
    """Returns 0 for each NULL and 1 for each value, or None if there are only values."""
    return _bits(array, array.buffers()[0]) if array.null_count else None


@lru_cache(maxsize=4)
def _ones(count: int) -> _Bytes:
    return np.ones(count, np.uint8)


def _offsets(array: Array) -> npt.NDArray[np.int32]:
    ends = array.buffers()[1]
    whole = np.frombuffer(ends, np.int32) if ends else np.zeros(1, np.int32)
    return whole[array.offset : array.offset + len(array) + 1]


def _fixed_width_values(array: Array, valid: _Bytes | None) -> npt.NDArray[np.generic]:
    """Returns the fixed-width values of an array, with NULLs as 0 and all NaNs as the same NaN."""
    width = array.type.bit_width // 8
    data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    data = data[width * array.offset : width * (array.offset + len(array))]
    if pa.types.is_floating(array.type):
        numbers = data.view(np.float32 if width == 4 else np.float64)
        if np.isnan(numbers).any():
            data = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers).view(np.uint8)
    if valid is None:
        return data
    words = data.view(f"u{min(width, 8)}").reshape(len(array), -1)
    return words * valid[:, np.newaxis]


def _nanoseconds(array: Array, valid: _Bytes | None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns timestamps as nanoseconds modulo 2⁶⁴, and the seconds of those that overflow 64 bits."""
    if pa.types.is_struct(array.type):
        seconds, rest = (part.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) for part in array.flatten())
        nanos = seconds * _SECOND + rest
        return nanos, seconds[nanos // _SECOND != seconds]
    nanos = _fixed_width_values(array, valid).view(np.int64)
    return nanos, nanos[:0]


def check_values(path: str | os.PathLike[str], types: Types, written: ValueDigest, codec: Codec) -> None:
    """Reads the file at ``path`` and checks that it holds the rows of ``written``.

    ``codec`` has just encoded the file, whose tail is still the encoder's own.

    Raises:
        VerificationFailed: it does not hold them, or two decoders disagree.
    """
    by_arrow = codec is ARROW
    with LocalSource(path) as source:
        tail = read_tail(source)
    starts = _sampled_rows(tail)
    sample = ValueDigest(types)
    try:
        read = ValueDigest(types)
        for batch in _by_arrow(path, types, written.rows_at_once):
            if by_arrow:
                _add_sample(batch, read.rows, starts, sample)
            read.add(batch)
    except pa.ArrowInvalid as error:  # a timestamp beyond 64 bits of nanoseconds
        if by_arrow:
            raise VerificationFailed(
                f"{path}: cannot be read back ({error}); nothing was changed, please report this"
            ) from error
        read = _by_pyorc(path, tail, types, [range(written.rows)])
    _check_agree(path, types, written, read, "that were written")
    if sample.rows:
        try:
            other = _by_pyorc(path, tail, types, [range(start, stop) for start, stop in starts])
        except NotLossless as error:
            log.info("no rows are read by another decoder: %s", error)
        else:
            _check_agree(path, types, sample, other, "that another decoder reads", _within_maps(types))


def check_zone(path: str | os.PathLike[str], tail: Tail, zone: str) -> None:
    """Checks that all stripes of a file with timestamps name ``zone`` as their writer's zone.

    Raises:
        VerificationFailed: a stripe names another zone.
    """
    if tail.types.has_timestamps:
        with LocalSource(path) as source:
            for number in range(len(tail.stripes)):
                named = writer_zone(source, tail, number)
                if named != zone and not (is_utc(named) and is_utc(zone)):
                    raise VerificationFailed(
                        f"{path}, stripe {number}: says that its writer's zone is {named!r}, {zone!r} was written; nothing "
                        "was changed, please report this"
                    )


def _sampled_rows(tail: Tail) -> list[tuple[int, int]]:
    """Returns the ranges of rows, the first ones of each stripe, that both decoders read."""
    ends = list(accumulate(stripe.rows for stripe in tail.stripes))
    return [(start, min(start + SAMPLE, end)) for start, end in pairwise([0, *ends])]


def _by_arrow(path: str | os.PathLike[str], types: Types, rows: int) -> Iterator[pa.RecordBatch]:
    if os.stat(path).st_size <= SMALL_FILE:
        file: Any = po.ORCFile(os.fspath(path))
        if file.nrows <= rows:
            batches = file.read().to_batches()
            yield from (relabel_batch(batch, ARROW.schema(types)) for batch in batches)
            return
    with pa.OSFile(os.fspath(path)) as file:
        for batch in read_in_batches(file, rows):
            yield relabel_batch(batch, ARROW.schema(types))


def _add_sample(batch: pa.RecordBatch, place: int, ranges: Sequence[tuple[int, int]], sample: ValueDigest) -> None:
    """Adds the rows in ``ranges`` of a batch whose first row is ``place``."""
    for start, stop in ranges:
        low, high = max(start, place), min(stop, place + batch.num_rows)
        if low < high:
            sample.add(batch.slice(low - place, high - low))


def _by_pyorc(path: str | os.PathLike[str], tail: Tail, types: Types, ranges: Sequence[range]) -> ValueDigest:
    digest = ValueDigest(types)
    with LocalSource(path) as source:
        for batch in read_rows(source, tail, ranges):
            digest.add(relabel_batch(batch, PYORC.schema(types)))
    return digest


def _within_maps(types: Types) -> frozenset[int]:
    """Returns the columns of maps and their content, of which pyorc drops entries with equal keys."""
    maps = [number for number, item in enumerate(types) if item.kind is TypeKind.MAP]
    return frozenset(column for number in maps for column in range(number, number + len(subtree(types, number))))


def _check_agree(
    path: str | os.PathLike[str],
    types: Types,
    expected: ValueDigest,
    read: ValueDigest,
    what: str,
    unknown: Collection[int] = (),
) -> None:
    columns = [column for column in expected.differing_columns(read) if column not in unknown]
    if columns or expected.rows != read.rows:
        names = ", ".join(f"{column} ({types[column].kind.name.lower()})" for column in columns)
        raise VerificationFailed(
            f"{path}: read back, its {read.rows} rows are not the {expected.rows} {what}: columns {names} differ; "
            "nothing was changed, please report this"
        )
