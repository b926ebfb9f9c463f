"""Turns a filter's text into a condition on the columns of a table."""

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
    Compared,
    Condition,
    Constant,
    FilterColumn,
    Matches,
    Missing,
    Negation,
    OneOf,
    Pair,
    Settled,
    Value,
    ValueKind,
)
from compactor.tables.filters.expressions import seconds_and_nanos

_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_EXACT = Context(prec=500)
_LARGEST_EXPONENT, _MOST_DIGITS = 320, 100  #: limits of a number in a filter
_EXPECTED = {
    ValueKind.BOOLEAN: "TRUE or FALSE",
    ValueKind.NUMBER: "a number without quotes",
    ValueKind.FLOAT: "a number without quotes",
    ValueKind.TEXT: "a text in quotes",
    ValueKind.CHAR: "a text in quotes",
    ValueKind.DATE: "a date in quotes",
    ValueKind.TIMESTAMP: "a timestamp in quotes",
    ValueKind.OTHER: "IS NULL or IS NOT NULL",
}
_TIMES = range(-(2**63), 2**63)


def bind(text: str, schema: pa.Schema, chars: Sequence[str] = (), parts: Sequence[str] = ()) -> Condition:
    """Parses ``text`` and binds its names and literals to columns of ``schema``.

    Args:
        chars: names of the columns of type char.
        parts: names of timestamps that are structs of seconds and nanoseconds.

    Raises:
        BadExpression: ``text`` does not follow the grammar, names an unknown column, or compares incomparable values.
    """
    columns = {
        field.name.lower(): FilterColumn(name=field.name, kind=_kind(field.type, field.name in chars), type=field.type)
        for field in schema
    }
    columns |= {name.lower(): replace(columns[name.lower()], kind=ValueKind.TIMESTAMP) for name in parts}
    return _Binder(text=text, columns=columns).condition(e.parse(text))


def _kind(kind: ArrowType, is_char: bool) -> ValueKind:
    if pa.types.is_string(kind):
        return ValueKind.CHAR if is_char else ValueKind.TEXT
    known = (
        (pa.types.is_boolean, ValueKind.BOOLEAN),
        (pa.types.is_floating, ValueKind.FLOAT),
        (pa.types.is_integer, ValueKind.NUMBER),
        (pa.types.is_decimal, ValueKind.NUMBER),
        (pa.types.is_date, ValueKind.DATE),
        (pa.types.is_timestamp, ValueKind.TIMESTAMP),
    )
    return next((result for is_type, result in known if is_type(kind)), ValueKind.OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Binder:
    text: str
    columns: Mapping[str, FilterColumn]

    def condition(self, expression: e.Expression) -> Condition:
        match expression:
            case e.And(parts=parts):
                return All(parts=tuple(map(self.condition, parts)))
            case e.Or(parts=parts):
                return Any(parts=tuple(map(self.condition, parts)))
            case e.Not(part=part):
                return Negation(part=self.condition(part))
            case e.IsNull(operand=operand):
                if isinstance(operand, e.Literal):
                    return Constant(value=operand.value is None)
                return Missing(column=self._column(operand))
            case e.Truth(operand=operand):
                return self._truth(operand)
            case e.Comparison():
                return self._comparison(expression)
            case e.In():
                return self._in(expression)
        return self._like(expression)

    def _truth(self, operand: e.Operand) -> Condition:
        if isinstance(operand, e.Literal):
            if operand.value is not None and not isinstance(operand.value, bool):
                self._fail(operand.place, "a condition was expected, such as a comparison")
            return Constant(value=operand.value)
        column = self._column(operand)
        if column.kind is not ValueKind.BOOLEAN:
            self._fail(operand.place, f"column {column.name} is not a boolean, so it cannot be a condition")
        return Compared(column=column, operator="=", value=True)

    def _comparison(self, comparison: e.Comparison) -> Condition:
        left, right, operator = comparison.left, comparison.right, comparison.operator
        if isinstance(left, e.ColumnName) and isinstance(right, e.ColumnName):
            return self._pair(self._column(left), operator, self._column(right), comparison.place)
        if isinstance(left, e.Literal):
            left, right, operator = right, left, _FLIPPED[operator]
        if not isinstance(left, e.ColumnName) or not isinstance(right, e.Literal):
            self._fail(comparison.place, "two literals are compared; a column was expected")
        column = self._column(left)
        if right.value is None:
            return Constant(value=None)
        return self._test(column, operator, right)

    def _pair(self, left: FilterColumn, operator: str, right: FilterColumn, place: int) -> Condition:
        kinds = {left.kind, right.kind}
        alike = len(kinds) == 1 or kinds in ({ValueKind.NUMBER, ValueKind.FLOAT}, {ValueKind.TEXT, ValueKind.CHAR})
        if ValueKind.OTHER in kinds or not alike:
            self._fail(place, f"{left.name} ({left.type}) and {right.name} ({right.type}) cannot be compared")
        return Pair(left=left, operator=operator, right=right)

    def _in(self, expression: e.In) -> Condition:
        if isinstance(expression.operand, e.Literal):
            self._fail(expression.place, "a column was expected before IN")
        column = self._column(expression.operand)
        tests = [self._test(column, "=", literal) for literal in expression.values if literal.value is not None]
        values: Iterable[Value] = dict.fromkeys(test.value for test in tests if isinstance(test, Compared))
        if column.kind is not ValueKind.FLOAT:  # NaN has no place in an order
            values = sorted(values)
        return OneOf(column=column, values=tuple(values), or_null=len(tests) < len(expression.values))

    def _like(self, expression: e.Like) -> Condition:
        if isinstance(expression.operand, e.Literal):
            self._fail(expression.place, "a column was expected before LIKE")
        column = self._column(expression.operand)
        if column.kind not in (ValueKind.TEXT, ValueKind.CHAR):
            self._fail(expression.place, f"LIKE is for text, but {column.name} is {column.type}")
        return Matches(column=column, pattern=expression.pattern)

    def _test(self, column: FilterColumn, operator: str, literal: e.Literal) -> Compared | Settled:
        value = self._value(column, literal)
        step = _step(column)
        if step is None or not isinstance(value, (int, Decimal)) or isinstance(value, bool):
            return Compared(column=column, operator=operator, value=value)
        # a value beyond the type's range decides the comparison for all rows
        low, high = _bounds(column)
        if not low <= value <= high:
            is_greater = value > high
            return Settled(column=column, value=operator == "!=" or (operator[0] == ("<" if is_greater else ">")))
        whole = _EXACT.multiply(_EXACT.divide(Decimal(value), step).to_integral_value(ROUND_FLOOR), step)
        if whole != value:  # between two neighbouring values of the type
            if operator in ("=", "!="):
                return Settled(column=column, value=operator == "!=")
            operator = "<=" if operator[0] == "<" else ">"
            if whole < low:
                return Settled(column=column, value=operator == ">")
        fitting = int(whole) if step >= 1 else whole.quantize(step, context=_EXACT)
        return Compared(column=column, operator=operator, value=fitting)

    def _value(self, column: FilterColumn, literal: e.Literal) -> Value:
        value = literal.value
        match column.kind:
            case ValueKind.BOOLEAN if isinstance(value, bool):
                return value
            case ValueKind.NUMBER | ValueKind.FLOAT if isinstance(value, Decimal):
                if value and (abs(value.adjusted()) > _LARGEST_EXPONENT or len(value.as_tuple().digits) > _MOST_DIGITS):
                    self._fail(literal.place, "the number is too large, too small or too long")
                return value if column.kind is ValueKind.NUMBER else _floating(column, value)
            case ValueKind.TEXT if isinstance(value, str) and not literal.word:
                return value.encode()
            case ValueKind.CHAR if isinstance(value, str) and not literal.word:
                return value.rstrip(" ").encode()
            case ValueKind.DATE if isinstance(value, str) and literal.word != "TIMESTAMP":
                return self._timestamp(literal, value, is_date=True) // (86_400 * 10**9)
            case ValueKind.TIMESTAMP if isinstance(value, str):
                return self._timestamp(literal, value, is_date=False)
        raise e.filter_error(
            self.text, literal.place, f"column {column.name} is {column.type}, {_EXPECTED[column.kind]} was expected"
        )

    def _timestamp(self, literal: e.Literal, text: str, *, is_date: bool) -> int:
        """Returns wall-clock nanoseconds since 1970."""
        try:
            seconds, nanos = seconds_and_nanos(text, is_date=is_date)
        except ValueError as error:
            self._fail(literal.place, f"{text!r} is not a {'date' if is_date else 'timestamp'}: {error}")
        return seconds * 10**9 + nanos

    def _column(self, name: e.ColumnName) -> FilterColumn:
        column = self.columns.get(name.name)
        if column is None:
            self._fail(name.place, f"there is no column {name.name!r}; there are {', '.join(self.columns)}")
        return column

    def _fail(self, place: int, what: str) -> NoReturn:
        raise e.filter_error(self.text, place, what)


def _floating(column: FilterColumn, number: Decimal) -> float:
    """Returns a literal as a floating-point number; like Hive, for a float column as the nearest float."""
    value = float(number)
    if not pa.types.is_float32(column.type):
        return value
    try:
        [nearest] = struct.unpack("f", struct.pack("f", value))
    except OverflowError:  # larger than any float
        return value
    return float(nearest)


def _step(column: FilterColumn) -> Decimal | None:
    """Returns the distance between neighbouring values of an exact type; None for other types."""
    if column.kind is ValueKind.TIMESTAMP:
        return Decimal(1000 if column.type == pa.timestamp("us", getattr(column.type, "tz", None)) else 1)
    if column.kind is not ValueKind.NUMBER:
        return None
    return Decimal(1).scaleb(-column.type.scale) if pa.types.is_decimal(column.type) else Decimal(1)


def _bounds(column: FilterColumn) -> tuple[Decimal | int, Decimal | int]:
    """Returns the smallest and the largest value of an exact type."""
    if column.kind is ValueKind.TIMESTAMP:
        factor = 10**9 if pa.types.is_struct(column.type) else 1 if column.type.unit == "ns" else 1000
        return _TIMES[0] * factor, _TIMES[-1] * factor
    if pa.types.is_decimal(column.type):
        largest = _EXACT.subtract(Decimal(10) ** column.type.precision, Decimal(1)).scaleb(-column.type.scale)
        return -largest, largest
    bits = _INTEGERS[column.type]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
