"""Converts decoded values to the types of a scan's schema: units of timestamps, and the calendar of days."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from compactor.base.errors import NotSupported
from compactor.orc.codecs.arrow_types import Array, ArrowType
from compactor.orc.format.types import CALENDAR_KINDS, TypeKind, Types, subtree
from compactor.tables.reading.calendars import to_gregorian_dates, to_gregorian_seconds
from compactor.tables.schema import PARTS, PER_SECOND

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A column ``column`` of ``types``, called ``name``, and the Arrow type ``kind`` that it gets.

    ``is_hybrid`` says that the file counts early days in the Julian calendar.
    """

    types: Types
    column: int
    kind: ArrowType
    name: str
    is_hybrid: bool

    @property
    def changes(self) -> bool:
        """True if converted values may differ from decoded ones."""
        return any(item.kind in CALENDAR_KINDS for item in subtree(self.types, self.column))


def convert(array: Array, fit: Fit) -> Array:
    """Converts ``array`` to the type in the schema. In microseconds the last three digits are cut off.

    Raises:
        NotSupported: a timestamp does not fit into 64 bits of nanoseconds.
    """
    return _convert(array, fit, fit.column, fit.kind) if fit.changes else array


def _convert(array: Array, fit: Fit, column: int, kind: ArrowType) -> Array:
    item = fit.types[column]
    below = partial(_convert, fit=fit)
    match item.kind:
        case TypeKind.TIMESTAMP | TypeKind.TIMESTAMP_INSTANT:
            return _timestamps(array, kind, fit.name, fit.is_hybrid)
        case TypeKind.DATE:
            return to_gregorian_dates(array) if fit.is_hybrid else array
        case TypeKind.STRUCT if item.children:
            parts = [
                below(array.field(place), column=child, kind=kind.field(place).type)
                for place, child in enumerate(item.children)
            ]
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
        case TypeKind.LIST:
            return _nested(array, kind, below(array.values, column=item.children[0], kind=kind.value_type))
        case TypeKind.MAP:
            keys = below(array.keys, column=item.children[0], kind=kind.key_type)
            items = below(array.items, column=item.children[1], kind=kind.item_type)
            pairs = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
            return _nested(array, kind, pairs)
    return array


def _nested(array: Array, kind: ArrowType, values: Array) -> Array:
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def in_unit(array: Array, kind: ArrowType, name: str) -> Array:
    """Converts the timestamps of column ``name`` from parts to ``kind``; other arrays must have that type.

    Raises:
        NotSupported: a timestamp does not fit into 64 bits of nanoseconds.
    """
    return array if array.type.equals(kind) else _timestamps(array, kind, name, False)


def _timestamps(array: Array, kind: ArrowType, name: str, is_hybrid: bool) -> Array:
    if pa.types.is_timestamp(array.type) and array.type.equals(kind) and not is_hybrid:
        return array
    nulls = np.asarray(array.is_null())
    seconds, nanos = _parts(array)
    if is_hybrid:
        seconds = to_gregorian_seconds(seconds)
    if kind.equals(PARTS):
        arrays = [pa.array(seconds, pa.int64()), pa.array(nanos.astype(np.int32), pa.int32())]
        return pa.StructArray.from_arrays(arrays, fields=list(PARTS), mask=pa.array(nulls))
    per_second = PER_SECOND[kind.unit]
    _must_fit(seconds, per_second, name)
    values = seconds * per_second + nanos // (10**9 // per_second)
    return pa.array(values, pa.int64(), mask=nulls).cast(kind)


def _parts(array: Array) -> tuple[Numbers, Numbers]:
    """Returns seconds and nanoseconds, 0 for NULL."""
    if pa.types.is_timestamp(array.type):
        numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        seconds, nanos = np.divmod(numbers, PER_SECOND[array.type.unit])
        return seconds, nanos * (10**9 // PER_SECOND[array.type.unit])
    seconds, nanos = (part.fill_null(0).to_numpy(zero_copy_only=False) for part in array.flatten())
    return seconds.astype(np.int64), nanos.astype(np.int64)


def _must_fit(seconds: Numbers, per_second: int, name: str) -> None:
    beyond = np.abs(seconds) > (2**63 - 1) // per_second - 1
    if np.any(beyond):
        shown = str(np.datetime64(int(seconds[beyond][0]), "s")).replace("T", " ")
        raise NotSupported(
            f"column {name}: the timestamp {shown} does not fit into 64 bits of nanoseconds; scan with timestamps='us', or "
            "'parts' to lose no digit"
        )
