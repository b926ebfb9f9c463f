"""Converts days before 1582-10-15 to the Julian calendar of Hive's files, so that Hive shows the given day."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from compactor.orc.codecs.arrow_types import Array
from compactor.orc.format.types import CALENDAR_KINDS, TypeKind, Types, subtree
from compactor.orc.stripe_compatibility import FIRST_GREGORIAN_DAY
from compactor.tables.reading.calendars import to_hybrid_days
from compactor.tables.schema import PARTS
from compactor.tables.writing.encodable import to_encodable

_DAY = 86_400  #: seconds


def to_hybrid_calendar(array: Array, types: Types, column: int) -> Array:
    """Converts early days of a fitted column to the Julian calendar; returns the same array if it has none."""
    item = types[column]
    if not any(nested.kind in CALENDAR_KINDS for nested in subtree(types, column)):
        return array
    match item.kind:
        case TypeKind.DATE:
            return _dates(array)
        case TypeKind.TIMESTAMP:
            return _timestamps(array)
        case TypeKind.STRUCT:
            parts = [to_hybrid_calendar(array.field(place), types, child) for place, child in enumerate(item.children)]
            return pa.StructArray.from_arrays(parts, names=[field.name for field in array.type], mask=array.is_null())
        case TypeKind.LIST:
            values = to_hybrid_calendar(array.values, types, item.children[0])
            return _around(array, pa.list_(values.type), values)
        case TypeKind.MAP:
            keys, items = (
                to_hybrid_calendar(part, types, child)
                for part, child in zip((array.keys, array.items), item.children, strict=True)
            )
            kind = pa.map_(keys.type, items.type)
            return _around(
                array, kind, pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
            )
    return array


def _dates(array: Array) -> Array:
    days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not np.any(days < FIRST_GREGORIAN_DAY):
        return array
    return pa.array(to_hybrid_days(days).astype(np.int32), pa.int32(), mask=np.asarray(array.is_null())).cast(
        array.type
    )


def _timestamps(array: Array) -> Array:
    parts = to_encodable(array, PARTS)
    seconds = parts.field(0).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not np.any(seconds < FIRST_GREGORIAN_DAY * _DAY):
        return array
    days, rest = np.divmod(seconds, _DAY)
    arrays = [pa.array(to_hybrid_days(days) * _DAY + rest, pa.int64()), parts.field(1)]
    return pa.StructArray.from_arrays(arrays, fields=list(PARTS), mask=array.is_null())


def _around(array: Array, kind: pa.DataType, values: Array) -> Array:
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])
