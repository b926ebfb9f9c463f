"""Converts decoded columns to the values that a data file holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import NotSupported
from compactor.orc.codecs.arrow_types import Array
from compactor.orc.format.types import TypeKind, Types, subtree
from compactor.rows.keys import Numbers
from compactor.tables.schema import PARTS

_MICROSECOND, _MILLISECOND = 1000, 10**6  #: in nanoseconds
_MOST_SECONDS = (
    2**63 - 1
) // 10**9 - 1  #: from 1970 that a timestamp in nanoseconds may have; PyIceberg reads no others
_TIMES = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)


@dataclass(slots=True, kw_only=True)
class PlainValues:
    """Converts columns of ``types``, with timestamps in parts of a second.

    Blanks at the end of a char go, because engines disagree about them. With ``cuts``, digits of a timestamp below a
    microsecond go, too; ``cut`` counts the timestamps that had such digits. With ``is_near``, timestamps that do not fit
    into 64 bits of nanoseconds are refused.
    """

    table: str
    path: str
    types: Types
    cuts: bool
    is_near: bool
    cut: int = 0

    def convert(self, array: Array, column: int, name: str) -> Array:
        """Converts a column called ``name``.

        Raises:
            NotSupported: a timestamp is beyond the range of Iceberg's readers, or has more digits than they show.
        """
        item = self.types[column]
        if not any(below.kind in (TypeKind.CHAR, *_TIMES) for below in subtree(self.types, column)):
            return array
        if item.kind is TypeKind.CHAR:
            return pc.utf8_rtrim(array, characters=" ")
        if item.kind in _TIMES:
            return self._convert_times(array, name)
        if item.kind is TypeKind.STRUCT:
            parts = [self.convert(array.field(place), child, name) for place, child in enumerate(item.children)]
            return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null())
        if item.kind is TypeKind.LIST:
            return _wrap(array, self.convert(array.values, item.children[0], name))
        keys = self.convert(array.keys, item.children[0], name)
        items = self.convert(array.items, item.children[1], name)
        fields = [array.type.key_field, array.type.item_field]
        return _wrap(array, pa.StructArray.from_arrays([keys, items], fields=fields))

    def _convert_times(self, array: Array, name: str) -> Array:
        nulls = array.is_null()
        seconds, nanos = (part.fill_null(0).to_numpy(zero_copy_only=False) for part in array.flatten())
        if self.is_near:
            self._must_be_near(seconds, name)
        digits = nanos % _MICROSECOND
        self._must_be_alike(seconds, nanos - digits, name)
        if not np.any(digits):
            return array
        if not self.cuts:
            place = int(np.flatnonzero(digits)[0])
            raise NotSupported(
                f"{self.table}: column {name} holds {_time_text(seconds[place], nanos[place])} in file {self.path}; readers "
                "of Iceberg show six digits below a second, and some of them round; mirror the table with timestamps cut to "
                "microseconds"
            )
        self.cut += int(np.count_nonzero(digits))
        return pa.StructArray.from_arrays(
            [pa.array(seconds, pa.int64()), pa.array((nanos - digits).astype(np.int32), pa.int32())],
            fields=list(PARTS),
            mask=nulls,
        )

    def _must_be_near(self, seconds: Numbers, name: str) -> None:
        beyond = np.flatnonzero(np.abs(seconds) > _MOST_SECONDS)
        if len(beyond):
            raise NotSupported(
                f"{self.table}: column {name} holds {_time_text(seconds[beyond[0]], 0)} in file {self.path}; PyIceberg "
                "reads timestamps from 1677-09-22 to 2262-04-11 and no others; correct the value, or mirror the table "
                "with --without-pyiceberg for other readers"
            )

    def _must_be_alike(self, seconds: Numbers, nanos: Numbers, name: str) -> None:
        early = np.flatnonzero((seconds < 0) & (nanos > 0) & (nanos < _MILLISECOND))
        if len(early):
            raise NotSupported(
                f"{self.table}: column {name} holds {_time_text(seconds[early[0]], nanos[early[0]])} in file {self.path}; "
                "Trino shows a fraction below a millisecond before 1970 a second earlier, so the table cannot be mirrored "
                "with it; correct the value"
            )


def _time_text(seconds: int, nanos: int) -> str:
    shown = str(np.datetime64(int(seconds), "s")).replace("T", " ")
    return f"{shown}.{int(nanos):09}" if nanos else shown


def _wrap(array: Array, values: Array) -> Array:
    """Returns a list or map with the offsets and NULLs of ``array`` around ``values``."""
    return pa.Array.from_buffers(array.type, len(array), array.buffers()[:2], array.null_count, array.offset, [values])
