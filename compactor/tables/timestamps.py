"""Decoded values as values of a scan's schema: timestamps from the lossless codec, in the unit that was asked for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.errors import NotSupported
from compactor.orc.codecs.arrow_types import Array, ArrowType

_PER_SECOND = {"ns": 10**9, "us": 10**6}


def fitted(array: Array, kind: ArrowType, column: str) -> Array:
    """Returns ``array`` as ``kind``, which differs from its type in timestamps only; ``column`` is its name, for the error.

    In microseconds the last three digits are cut off.

    Raises:
        NotSupported: a timestamp does not fit into 64 bits of nanoseconds.
    """
    if array.type.equals(kind):
        return array
    if pa.types.is_timestamp(kind):
        return _of_parts(array, kind, column) if pa.types.is_struct(array.type) else _cut(array, kind)
    if pa.types.is_struct(kind):
        children = [fitted(array.field(place), kind.field(place).type, column) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null()) if children else array
    if pa.types.is_list(kind):
        return _nested(array, kind, fitted(array.values, kind.value_type, column))
    if pa.types.is_map(kind):
        keys, items = fitted(array.keys, kind.key_type, column), fitted(array.items, kind.item_type, column)
        return _nested(array, kind, pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field]))
    return array.cast(kind)


def _nested(array: Array, kind: ArrowType, values: Array) -> Array:
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def _cut(array: Array, kind: ArrowType) -> Array:
    """Returns nanoseconds as microseconds, rounded down."""
    whole = pc.floor_temporal(array, unit="microsecond") if kind.unit == "us" else array
    return whole.cast(kind)


def _of_parts(array: Array, kind: ArrowType, column: str) -> Array:
    """Returns timestamps from ``struct<seconds,nanos>``."""
    per_second = _PER_SECOND[kind.unit]
    valid = np.asarray(array.is_valid())
    seconds = np.where(valid, array.field(0).fill_null(0).to_numpy(zero_copy_only=False), 0)
    nanos = np.where(valid, array.field(1).fill_null(0).to_numpy(zero_copy_only=False), 0).astype(np.int64)
    farthest = (2**63 - 1) // per_second - 1
    if np.any(np.abs(seconds) > farthest):
        found = np.datetime64(int(seconds[np.abs(seconds) > farthest][0]), "s")
        raise NotSupported(
            f"column {column}: the timestamp {str(found).replace('T', ' ')} does not fit into 64 bits of nanoseconds; scan "
            "with timestamps='us'"
        )
    values = seconds * per_second + nanos // (10**9 // per_second)
    return pa.array(values, pa.int64(), mask=~valid).cast(kind)
