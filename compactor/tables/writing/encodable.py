"""Converts fitted rows to the types that a codec writes; only timestamps differ, in unit or form."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from compactor.orc.codecs.arrow_types import Array, ArrowType
from compactor.orc.codecs.codec import Unfit
from compactor.tables.schema import PARTS

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


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
        return _around(array, kind, to_encodable(array.values, kind.value_type))
    if pa.types.is_map(kind):
        pairs = [to_encodable(array.keys, kind.key_type), to_encodable(array.items, kind.item_type)]
        return _around(array, kind, pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field]))
    return array.cast(kind)


def _around(array: Array, kind: ArrowType, values: Array) -> Array:
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
