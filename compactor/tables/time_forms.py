"""Converts dates and timestamps between units, parts of seconds, and the two calendars.

Hive 4 counts days before 1582-10-15 in the Julian calendar, Hive 3.1 and Arrow count them in the proleptic Gregorian one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from compactor.orc.codecs.arrow_types import Array, ArrowType
from compactor.orc.codecs.codec import Unfit
from compactor.orc.format.tail import FIRST_GREGORIAN_DAY, Tail
from compactor.orc.format.types import CALENDAR_KINDS, TypeKind, Types, subtree
from compactor.tables.schema import PARTS

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
Days = npt.NDArray[np.int64]
_JAVA = 0  #: number of a writer
_DAY = 86_400  #: seconds


def to_encodable(array: Array, kind: ArrowType) -> Array:
    """Converts ``array`` to ``kind``, a type of the codec's batches.

    Raises:
        Unfit: a timestamp is beyond the range of nanoseconds; the codec with seconds and nanoseconds may write it.
            Microseconds hold all years, but lose three digits.
    """
    if array.type.equals(kind):
        return array
    if pa.types.is_timestamp(array.type):
        return _in_parts(array, kind) if pa.types.is_struct(kind) else _in_nanoseconds(array, kind)
    if array.type.equals(PARTS) and pa.types.is_timestamp(kind):
        return _join_parts(array, kind)
    if pa.types.is_struct(kind):
        children = [to_encodable(array.field(place), kind.field(place).type) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        return _wrap(array, kind, to_encodable(array.values, kind.value_type))
    if pa.types.is_map(kind):
        pairs = [to_encodable(array.keys, kind.key_type), to_encodable(array.items, kind.item_type)]
        return _wrap(array, kind, pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field]))
    return array.cast(kind)


def _wrap(array: Array, kind: ArrowType, values: Array) -> Array:
    """Returns a list or map with the offsets and NULLs of ``array`` around ``values``."""
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def _in_nanoseconds(array: Array, kind: ArrowType) -> Array:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        raise Unfit(str(error)) from error


def _join_parts(array: Array, kind: ArrowType) -> Array:
    """Converts ``struct<seconds,nanos>`` to the unit of ``kind``."""
    per_second = _PER_SECOND[kind.unit]
    seconds, nanos = (part.fill_null(0).to_numpy(zero_copy_only=False) for part in array.flatten())
    seconds, nanos = seconds.astype(np.int64), nanos.astype(np.int64)
    if np.any(np.abs(seconds) > (2**63 - 1) // per_second - 1):
        raise Unfit(f"a timestamp does not fit into 64 bits of {kind.unit}")
    values = seconds * per_second + nanos // (10**9 // per_second)
    return pa.array(values, pa.int64(), mask=np.asarray(array.is_null())).cast(kind)


def _in_parts(array: Array, kind: ArrowType) -> Array:
    """Converts timestamps to ``struct<seconds,nanos>``, with seconds rounded down."""
    per_second = _PER_SECOND[array.type.unit]
    values = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds = values // per_second
    nanos = (values - seconds * per_second) * (10**9 // per_second)
    parts = [pa.array(seconds, pa.int64()), pa.array(nanos.astype(np.int32), pa.int32())]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())


def is_hybrid(tail: Tail) -> bool:
    """Tells whether days before 1582-10-15 in the file are of the Julian calendar.

    They are if the file says so, or if it says nothing and Java wrote it. Trino says nothing, but counts in the proleptic
    Gregorian calendar, as Arrow does.
    """
    return not tail.is_proleptic and (tail.calendar != 0 or tail.writer == _JAVA)


def to_gregorian_dates(array: Array) -> Array:
    """Converts dates of a hybrid file to the proleptic Gregorian calendar.

    Year, month and day stay the same.
    """
    return _convert_dates(array, to_gregorian_days)


def _convert_dates(array: Array, convert: Callable[[Days], Days]) -> Array:
    """Converts dates of which one is before the Gregorian calendar; returns other arrays as they are."""
    days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not np.any(days < FIRST_GREGORIAN_DAY):
        return array
    return pa.array(convert(days).astype(np.int32), pa.int32(), mask=np.asarray(array.is_null())).cast(array.type)


def to_gregorian_seconds(seconds: Days) -> Days:
    """Converts seconds since 1970 of a hybrid file to the proleptic Gregorian calendar."""
    if not np.any(seconds < FIRST_GREGORIAN_DAY * _DAY):
        return seconds
    days, rest = np.divmod(seconds, _DAY)
    return to_gregorian_days(days) * _DAY + rest


def to_gregorian_days(days: Days) -> Days:
    """Converts days since 1970 of a hybrid file to the proleptic Gregorian calendar.

    The calendars differ by the leap days of centuries. In this formula, years begin in March and count from -4800.
    """
    year = (4 * (days + 2_440_588 + 32_082) + 3) // 1461
    converted: Days = np.where(days < FIRST_GREGORIAN_DAY, days + 38 - year // 100 + year // 400, days)
    return converted


def to_hybrid_days(days: Days) -> Days:
    """Converts days of the proleptic Gregorian calendar to those of Hive's files.

    Inverts ``to_gregorian_days``.

    The ten days from 1582-10-05 to 1582-10-14 do not exist there and must not be given.
    """
    march_days = days + 2_440_588 + 32_044  # days since March 1st of the year -4800
    century = (4 * march_days + 3) // 146_097
    year = 100 * century + (4 * (march_days - 146_097 * century // 4) + 3) // 1461
    converted: Days = np.where(days < FIRST_GREGORIAN_DAY, days - 38 + year // 100 - year // 400, days)
    return converted


def to_hybrid_calendar(array: Array, types: Types, column: int) -> Array:
    """Converts early days of a fitted column to the Julian calendar.

    Returns the same array if it has none.
    """
    item = types[column]
    if not any(nested.kind in CALENDAR_KINDS for nested in subtree(types, column)):
        return array
    match item.kind:
        case TypeKind.DATE:
            return _convert_dates(array, to_hybrid_days)
        case TypeKind.TIMESTAMP:
            return _to_hybrid_timestamps(array)
        case TypeKind.STRUCT:
            parts = [to_hybrid_calendar(array.field(place), types, child) for place, child in enumerate(item.children)]
            return pa.StructArray.from_arrays(parts, names=[field.name for field in array.type], mask=array.is_null())
        case TypeKind.LIST:
            values = to_hybrid_calendar(array.values, types, item.children[0])
            return _wrap(array, pa.list_(values.type), values)
        case TypeKind.MAP:
            keys, items = (
                to_hybrid_calendar(part, types, child)
                for part, child in zip((array.keys, array.items), item.children, strict=True)
            )
            kind = pa.map_(keys.type, items.type)
            return _wrap(
                array, kind, pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
            )
    return array


def _to_hybrid_timestamps(array: Array) -> Array:
    parts = to_encodable(array, PARTS)
    seconds = parts.field(0).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not np.any(seconds < FIRST_GREGORIAN_DAY * _DAY):
        return array
    days, rest = np.divmod(seconds, _DAY)
    arrays = [pa.array(to_hybrid_days(days) * _DAY + rest, pa.int64()), parts.field(1)]
    return pa.StructArray.from_arrays(arrays, fields=list(PARTS), mask=array.is_null())
