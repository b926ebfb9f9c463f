"""From a filter's text to a condition on the columns of a table."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import NoReturn

import pyarrow as pa

from compactor.orc.codecs.arrow_types import ArrowType
from compactor.tables.filters import expressions as e
from compactor.tables.filters.conditions import (
    All,
    Any,
    Column,
    Compared,
    Condition,
    Constant,
    Kind,
    Matches,
    Missing,
    Not,
    OneOf,
    Pair,
    Settled,
    Value,
)
from compactor.tables.time_texts import seconds_and_nanos

_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_EXACT = Context(prec=500)
_LARGEST_EXPONENT, _MOST_DIGITS = 320, 100  #: of a number
_WANTED = {
    Kind.BOOLEAN: "TRUE or FALSE",
    Kind.NUMBER: "a number without quotes",
    Kind.FLOAT: "a number without quotes",
    Kind.TEXT: "a text in quotes",
    Kind.CHAR: "a text in quotes",
    Kind.DATE: "a date in quotes",
    Kind.TIMESTAMP: "a timestamp in quotes",
    Kind.OTHER: "IS NULL or IS NOT NULL",
}
_TIMES = range(-(2**63), 2**63)


def bind(text: str, schema: pa.Schema, chars: Sequence[str] = (), parts: Sequence[str] = ()) -> Condition:
    """Returns the condition that ``text`` is on columns of ``schema``.

    Args:
        chars: names of the columns of type char.
        parts: names of timestamps that are structs of seconds and nanoseconds.

    Raises:
        BadExpression: ``text`` is not of the grammar, names an unknown column, or compares what cannot be compared.
    """
    columns = {
        field.name.lower(): Column(name=field.name, kind=_kind(field.type, field.name in chars), type=field.type)
        for field in schema
    }
    columns |= {name.lower(): replace(columns[name.lower()], kind=Kind.TIMESTAMP) for name in parts}
    return _Binder(text=text, columns=columns).condition(e.parse(text))


def _kind(kind: ArrowType, is_char: bool) -> Kind:
    if pa.types.is_string(kind):
        return Kind.CHAR if is_char else Kind.TEXT
    known = (
        (pa.types.is_boolean, Kind.BOOLEAN),
        (pa.types.is_floating, Kind.FLOAT),
        (pa.types.is_integer, Kind.NUMBER),
        (pa.types.is_decimal, Kind.NUMBER),
        (pa.types.is_date, Kind.DATE),
        (pa.types.is_timestamp, Kind.TIMESTAMP),
    )
    return next((found for check, found in known if check(kind)), Kind.OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Binder:
    text: str
    columns: Mapping[str, Column]

    def condition(self, found: e.Expression) -> Condition:
        match found:
            case e.And(parts=parts):
                return All(parts=tuple(map(self.condition, parts)))
            case e.Or(parts=parts):
                return Any(parts=tuple(map(self.condition, parts)))
            case e.Not(part=part):
                return Not(part=self.condition(part))
            case e.IsNull(operand=operand):
                if isinstance(operand, e.Literal):
                    return Constant(value=operand.value is None)
                return Missing(column=self._column(operand))
            case e.Truth(operand=operand):
                return self._truth(operand)
            case e.Comparison():
                return self._comparison(found)
            case e.In():
                return self._in(found)
        return self._like(found)

    def _truth(self, operand: e.Operand) -> Condition:
        if isinstance(operand, e.Literal):
            if operand.value is not None and not isinstance(operand.value, bool):
                self._fail(operand.place, "a condition was wanted, such as a comparison")
            return Constant(value=operand.value)
        column = self._column(operand)
        if column.kind is not Kind.BOOLEAN:
            self._fail(operand.place, f"column {column.name} is no boolean, so it is no condition by itself")
        return Compared(column=column, operator="=", value=True)

    def _comparison(self, found: e.Comparison) -> Condition:
        left, right, operator = found.left, found.right, found.operator
        if isinstance(left, e.Name) and isinstance(right, e.Name):
            return self._pair(self._column(left), operator, self._column(right), found.place)
        if isinstance(left, e.Literal):
            left, right, operator = right, left, _FLIPPED[operator]
        if not isinstance(left, e.Name) or not isinstance(right, e.Literal):
            self._fail(found.place, "two literals are compared; a column was wanted")
        column = self._column(left)
        if right.value is None:
            return Constant(value=None)
        return self._test(column, operator, right)

    def _pair(self, left: Column, operator: str, right: Column, place: int) -> Condition:
        kinds = {left.kind, right.kind}
        alike = len(kinds) == 1 or kinds in ({Kind.NUMBER, Kind.FLOAT}, {Kind.TEXT, Kind.CHAR})
        if Kind.OTHER in kinds or not alike:
            self._fail(place, f"{left.name} ({left.type}) and {right.name} ({right.type}) cannot be compared")
        return Pair(left=left, operator=operator, right=right)

    def _in(self, found: e.In) -> Condition:
        if isinstance(found.operand, e.Literal):
            self._fail(found.place, "a column was wanted before IN")
        column = self._column(found.operand)
        tests = [self._test(column, "=", one) for one in found.values if one.value is not None]
        values: Iterable[Value] = dict.fromkeys(test.value for test in tests if isinstance(test, Compared))
        if column.kind is not Kind.FLOAT:  # NaN has no place in an order
            values = sorted(values)
        return OneOf(column=column, values=tuple(values), or_null=len(tests) < len(found.values))

    def _like(self, found: e.Like) -> Condition:
        if isinstance(found.operand, e.Literal):
            self._fail(found.place, "a column was wanted before LIKE")
        column = self._column(found.operand)
        if column.kind not in (Kind.TEXT, Kind.CHAR):
            self._fail(found.place, f"LIKE is for text, {column.name} is {column.type}")
        return Matches(column=column, pattern=found.pattern)

    def _test(self, column: Column, operator: str, literal: e.Literal) -> Compared | Settled:
        value = self._value(column, literal)
        step = _step(column)
        if step is None or not isinstance(value, (int, Decimal)) or isinstance(value, bool):
            return Compared(column=column, operator=operator, value=value)
        low, high = _bounds(column)
        if not low <= value <= high:
            is_greater = value > high
            return Settled(column=column, value=operator == "!=" or (operator[0] == ("<" if is_greater else ">")))
        whole = _EXACT.multiply(_EXACT.divide(Decimal(value), step).to_integral_value(ROUND_FLOOR), step)
        if whole != value:  # between two values of the type
            if operator in ("=", "!="):
                return Settled(column=column, value=operator == "!=")
            operator = "<=" if operator[0] == "<" else ">"
            if whole < low:
                return Settled(column=column, value=operator == ">")
        fitting = int(whole) if step >= 1 else whole.quantize(step, context=_EXACT)
        return Compared(column=column, operator=operator, value=fitting)

    def _value(self, column: Column, literal: e.Literal) -> Value:
        found = literal.value
        match column.kind:
            case Kind.BOOLEAN if isinstance(found, bool):
                return found
            case Kind.NUMBER | Kind.FLOAT if isinstance(found, Decimal):
                if found and (abs(found.adjusted()) > _LARGEST_EXPONENT or len(found.as_tuple().digits) > _MOST_DIGITS):
                    self._fail(literal.place, "the number is too large, too small or too long")
                return found if column.kind is Kind.NUMBER else _floating(column, found)
            case Kind.TEXT if isinstance(found, str) and not literal.word:
                return found.encode()
            case Kind.CHAR if isinstance(found, str) and not literal.word:
                return found.rstrip(" ").encode()
            case Kind.DATE if isinstance(found, str) and literal.word != "TIMESTAMP":
                return self._timestamp(literal, found, is_date=True) // (86_400 * 10**9)
            case Kind.TIMESTAMP if isinstance(found, str):
                return self._timestamp(literal, found, is_date=False)
        raise e.bad(
            self.text, literal.place, f"column {column.name} is {column.type}, {_WANTED[column.kind]} was wanted"
        )

    def _timestamp(self, literal: e.Literal, text: str, *, is_date: bool) -> int:
        """Returns nanoseconds since 1970, by the wall clock."""
        try:
            seconds, nanos = seconds_and_nanos(text, is_date=is_date)
        except ValueError as error:
            self._fail(literal.place, f"{text!r} is no {'date' if is_date else 'timestamp'}: {error}")
        return seconds * 10**9 + nanos

    def _column(self, name: e.Name) -> Column:
        found = self.columns.get(name.name)
        if found is None:
            self._fail(name.place, f"there is no column {name.name!r}; there are {', '.join(self.columns)}")
        return found

    def _fail(self, place: int, what: str) -> NoReturn:
        raise e.bad(self.text, place, what)


def _floating(column: Column, number: Decimal) -> float:
    """Returns a literal that is compared with floating-point values; as Hive does it, with floats as the nearest float."""
    found = float(number)
    if not pa.types.is_float32(column.type):
        return found
    try:
        [nearest] = struct.unpack("f", struct.pack("f", found))
    except OverflowError:  # it is larger than any float
        return found
    return float(nearest)


def _step(column: Column) -> Decimal | None:
    """Returns the distance between neighbouring values of an exact type; None for other types."""
    if column.kind is Kind.TIMESTAMP:
        return Decimal(1000 if column.type == pa.timestamp("us", getattr(column.type, "tz", None)) else 1)
    if column.kind is not Kind.NUMBER:
        return None
    return Decimal(1).scaleb(-column.type.scale) if pa.types.is_decimal(column.type) else Decimal(1)


def _bounds(column: Column) -> tuple[Decimal | int, Decimal | int]:
    """Returns the smallest and the largest value of an exact type."""
    if column.kind is Kind.TIMESTAMP:
        factor = 10**9 if pa.types.is_struct(column.type) else 1 if column.type.unit == "ns" else 1000
        return _TIMES[0] * factor, _TIMES[-1] * factor
    if pa.types.is_decimal(column.type):
        largest = _EXACT.subtract(Decimal(10) ** column.type.precision, Decimal(1)).scaleb(-column.type.scale)
        return -largest, largest
    bits = _INTEGERS[column.type]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
