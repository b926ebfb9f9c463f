"""Rows at the door: what a program gives is made the table's own types, or refused by column and value.

Columns are matched by name in any case; one that is left out is NULL. A value is changed only as Hive's INSERT does it: a
text is cut to the length of its ``varchar`` or ``char``, the latter is filled with blanks, and a double is rounded to the
nearest float. Numbers out of range and decimals with more digits, which Hive makes NULL or rounds, are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.errors import NotConforming, NotSupported
from compactor.orc.codecs.arrow_types import arrow_type
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import TypeKind, Types
from compactor.orc.stripe_compatibility import FIRST_GREGORIAN_DAY
from compactor.tables.schema import PARTS
from compactor.tables.writing.encodable import encodable

#: Arrow's arrays and types are of many classes, which can be distinguished only at run time.
Array: TypeAlias = Any
ArrowType: TypeAlias = Any

_DAY = 86_400  #: seconds
_FIRST_DAY, _END_DAY = -719_162, 2_932_897  #: of the years 1 and 10000
_WANTED_YEARS = "wanted: a year from 1 to 9999"
_LEFT_OUT = "Hive's calendar goes from 1582-10-04 to 1582-10-15"
_LARGEST_HIDDEN = 999_999  #: nanoseconds in the last second before 1970 that readers show as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The way of rows into a table: its columns, and the time zone of its timestamps."""

    table: str  #: for messages
    columns: tuple[tuple[str, str], ...]  #: names and Hive types, in the table's order
    time_zone: str | None = None  #: in which a timestamp with a zone becomes wall-clock time; None refuses those

    def conform(self, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """Returns ``rows`` with exactly the table's columns in their order, in the Arrow types of their Hive types;
        timestamps keep their unit.

        Raises:
            NotConforming: a column is unknown, is given twice, or holds what its type cannot.
            NotSupported: a column of the table has a type that is not written.
        """
        given = self._by_name(rows.column_names)
        arrays = []
        for name, text in self.columns:
            types = parse_hive_type(text)
            _must_be_writable(f"{self.table}: column {name}", text, types)
            if (place := given.get(name.lower())) is None:
                arrays.append(pa.chunked_array([pa.nulls(rows.num_rows, arrow_type(types))]))
            else:
                arrays.append(self._column(f"{self.table}: column {name}", rows.column(place), types))
        return pa.table(arrays, names=[name for name, _ in self.columns])

    def _by_name(self, names: Sequence[str]) -> dict[str, int]:
        lowered = [name.lower() for name in names]
        known = [name.lower() for name, _ in self.columns]
        if twice := [name for name, number in Counter(lowered).items() if number > 1]:
            raise NotConforming(f"{self.table}: column {twice[0]} is given twice; names are the same in any case")
        if unknown := [name for name in names if name.lower() not in known]:
            raise NotConforming(f"{self.table}: has no column {unknown[0]!r}; its columns are {', '.join(known)}")
        return {name: place for place, name in enumerate(lowered)}

    def _column(self, path: str, column: Array, types: Types) -> pa.ChunkedArray:
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        made = [_Conforming(types, self.time_zone).made(path, chunk, 0) for chunk in chunks]
        return pa.chunked_array(made, made[0].type if made else arrow_type(types))


def _must_be_writable(path: str, text: str, types: Types) -> None:
    for item in types:
        if item.kind is TypeKind.UNION:
            raise NotSupported(f"{path} is a {text}; unions are not written")
        if item.kind is TypeKind.TIMESTAMP_INSTANT:
            raise NotSupported(f"{path} is a {text}; Hive itself does not read that type in full ACID tables")


@dataclass(frozen=True, slots=True)
class _Conforming:
    """One column's types, and how an array is made one of them."""

    types: Types
    time_zone: str | None

    def made(self, path: str, array: Array, at: int) -> Array:
        """Returns ``array`` as type ``at``; ``path`` names it in messages."""
        array = _plain(array)
        item = self.types[at]
        wanted = arrow_type(self.types, at)
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), wanted)
        if item.kind is TypeKind.LIST:
            return self._list(path, array, item.children[0])
        if item.kind is TypeKind.MAP:
            return self._map(path, array, item.children)
        if item.kind is TypeKind.STRUCT:
            return self._struct(path, array, item.field_names, item.children)
        if item.kind is TypeKind.TIMESTAMP and array.type.equals(PARTS):
            return _readable(path, _checked_parts(path, array))
        if not _is_one_of(array.type, _ACCEPTED[item.kind]):
            raise NotConforming(f"{path}: is given as {array.type}; wanted: {wanted}")
        if item.kind in (TypeKind.CHAR, TypeKind.VARCHAR):
            return _cut(path, array.cast(pa.string()), item.maximum_length, fills=item.kind is TypeKind.CHAR)
        if item.kind is TypeKind.TIMESTAMP:
            return _readable(path, self._wall_clock(path, array))
        made = _cast(path, array, wanted)
        return _shown_days(path, made) if item.kind is TypeKind.DATE else made

    def _wall_clock(self, path: str, array: Array) -> Array:
        if array.type.tz is None:
            return array
        if self.time_zone is None:
            raise NotConforming(
                f"{path}: is given with the time zone {array.type.tz}, and a timestamp of Hive has none; say in which zone "
                "its wall-clock time is meant (time_zone=…)"
            )
        return pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, self.time_zone)))

    def _list(self, path: str, array: Array, child: int) -> Array:
        if not _is_one_of(array.type, _LISTS):
            raise NotConforming(f"{path}: is given as {array.type}; wanted: a list")
        values = self.made(f"{path}.element", array.flatten(), child)
        return pa.ListArray.from_arrays(_offsets(array), values, mask=_mask(array))

    def _map(self, path: str, array: Array, children: Sequence[int]) -> Array:
        if not pa.types.is_map(array.type):
            raise NotConforming(f"{path}: is given as {array.type}; wanted: a map")
        pair = pa.struct([pa.field("key", array.type.key_type), pa.field("value", array.type.item_type)])
        pairs = array.cast(pa.list_(pair))
        keys, values = pairs.flatten().flatten()
        return pa.MapArray.from_arrays(
            _offsets(pairs),
            self.made(f"{path}.key", keys, children[0]),
            self.made(f"{path}.value", values, children[1]),
            mask=_mask(array),
        )

    def _struct(self, path: str, array: Array, names: Sequence[str], children: Sequence[int]) -> Array:
        if not pa.types.is_struct(array.type):
            raise NotConforming(f"{path}: is given as {array.type}; wanted: a struct of {', '.join(names)}")
        given = [field.name.lower() for field in array.type]
        if unknown := sorted(set(given).difference(name.lower() for name in names)):
            raise NotConforming(f"{path}: has no field {unknown[0]!r}; its fields are {', '.join(names)}")
        below = array.flatten()  # NULL wherever the struct is: what lies under a NULL is no value and need not fit
        fields = []
        for name, child in zip(names, children, strict=True):
            places = [place for place, other in enumerate(given) if other == name.lower()]
            if len(places) > 1:
                raise NotConforming(f"{path}: field {name} is given twice; names are the same in any case")
            inner = below[places[0]] if places else pa.nulls(len(array))
            fields.append(self.made(f"{path}.{name}", inner, child))
        return pa.StructArray.from_arrays(fields, names=list(names), mask=_mask(array))


def _checked_parts(path: str, array: Array) -> Array:
    """Returns timestamps as a scan with ``timestamps="parts"`` returns them.

    Raises:
        NotConforming: nanoseconds are below 0 or above 999,999,999, or a part is NULL.
    """
    seconds, nanos = array.flatten()
    known = pc.invert(pc.is_null(array))
    bad = pc.or_(pc.less(nanos, 0), pc.greater_equal(nanos, 10**9))
    bad = pc.or_(pc.fill_null(bad, True), pc.is_null(seconds))
    if pc.any(pc.and_(known, bad)).as_py():
        found = array.filter(pc.and_(known, bad))[0].as_py()
        raise NotConforming(f"{path}: {found}; wanted: seconds, and nanos from 0 to 999999999")
    return array


def _readable(path: str, array: Array) -> Array:
    """Returns timestamps that every reader shows as they are given.

    Raises:
        NotConforming: one is not of the years 1 to 9999, or has a fraction in the last second before 1970, which ORC's
            readers show a second later.
    """
    parts = encodable(array, PARTS)
    seconds, nanos = (pc.struct_field(parts, [place]) for place in range(2))
    beyond = pc.or_(pc.less(seconds, _FIRST_DAY * _DAY), pc.greater_equal(seconds, _END_DAY * _DAY))
    _refuse(path, seconds, beyond, "s", _WANTED_YEARS)
    days = pc.floor(pc.divide(seconds.cast(pa.float64()), float(_DAY))).cast(pa.int64())
    _refuse(path, seconds, _is_left_out(days), "s", _LEFT_OUT)
    hidden = pc.and_(pc.equal(seconds, -1), pc.greater(nanos, _LARGEST_HIDDEN))
    why = "readers of files would show this fraction a second later; wanted: none before 1970-01-01 00:00:00"
    _refuse(path, seconds, hidden, "s", why)
    return array


def _shown_days(path: str, array: Array) -> Array:
    """Returns days that every reader shows as they are given.

    Raises:
        NotConforming: one is not of the years 1 to 9999, or among the ten that Hive's calendar leaves out.
    """
    days = array.cast(pa.int32())
    _refuse(path, days, pc.or_(pc.less(days, _FIRST_DAY), pc.greater_equal(days, _END_DAY)), "D", _WANTED_YEARS)
    _refuse(path, days, _is_left_out(days), "D", _LEFT_OUT)
    return array


def _is_left_out(days: Array) -> Array:
    return pc.and_(pc.greater_equal(days, FIRST_GREGORIAN_DAY - 10), pc.less(days, FIRST_GREGORIAN_DAY))


def _refuse(path: str, numbers: Array, bad: Array, unit: Literal["D", "s"], why: str) -> None:
    if pc.any(bad).as_py():
        found = str(np.datetime64(numbers.filter(bad)[0].as_py(), unit)).replace("T", " ")
        raise NotConforming(f"{path}: {found}: {why}")


def _plain(array: Array) -> Array:
    """Returns an array that is encoded in some way as one of plain values."""
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_run_end_encoded(array.type):
        return pc.run_end_decode(array)
    if isinstance(array.type, pa.BaseExtensionType):
        return array.storage
    return array


def _cast(path: str, array: Array, wanted: ArrowType) -> Array:
    """Returns ``array`` as ``wanted``, each value being the same; a double becomes the nearest float.

    Raises:
        NotConforming: a value is out of range, or has more digits than the type.
    """
    if pa.types.is_decimal(wanted) and pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))  # all integers; Arrow goes by types alone where it casts them directly
    try:
        made = array.cast(wanted)
    except pa.ArrowInvalid as error:
        raise NotConforming(f"{path}: {error}; a {wanted} cannot hold it") from error
    if pa.types.is_float32(wanted) and pa.types.is_float64(array.type):
        lost = pc.and_(pc.is_inf(made), pc.is_finite(array))
        if pc.any(lost).as_py():
            value = array.filter(lost)[0].as_py()
            raise NotConforming(f"{path}: {value} is larger than any float")
    return made


def _cut(path: str, texts: Array, length: int, *, fills: bool) -> Array:
    """Returns texts of at most ``length`` characters, or of exactly as many, as Hive stores ``char``.

    Raises:
        NotConforming: one is no UTF-8.
    """
    try:
        cut = pc.utf8_slice_codeunits(texts, 0, length)
    except pa.ArrowInvalid as error:
        raise NotConforming(f"{path}: {error}; where it is cut is not known") from error
    return pc.utf8_rpad(cut, length, " ") if fills else cut


def _offsets(array: Array) -> Array:
    """Returns where each list of the flattened ``array`` begins, and the end of the last."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum_checked(lengths)])


def _mask(array: Array) -> Array:
    return pc.is_null(array)


def _is_one_of(kind: ArrowType, families: Sequence[Callable[[ArrowType], bool]]) -> bool:
    return any(is_one(kind) for is_one in families)


_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_WHOLE = (pa.types.is_integer,)
_FLOATING = (pa.types.is_integer, pa.types.is_floating)
#: Families of Arrow's types whose values may become one of Hive's; each single value is checked then.
_ACCEPTED: dict[TypeKind, Sequence[Callable[[ArrowType], bool]]] = {
    TypeKind.BOOLEAN: (pa.types.is_boolean,),
    TypeKind.BYTE: _WHOLE,
    TypeKind.SHORT: _WHOLE,
    TypeKind.INT: _WHOLE,
    TypeKind.LONG: _WHOLE,
    TypeKind.FLOAT: _FLOATING,
    TypeKind.DOUBLE: _FLOATING,
    TypeKind.DECIMAL: (pa.types.is_integer, pa.types.is_decimal),
    TypeKind.STRING: _TEXTS,
    TypeKind.VARCHAR: _TEXTS,
    TypeKind.CHAR: _TEXTS,
    TypeKind.BINARY: (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    ),
    TypeKind.DATE: (pa.types.is_date,),
    TypeKind.TIMESTAMP: (pa.types.is_timestamp,),
}
