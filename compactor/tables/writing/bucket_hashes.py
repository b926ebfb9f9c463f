"""Computes Hive's hash of a value, by which the rows of a bucketed table are divided into files.

Version 1 is Java's hash of each value (``ObjectInspectorUtils.getBucketHashCodeOld``). Version 2 is Murmur 3 over its bytes
(``ObjectInspectorUtils.getBucketHashCode``), with the sign extension of the last one to three bytes that Hive's
``Murmur3.hash32`` has. A wrong hash silently loses rows, because readers skip whole files. So each type is proved by values
that a live Hive hashed (``tests/golden/bucket_hashes.json``), and any other type is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import NotSupported
from compactor.tables.schema import PARTS

Hashes = npt.NDArray[np.uint32]
Numbers = npt.NDArray[Any]
_Hash = Callable[[pa.Array], Hashes]

_SEED = np.uint32(104729)
_C1, _C2, _M, _N = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(5), np.uint32(0xE6546B64)
_NANOS = 1_000_000_000
_FIRST_SECOND = -12_219_292_800  #: 1582-10-15, the first day of the Gregorian calendar


def bucket_numbers(columns: Sequence[pa.Array], types: Sequence[str], count: int, *, version: int) -> Numbers:
    """Returns the bucket of each row, 0 to ``count - 1``.

    Args:
        columns: the table's bucketing columns in order, in the Arrow types of their Hive types.
        types: their Hive types, such as ``varchar(10)``.
        count: the number of buckets.
        version: the table's ``bucketing_version``; 1 if the property is absent.

    Raises:
        NotSupported: a column has a type, or a value, whose hash is not proved.
    """
    hashes = bucket_hashes(columns, types, version=version)
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32)


def bucket_hashes(columns: Sequence[pa.Array], types: Sequence[str], *, version: int) -> Hashes:
    """Returns the hash of each row, as an unsigned 32-bit number; the hash of NULL is 0.

    Raises:
        NotSupported: a column has a type, or a value, whose hash is not proved.
    """
    total = np.zeros(len(columns[0]), dtype=np.uint32)
    for column, type_ in zip(columns, types, strict=True):
        values = _function(type_, version)(column)
        if column.null_count:
            values = np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint32(0), values)
        total = total * np.uint32(31) + values
    return total


def _function(type_: str, version: int) -> _Hash:
    function = _FUNCTIONS[version].get(type_.partition("(")[0].strip().lower())
    if function is None:
        raise NotSupported(
            f"rows cannot be divided into buckets by a column of type {type_} with bucketing_version {version}: Hive's hash "
            f"of it is not proved; supported are {', '.join(_FUNCTIONS[version])}"
        )
    return function


def _raw(array: pa.Array, dtype: npt.DTypeLike) -> Numbers:
    """Returns the values of an array of fixed width, with 0 for NULL."""
    values: Numbers = array.fill_null(0).to_numpy(zero_copy_only=False).astype(dtype)
    return values


def _fold(wide: Numbers) -> Hashes:
    """Returns Java's hash of longs: the exclusive or of both halves."""
    bits = wide.view(np.uint64)
    return ((bits >> np.uint64(32)) ^ bits).astype(np.uint32)


def _bits(array: pa.Array, dtype: npt.DTypeLike) -> Numbers:
    """Returns the bits of floating-point values, with Java's NaN for every NaN."""
    values = _raw(array, dtype)
    values = np.where(np.isnan(values), np.array(np.nan, dtype=dtype), values)
    return values.view(np.int64 if dtype is np.float64 else np.int32)


def _floating_2(array: pa.Array, dtype: npt.DTypeLike, whole: npt.DTypeLike) -> Hashes:
    """Returns Murmur hashes.

    Hive takes a value's bits for a number, and hashes the bits of that number as a float.

    For -0.0, Hive's function and the file into which Hive puts the row disagree [seen].
    """
    bits = _bits(array, dtype)
    if np.any(bits == np.iinfo(whole).min):
        raise NotSupported(
            "rows cannot be divided into buckets by the value -0.0: Hive itself disagrees about it; use 0.0"
        )
    return _murmur_fixed(bits.astype(dtype).view(whole))


def _number(array: pa.Array) -> Hashes:
    return _raw(array, np.int32).view(np.uint32)


def _days(array: pa.Array) -> Numbers:
    return _raw(array.cast(pa.int32()), np.int32)


def _instants(array: pa.Array) -> tuple[Numbers, Numbers]:
    """Returns seconds since 1970, rounded down, and nanoseconds within the second."""
    if array.type.equals(PARTS):
        seconds, nanos = (_raw(pc.struct_field(array, [place]).cast(pa.int64()), np.int64) for place in range(2))
    else:
        units = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": _NANOS}[array.type.unit]
        values = _raw(array.cast(pa.int64()), np.int64)
        seconds = values // units
        nanos = (values - seconds * units) * (_NANOS // units)
    if len(seconds) and seconds.min() < _FIRST_SECOND:
        raise NotSupported(
            "rows cannot be divided into buckets by a timestamp before 1582-10-15: Hive's hash of it depends on its calendar"
        )
    return seconds, nanos


def _timestamp_1(array: pa.Array) -> Hashes:
    seconds, nanos = _instants(array)
    return _fold((seconds << 30) | nanos)


def _timestamp_2(array: pa.Array) -> Hashes:
    return _murmur_each(map(_timestamp_bytes, *(part.tolist() for part in _instants(array))))


def _timestamp_bytes(seconds: int, nanos: int) -> bytes:
    """Returns a timestamp as Hive's ``TimestampWritableV2`` stores it.

    It begins with the lower 31 bits of the seconds. If more follows, the nine digits of the nanoseconds come next, reversed
    and without leading zeros, and then the upper bits of the seconds; a negative number before tells that they are there.
    """
    upper = seconds >> 31
    reversed_nanos = int(f"{nanos:09d}"[::-1])
    has_more = upper != 0 or nanos != 0
    start = ((seconds & 0x7FFFFFFF) | (0x80000000 if has_more else 0)).to_bytes(4)
    if not has_more:
        return start
    if upper == 0:
        return start + _variable_length(reversed_nanos)
    return start + _variable_length(-reversed_nanos - 1) + _variable_length(upper)


def _variable_length(number: int) -> bytes:
    """Returns a number as Hadoop's ``WritableUtils.writeVLong`` writes it."""
    if -112 <= number <= 127:
        return number.to_bytes(1, signed=True)
    magnitude = ~number if number < 0 else number
    length = (magnitude.bit_length() + 7) // 8
    return ((-120 if number < 0 else -112) - length).to_bytes(1, signed=True) + magnitude.to_bytes(length)


def _decimal_1(array: pa.Array) -> Hashes:
    return _each(31 * _hash_of_integer(unscaled) + scale for unscaled, scale in _decimals(array))


def _decimal_2(array: pa.Array) -> Hashes:
    """Returns hashes of the unscaled values only, as ``BigInteger.toByteArray`` has them.

    1 and 0.1 have the same.
    """
    return _murmur_each(
        unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, signed=True)
        for unscaled, _ in _decimals(array)
    )


def _decimals(array: pa.Array) -> Iterator[tuple[int, int]]:
    """Yields unscaled values and scales without trailing zeros after the point; 0 for NULL."""
    for value in array.to_pylist():
        sign, digits, exponent = (value or Decimal(0)).as_tuple()
        unscaled, scale = int("".join(map(str, digits))), -int(exponent)
        while scale > 0 and unscaled % 10 == 0:
            unscaled, scale = unscaled // 10, scale - 1
        yield -unscaled if sign else unscaled, scale


def _hash_of_integer(number: int) -> int:
    """Returns the hash of Java's ``BigInteger``: of its 32-bit words, the highest first, times its sign."""
    magnitude, total = abs(number), 0
    for at in reversed(range(0, magnitude.bit_length(), 32)):
        total = 31 * total + ((magnitude >> at) & 0xFFFFFFFF)
    return total if number >= 0 else -total


def _each(hashes: Iterable[int]) -> Hashes:
    return np.fromiter((value & 0xFFFFFFFF for value in hashes), dtype=np.uint32)


def _murmur_each(values: Iterable[bytes]) -> Hashes:
    return _murmur_text(pa.array(list(values), pa.binary()))


def _bytes(array: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
    """Returns all bytes of texts, signed as in Java, where each text begins, and its length."""
    binary = array.fill_null(b"" if pa.types.is_binary(array.type) else "").cast(pa.large_binary())
    offsets = np.frombuffer(binary.buffers()[1], dtype=np.int64)[binary.offset : binary.offset + len(binary) + 1]
    data = np.frombuffer(binary.buffers()[2] or b"", dtype=np.int8)
    return data, offsets[:-1], np.diff(offsets)


def _polynomial(array: pa.Array, first: int) -> Hashes:
    """Returns Java's hash of bytes: 31 times the hash of the bytes before, plus the byte."""
    data, starts, lengths = _bytes(array)
    hashes = np.full(len(starts), first, dtype=np.uint32)
    for at in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > at)
        hashes[rows] = hashes[rows] * np.uint32(31) + data[starts[rows] + at].astype(np.int32).view(np.uint32)
    return hashes


def _strip(array: pa.Array) -> pa.Array:
    """Returns texts of type ``char`` without trailing blanks."""
    return pc.utf8_rtrim(array, " ")


def _rotate(values: Hashes, by: int) -> Hashes:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


def _mix(hashes: Hashes, block: Hashes) -> Hashes:
    return _rotate(hashes ^ (_rotate(block * _C1, 15) * _C2), 13) * _M + _N


def _finish(hashes: Hashes, lengths: Numbers | int) -> Hashes:
    hashes = hashes ^ np.asarray(lengths).astype(np.uint32)
    hashes ^= hashes >> np.uint32(16)
    hashes = hashes * np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes = hashes * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _murmur_fixed(values: Numbers) -> Hashes:
    """Returns the hash of numbers as Java's ``ByteBuffer`` holds them, with the highest byte first."""
    width = values.dtype.itemsize
    swapped = np.ascontiguousarray(values).astype(values.dtype.newbyteorder(">"))
    data = np.frombuffer(swapped.tobytes(), dtype=np.int8)
    starts = np.arange(len(values), dtype=np.int64) * width
    return _murmur(data, starts, np.full(len(values), width, dtype=np.int64))


def _murmur_text(array: pa.Array) -> Hashes:
    return _murmur(*_bytes(array))


def _murmur(data: Numbers, starts: Numbers, lengths: Numbers) -> Hashes:
    """Returns the hashes of texts, block by block for all texts that are long enough."""
    hashes = np.full(len(starts), _SEED, dtype=np.uint32)
    unsigned, whole = data.view(np.uint8), lengths // 4
    for block in range(int(whole.max(initial=0))):
        rows = np.flatnonzero(whole > block)
        at = starts[rows] + 4 * block
        word = np.zeros(len(rows), dtype=np.uint32)
        for byte in range(4):
            word |= unsigned[at + byte].astype(np.uint32) << np.uint32(8 * byte)
        hashes[rows] = _mix(hashes[rows], word)
    rest = lengths - 4 * whole
    word = np.zeros(len(starts), dtype=np.uint32)
    for byte in range(3):
        rows = np.flatnonzero(rest > byte)
        signed = data[starts[rows] + 4 * whole[rows] + byte].astype(np.int32).view(np.uint32)
        word[rows] ^= signed << np.uint32(8 * byte)
    hashes ^= _rotate(word * _C1, 15) * _C2
    return _finish(hashes, lengths)


def _boolean(array: pa.Array) -> Hashes:
    return _number(array.cast(pa.int32()))


_VERSION_1: dict[str, _Hash] = {
    "boolean": _boolean,
    "tinyint": _number,
    "smallint": _number,
    "int": _number,
    "bigint": lambda array: _fold(_raw(array, np.int64)),
    "float": lambda array: _bits(array, np.float32).view(np.uint32),
    "double": lambda array: _fold(_bits(array, np.float64)),
    "string": lambda array: _polynomial(array, 0),
    "varchar": lambda array: _polynomial(array, 1),
    "char": lambda array: _polynomial(_strip(array), 1),
    "binary": lambda array: _polynomial(array, 1),
    "decimal": _decimal_1,
    "date": lambda array: _days(array).view(np.uint32),
    "timestamp": _timestamp_1,
}
_VERSION_2: dict[str, _Hash] = {  # for binary, Hive's function and its file disagree [seen]
    "boolean": _boolean,
    "tinyint": _number,
    "smallint": lambda array: _murmur_fixed(_raw(array, np.int16)),
    "int": lambda array: _murmur_fixed(_raw(array, np.int32)),
    "bigint": lambda array: _murmur_fixed(_raw(array, np.int64)),
    "float": lambda array: _floating_2(array, np.float32, np.int32),
    "double": lambda array: _floating_2(array, np.float64, np.int64),
    "string": _murmur_text,
    "varchar": _murmur_text,
    "char": lambda array: _murmur_text(_strip(array)),
    "decimal": _decimal_2,
    "date": lambda array: _murmur_fixed(_days(array)),
    "timestamp": _timestamp_2,
}
_FUNCTIONS = {1: _VERSION_1, 2: _VERSION_2}
