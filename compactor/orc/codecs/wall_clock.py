"""Converts timestamps to the wall-clock times that readers show, and back.

Codecs decode and encode timestamps as if their writer's zone were UTC, which changes no byte (PROTOCOL 2.6).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from compactor.orc.codecs.arrow_types import Array
from compactor.orc.codecs.codec import Unfit
from compactor.orc.format.java_zones import JavaZone, Seconds, is_utc, java_zone
from compactor.orc.format.stripe_footer import writer_zone
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TypeKind, Types, subtree
from compactor.orc.io.source import Source

_NANOS = 10**9
_MOST_SECONDS = (2**63 - 1) // _NANOS - 1
_Change: TypeAlias = Callable[[Seconds, Seconds], Seconds]


def shown_zone(source: Source, tail: Tail, stripe_index: int) -> JavaZone | None:
    """Returns the zone whose clocks readers show for a stripe's timestamps.

    Returns None if decoded times need no change.

    Raises:
        BadFile: the stripe's footer cannot be read.
        NotLossless: the stripe names no zone, and no default zone is set.
        NotSupported: only Java has the rules of the zone.
    """
    if not tail.types.has_zoned_times:
        return None
    name = writer_zone(source, tail, stripe_index)
    return None if is_utc(name) else java_zone(name)


def wall_clock_batch(batch: pa.RecordBatch, types: Types, columns: tuple[int, ...], zone: JavaZone) -> pa.RecordBatch:
    """Returns a batch of ``columns`` (ids) of ``types`` with the times that clocks of ``zone`` showed."""
    return _change_batch(batch, types, columns, zone.wall_clock)


def stored_batch(batch: pa.RecordBatch, types: Types, columns: tuple[int, ...], zone: JavaZone) -> pa.RecordBatch:
    """Returns a batch of wall-clock times as they are encoded: the inverse of ``wall_clock_batch``."""
    return _change_batch(batch, types, columns, zone.stored)


def wall_clock(array: Array, types: Types, column: int, zone: JavaZone) -> Array:
    """Returns decoded values of ``column`` with the times that clocks of ``zone`` showed.

    Raises:
        Unfit: such a time does not fit into 64 bits of nanoseconds.
    """
    return _change_array(array, types, column, zone.wall_clock)


def _change_batch(batch: pa.RecordBatch, types: Types, columns: tuple[int, ...], change: _Change) -> pa.RecordBatch:
    arrays = [_change_array(array, types, column, change) for array, column in zip(batch.columns, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _change_array(array: Array, types: Types, column: int, change: _Change) -> Array:
    if not any(item.kind is TypeKind.TIMESTAMP for item in subtree(types, column)):
        return array
    item, kind = types[column], array.type
    if item.kind is TypeKind.TIMESTAMP:
        return _change_times(array, change)
    if item.kind is TypeKind.STRUCT:
        parts = [_change_array(array.field(place), types, child, change) for place, child in enumerate(item.children)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if item.kind is TypeKind.LIST:
        values = _change_array(array.values, types, item.children[0], change)
    else:
        keys = _change_array(array.keys, types, item.children[0], change)
        items = _change_array(array.items, types, item.children[1], change)
        values = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def _change_times(array: Array, change: _Change) -> Array:
    nulls = np.asarray(array.is_null())
    if pa.types.is_struct(array.type):
        parts = [part.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) for part in array.flatten()]
        seconds = change(*parts)
        return pa.StructArray.from_arrays(
            [pa.array(seconds, pa.int64()), pa.array(parts[1].astype(np.int32), pa.int32())],
            fields=list(array.type),
            mask=pa.array(nulls),
        )
    nanoseconds: Seconds = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds, nanos = np.divmod(nanoseconds, _NANOS)
    seconds = change(seconds, nanos)
    if np.any(np.abs(seconds) > _MOST_SECONDS):
        raise Unfit("a timestamp beyond 64 bits of nanoseconds")
    return pa.array(seconds * _NANOS + nanos, pa.int64(), mask=nulls).cast(array.type)
