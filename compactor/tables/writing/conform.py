"""Fits rows of a program to a table's types, or refuses them by column and value.

Columns, and fields of structs at any depth, are matched by name in any case. A missing column is NULL; a struct must have
all fields of its type and no others. A value is only changed as Hive's INSERT does it: a text is cut to the length of its
``varchar`` or ``char``, a ``char`` is padded with blanks, and a double is rounded to the nearest float. Numbers out of range
and decimals with too many digits, which Hive makes NULL or rounds, are refused by column path, row and value.

The values of an assignment in SQL may also be of other types if they equal a value of the column: ``'12'`` and ``12.0`` fit
an ``int``, ``12.5`` and ``'much'`` do not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import NotConforming, NotSupported
from compactor.orc.codecs.arrow_types import arrow_type
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import FIRST_GREGORIAN_DAY
from compactor.orc.format.types import TypeKind, Types
from compactor.tables.filters.expressions import seconds_and_nanos
from compactor.tables.schema import PARTS
from compactor.tables.time_forms import to_encodable

#: Arrow arrays and types have many classes, which can only be distinguished at run time.
Array: TypeAlias = Any
ArrowType: TypeAlias = Any
Numbers: TypeAlias = npt.NDArray[np.int64]

_DAY = 86_400  #: seconds
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MOST_DIGITS = 100  #: of a number before or after its point; no Hive type has as many
_FIRST_DAY, _END_DAY = -719_162, 2_932_897  #: the first days of the years 1 and 10000
_EXPECTED_YEARS = "expected: a year from 1 to 9999"
_LEFT_OUT = "Hive's calendar goes from 1582-10-04 to 1582-10-15"
_LARGEST_HIDDEN = 999_999  #: nanoseconds in the last second before 1970 that all readers show correctly


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The door of a table, through which rows enter: its columns, and the time zone of timestamps."""

    table: str  #: for messages
    columns: tuple[tuple[str, str], ...]  #: names and Hive types, in the table's order
    time_zone: str | None = (
        None  #: the zone in which a timestamp with a zone becomes wall-clock time; None refuses them
    )
    is_assignment: bool = False  #: an assignment in SQL: values of other types are converted
    is_gregorian: bool = False  #: files hold all days, as for Hive 3.1; otherwise ten days of 1582 are refused

    def conform(self, rows: pa.Table | pa.RecordBatch, name_row: Callable[[int], str] | None = None) -> pa.Table:
        """Returns ``rows`` with exactly the table's columns, in order and in their Arrow types.

        Timestamps keep their unit, but those with a zone are returned in parts.

        Args:
            name_row: returns how messages name the row with this number; by default by the number.

        Raises:
            NotConforming: a column is unknown or given twice, or has a value that its type cannot hold.
            NotSupported: we do not write such a column of the table.
        """
        places = self._by_name(rows.column_names)
        arrays = []
        for name, text in self.columns:
            types = parse_hive_type(text)
            _must_be_writable(f"{self.table}: column {name}", text, types)
            if (place := places.get(name.lower())) is None:
                arrays.append(pa.chunked_array([pa.nulls(rows.num_rows, arrow_type(types))]))
            else:
                path = Path(text=f"{self.table}: column {name}", name_row=name_row or _numbered)
                arrays.append(self._column(path, rows.column(place), types))
        return pa.table(arrays, names=[name for name, _ in self.columns])

    def _by_name(self, names: Sequence[str]) -> dict[str, int]:
        lowered = [name.lower() for name in names]
        known = [name.lower() for name, _ in self.columns]
        if twice := [name for name, number in Counter(lowered).items() if number > 1]:
            raise NotConforming(f"{self.table}: column {twice[0]} is given twice; names are the same in any case")
        if unknown := [name for name in names if name.lower() not in known]:
            raise NotConforming(f"{self.table}: has no column {unknown[0]!r}; its columns are {', '.join(known)}")
        return {name: place for place, name in enumerate(lowered)}

    def _column(self, path: Path, column: Array, types: Types) -> pa.ChunkedArray:
        conforming = _Conforming(types, self.time_zone, self.is_assignment, self.is_gregorian)
        arrays, start = [], 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            arrays.append(conforming.convert(path.from_row(start), chunk, 0))
            start += len(chunk)
        return pa.chunked_array(arrays, arrays[0].type if arrays else arrow_type(types))


def _must_be_writable(path: str, text: str, types: Types) -> None:
    for item in types:
        if item.kind is TypeKind.UNION:
            raise NotSupported(f"{path} is a {text}; we do not write unions")
        if item.kind is TypeKind.TIMESTAMP_INSTANT:
            raise NotSupported(f"{path} is a {text}; Hive itself cannot read that type in full ACID tables")


def _numbered(row: int) -> str:
    return f"row {row}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The values of a column, or of a part of it, and how messages name them: by path and row."""

    text: str
    name_row: Callable[[int], str]
    row_of: Callable[[int], int] = lambda at: at  #: returns the row of a value from the value's number

    def __str__(self) -> str:
        return self.text

    def from_row(self, start: int) -> Path:
        """Returns the path of values that begin in row ``start``."""
        return replace(self, row_of=lambda at: start + at)

    def field(self, name: str) -> Path:
        """Returns the path of the values of a field, one for each value."""
        return replace(self, text=f"{self.text}.{name}")

    def items(self, name: str, offsets: Array) -> Path:
        """Returns the path of the values within lists or maps that begin at ``offsets``."""
        ends = np.asarray(offsets)[1:]
        return replace(
            self,
            text=f"{self.text}.{name}",
            row_of=lambda at: self.row_of(int(np.searchsorted(ends, at, side="right"))),
        )

    def refuse(self, at: int, value: object, why: str) -> NoReturn:
        """Refuses value number ``at``.

        Raises:
            NotConforming: always.
        """
        raise NotConforming(f"{self.text}: {self.name_row(self.row_of(at))}: {value}: {why}")


@dataclass(frozen=True, slots=True)
class _Conforming:
    """The types of one column; converts arrays to them."""

    types: Types
    time_zone: str | None
    is_assignment: bool
    is_gregorian: bool

    def convert(self, path: Path, array: Array, at: int) -> Array:
        """Converts ``array`` to type ``at``; ``path`` names it in messages."""
        array = _plain(array)
        item = self.types[at]
        kind = arrow_type(self.types, at)
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), kind)
        if item.kind is TypeKind.LIST:
            return self._list(path, array, item.children[0])
        if item.kind is TypeKind.MAP:
            return self._map(path, array, item.children)
        if item.kind is TypeKind.STRUCT:
            return self._struct(path, array, item.field_names, item.children)
        if self.is_assignment and not _is_one_of(array.type, _ACCEPTED[item.kind]):
            array = convert_assigned(path, array, item.kind, kind)
        if item.kind is TypeKind.TIMESTAMP and array.type.equals(PARTS):
            return _check_timestamps(path, _check_parts(path, array), self.is_gregorian)
        if not _is_one_of(array.type, _ACCEPTED[item.kind]):
            raise NotConforming(f"{path}: is given as {array.type}; expected: {kind}")
        if item.kind in (TypeKind.CHAR, TypeKind.VARCHAR):
            return _cut(path, array.cast(pa.string()), item.maximum_length, fills=item.kind is TypeKind.CHAR)
        if item.kind is TypeKind.TIMESTAMP:
            return _check_timestamps(path, self._wall_clock(path, array), self.is_gregorian)
        converted = _cast(path, array, kind)
        return _check_days(path, converted, self.is_gregorian) if item.kind is TypeKind.DATE else converted

    def _wall_clock(self, path: Path, array: Array) -> Array:
        if array.type.tz is None:
            return array
        if self.time_zone is None:
            raise NotConforming(
                f"{path}: is given with the time zone {array.type.tz}, but timestamps of Hive have no zone; say in which "
                "zone its wall-clock time is meant (time_zone=…)"
            )
        parts = to_encodable(array, PARTS)  # the zone's offset could carry nanoseconds beyond their range
        seconds, nanos = (pc.struct_field(parts, [place]) for place in range(2))
        try:
            local = pc.local_timestamp(seconds.cast(pa.timestamp("s", self.time_zone)))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise NotConforming(
                f"{path}: time_zone={self.time_zone!r}: {error}; expected: a name such as 'Europe/Berlin'"
            ) from error
        return pa.StructArray.from_arrays([local.cast(pa.int64()), nanos], fields=list(PARTS), mask=_mask(array))

    def _list(self, path: Path, array: Array, child: int) -> Array:
        if not _is_one_of(array.type, _LISTS):
            raise NotConforming(f"{path}: is given as {array.type}; expected: a list")
        offsets = _offsets(array)
        values = self.convert(path.items("element", offsets), array.flatten(), child)
        return pa.ListArray.from_arrays(offsets, values, mask=_mask(array))

    def _map(self, path: Path, array: Array, children: Sequence[int]) -> Array:
        if not pa.types.is_map(array.type):
            raise NotConforming(f"{path}: is given as {array.type}; expected: a map")
        pair = pa.struct([pa.field("key", array.type.key_type), pa.field("value", array.type.item_type)])
        pairs = array.cast(pa.list_(pair))
        keys, values = pairs.flatten().flatten()
        offsets = _offsets(pairs)
        converted = self.convert(path.items("key", offsets), keys, children[0])
        if self.types[children[0]].kind in (TypeKind.CHAR, TypeKind.VARCHAR):
            _check_keys(path.items("key", offsets), _plain(keys).cast(pa.string()), converted, np.asarray(offsets))
        return pa.MapArray.from_arrays(
            offsets,
            converted,
            self.convert(path.items("value", offsets), values, children[1]),
            mask=_mask(array),
        )

    def _struct(self, path: Path, array: Array, names: Sequence[str], children: Sequence[int]) -> Array:
        if not pa.types.is_struct(array.type):
            raise NotConforming(f"{path}: is given as {array.type}; expected: a struct of {', '.join(names)}")
        field_names = [field.name.lower() for field in array.type]
        if unknown := sorted(set(field_names).difference(name.lower() for name in names)):
            raise NotConforming(f"{path}: has no field {unknown[0]!r}; its fields are {', '.join(names)}")
        # Arrow would end the process when it flattens a union below a NULL
        if unions := [field for field in array.type if pa.types.is_union(field.type)]:
            raise NotConforming(f"{path}.{unions[0].name}: is given as {unions[0].type}; we do not write unions")
        below = array.flatten()  # makes fields of a NULL struct NULL, so that hidden values need not fit
        fields = []
        for name, child in zip(names, children, strict=True):
            places = [place for place, other in enumerate(field_names) if other == name.lower()]
            if len(places) > 1:
                raise NotConforming(f"{path}: field {name} is given twice; names are the same in any case")
            if not places:
                raise NotConforming(f"{path}.{name}: is missing; its struct has the fields {', '.join(field_names)}")
            fields.append(self.convert(path.field(name), below[places[0]], child))
        return pa.StructArray.from_arrays(fields, names=list(names), mask=_mask(array))


def _check_keys(path: Path, given: Array, cut: Array, offsets: Numbers) -> None:
    """Checks that different keys of one map still differ once they are cut.

    Readers show one of several equal keys.

    Raises:
        NotConforming: two of them do not.
    """
    maps = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    before, after = (np.asarray(keys.dictionary_encode().indices.fill_null(-1)) for keys in (given, cut))
    order = np.lexsort((before, after, maps))
    is_same_map, is_same_key, was_same_key = (codes[order][1:] == codes[order][:-1] for codes in (maps, after, before))
    lost = order[1:][is_same_map & is_same_key & ~was_same_key]
    if len(lost):
        at = int(lost.min())
        path.refuse(at, repr(given[at].as_py()), f"another key of the map is {cut[at].as_py()!r}, too, once it is cut")


def _check_parts(path: Path, array: Array) -> Array:
    """Checks timestamps in the form of a scan with ``timestamps="parts"``, and returns them.

    Raises:
        NotConforming: nanoseconds are below 0 or above 999,999,999, or a part is NULL.
    """
    seconds, nanos = array.flatten()
    known = pc.invert(pc.is_null(array))
    bad = pc.or_(pc.less(nanos, 0), pc.greater_equal(nanos, 10**9))
    bad = pc.or_(pc.fill_null(bad, True), pc.is_null(seconds))
    if (at := pc.index(pc.and_(known, bad), True).as_py()) >= 0:
        path.refuse(at, array[at].as_py(), "expected: seconds, and nanos from 0 to 999999999")
    return array


def _check_timestamps(path: Path, array: Array, is_gregorian: bool) -> Array:
    """Checks that all readers will show these timestamps correctly, and returns them.

    Raises:
        NotConforming: a timestamp is not in the years 1 to 9999, is on one of the ten days that Hive's calendar leaves
            out, or has a fraction in the last second before 1970, which ORC readers would show a second later.
    """
    parts = to_encodable(array, PARTS)
    seconds, nanos = (pc.struct_field(parts, [place]) for place in range(2))
    beyond = pc.or_(pc.less(seconds, _FIRST_DAY * _DAY), pc.greater_equal(seconds, _END_DAY * _DAY))
    _refuse(path, seconds, beyond, "s", _EXPECTED_YEARS)
    if not is_gregorian:
        days = pc.floor(pc.divide(seconds.cast(pa.float64()), float(_DAY))).cast(pa.int64())
        _refuse(path, seconds, _is_left_out(days), "s", _LEFT_OUT)
    hidden = pc.and_(pc.equal(seconds, -1), pc.greater(nanos, _LARGEST_HIDDEN))
    why = "readers of files would show this fraction a second later; expected: none before 1970-01-01 00:00:00"
    _refuse(path, seconds, hidden, "s", why)
    return array


def _check_days(path: Path, array: Array, is_gregorian: bool) -> Array:
    """Checks that all readers will show these days correctly, and returns them.

    Raises:
        NotConforming: a day is not in the years 1 to 9999, or is one of the ten that Hive's calendar leaves out.
    """
    days = array.cast(pa.int32())
    _refuse(path, days, pc.or_(pc.less(days, _FIRST_DAY), pc.greater_equal(days, _END_DAY)), "D", _EXPECTED_YEARS)
    if not is_gregorian:
        _refuse(path, days, _is_left_out(days), "D", _LEFT_OUT)
    return array


def _is_left_out(days: Array) -> Array:
    return pc.and_(pc.greater_equal(days, FIRST_GREGORIAN_DAY - 10), pc.less(days, FIRST_GREGORIAN_DAY))


def _refuse(path: Path, numbers: Array, bad: Array, unit: Literal["D", "s"], why: str) -> None:
    if (at := pc.index(bad, True).as_py()) >= 0:
        path.refuse(at, str(np.datetime64(numbers[at].as_py(), unit)).replace("T", " "), why)


def _plain(array: Array) -> Array:
    """Decodes an encoded array (dictionary, runs, extension) to plain values."""
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_run_end_encoded(array.type):
        return pc.run_end_decode(array)
    if isinstance(array.type, pa.BaseExtensionType):
        return array.storage
    return array


def _cast(path: Path, array: Array, kind: ArrowType) -> Array:
    """Converts ``array`` to ``kind`` without changing a value.

    Only doubles are rounded to the nearest float.

    Raises:
        NotConforming: a value is out of range, or has too many digits.
    """
    if pa.types.is_decimal(kind) and pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))  # holds all integers; a direct cast would be refused by type alone
    if not _is_castable(array, kind):
        at = _first(lambda some: not _is_castable(some, kind), array)
        path.refuse(at, array[at].as_py(), f"a {kind} cannot hold it")
    converted = array.cast(kind)
    if pa.types.is_float32(kind) and pa.types.is_float64(array.type):
        lost = pc.and_(pc.is_inf(converted), pc.is_finite(array))
        if (at := pc.index(lost, True).as_py()) >= 0:
            path.refuse(at, array[at].as_py(), "it is larger than any float")
    return converted


def _is_castable(array: Array, kind: ArrowType) -> bool:
    try:
        cast = array.cast(kind)
        # Arrow drops the upper bits of a decimal that exceeds 128 bits, and the remaining value may fit.
        return not pa.types.is_decimal(kind) or bool(cast.cast(array.type).equals(array))
    except pa.ArrowInvalid:
        return False


def _first(is_bad: Callable[[Array], bool], array: Array) -> int:
    """Returns the number of the first bad value of ``array``, by bisection; ``array`` as a whole is bad."""
    start, count = 0, len(array)
    while count > 1:
        half = count // 2
        if is_bad(array.slice(start, half)):
            count = half
        else:
            start, count = start + half, count - half
    return start


def convert_assigned(path: Path, array: Array, kind: TypeKind, target: ArrowType) -> Array:
    """Converts the values of an assignment in SQL to a type that the column accepts.

    Raises:
        NotConforming: a value equals no value of the column's type.
    """
    if pa.types.is_date(array.type) and kind is TypeKind.TIMESTAMP:
        return array.cast(pa.date32()).cast(pa.timestamp("s"))
    if not any(of_type(array.type) for of_type in _CONVERTED.get(kind, ())):
        return array
    encoded = array.dictionary_encode()
    values = []
    for number, value in enumerate(encoded.dictionary.to_pylist()):
        try:
            values.append(_CONVERSIONS[kind](value))
        except (ValueError, ArithmeticError, UnicodeError):
            path.refuse(pc.index(encoded.indices, number).as_py(), repr(value), f"it is not a value of type {target}")
    try:
        converted = pa.array(values, _HELD_AS.get(kind))
    except (pa.ArrowInvalid, OverflowError):
        at = next(at for at, value in enumerate(values) if not _can_hold(value, _HELD_AS.get(kind)))
        path.refuse(pc.index(encoded.indices, at).as_py(), repr(values[at]), f"a {target} cannot hold it")
    return converted.take(encoded.indices)


def _can_hold(value: object, kind: ArrowType | None) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def _number(value: object) -> Decimal:
    """Parses a number, or the text of one, exactly.

    A double counts as the shortest decimal that rounds to it.
    """
    text = value.strip() if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value)
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    number = Decimal(text)
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        raise ValueError(text)
    return number


def _whole(value: object) -> int:
    number = _number(value)
    if number != number.to_integral_value():
        raise ValueError(value)
    return int(number)


def _boolean(value: str) -> bool:
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise ValueError(value)
    return text == "true"


def _double(value: object) -> float:
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        raise ValueError(value)
    number = float(value)  # type: ignore[arg-type]  # a text or a number
    if math.isinf(number) and "inf" not in str(value).lower():  # larger than any double
        raise ValueError(value)
    return number


def _day(value: str) -> date:
    seconds, _ = seconds_and_nanos(value, is_date=True)
    return date.fromordinal(seconds // _DAY + _EPOCH_DAY)


def _moment(value: str) -> dict[str, int]:
    seconds, nanos = seconds_and_nanos(value)
    return {"seconds": seconds, "nanos": nanos}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:f}" if isinstance(value, Decimal) else str(value)


def _cut(path: Path, texts: Array, length: int, *, fills: bool) -> Array:
    """Cuts texts to ``length`` characters; with ``fills`` also pads them, as Hive stores ``char``.

    Raises:
        NotConforming: a text is not valid UTF-8.
    """
    try:
        cut = pc.utf8_slice_codeunits(texts, 0, length)
    except pa.ArrowInvalid as error:
        raise NotConforming(f"{path}: {error}; it cannot be cut to its length") from error
    return pc.utf8_rpad(cut, length, " ") if fills else cut


def _offsets(array: Array) -> Array:
    """Returns where each list of the flattened ``array`` begins, and where the last one ends."""
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
#: Families of Arrow types that may become a Hive type; each value is checked then.
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
_OF_NUMBERS = (*_TEXTS, pa.types.is_floating, pa.types.is_decimal)
_WHOLE_KINDS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG)
_TEXT_KINDS = (TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR)
#: Families of Arrow types that an assignment in SQL converts in addition.
_CONVERTED: dict[TypeKind, Sequence[Callable[[ArrowType], bool]]] = {
    **dict.fromkeys(_WHOLE_KINDS, _OF_NUMBERS),
    **dict.fromkeys((TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL), _OF_NUMBERS),
    **dict.fromkeys(_TEXT_KINDS, (pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_date)),
    **dict.fromkeys((TypeKind.BOOLEAN, TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.BINARY), _TEXTS),
}
_CONVERSIONS: dict[TypeKind, Callable[[Any], object]] = {
    **dict.fromkeys(_WHOLE_KINDS, _whole),
    **dict.fromkeys((TypeKind.FLOAT, TypeKind.DOUBLE), _double),
    **dict.fromkeys(_TEXT_KINDS, _text),
    TypeKind.DECIMAL: _number,
    TypeKind.BOOLEAN: _boolean,
    TypeKind.DATE: _day,
    TypeKind.TIMESTAMP: _moment,
    TypeKind.BINARY: str.encode,
}
#: Arrow types of converted values; other types follow from the values.
_HELD_AS: dict[TypeKind, ArrowType] = {
    **dict.fromkeys(_WHOLE_KINDS, pa.int64()),
    **dict.fromkeys((TypeKind.FLOAT, TypeKind.DOUBLE), pa.float64()),
    **dict.fromkeys(_TEXT_KINDS, pa.string()),
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIMESTAMP: PARTS,
    TypeKind.BINARY: pa.binary(),
}
