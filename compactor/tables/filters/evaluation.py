"""Evaluates conditions over Arrow arrays, in SQL's three-valued logic."""

from __future__ import annotations

import operator as exactly
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache, reduce

import pyarrow as pa
import pyarrow.compute as pc

from compactor.orc.codecs.arrow_types import Array
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
    ValueKind,
    to_scalar,
)

_COMPARE: dict[str, Callable[..., Array]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


_EXACTLY: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "=": exactly.eq,
    "!=": exactly.ne,
    "<": exactly.lt,
    "<=": exactly.le,
    ">": exactly.gt,
    ">=": exactly.ge,
}


def evaluate(condition: Condition, rows: pa.RecordBatch) -> Array:
    """Returns true, false or NULL (unknown) for each of ``rows``.

    They have the condition's columns by name.
    """
    match condition:
        case All(parts=parts):
            return reduce(pc.and_kleene, [evaluate(part, rows) for part in parts])
        case Any(parts=parts):
            return reduce(pc.or_kleene, [evaluate(part, rows) for part in parts])
        case Negation(part=part):
            return pc.invert(evaluate(part, rows))
        case Constant(value=value):
            return pa.repeat(pa.scalar(value, pa.bool_()), rows.num_rows)
        case Missing(column=column):
            return rows.column(column.name).is_null()
        case Settled(column=column, value=value):
            return _unless_null(rows.column(column.name), pa.repeat(pa.scalar(value), rows.num_rows))
        case Compared(column=column, operator=operator, value=value):
            return _COMPARE[operator](_comparable(column, rows), to_scalar(column, value))
        case Pair(left=left, operator=operator, right=right):
            return _pair(left, operator, right, rows)
        case Matches(column=column, expression=expression):
            return pc.match_substring_regex(_comparable(column, rows), expression)
        case OneOf():
            return _one_of(condition, rows)


def match_rows(condition: Condition, rows: pa.RecordBatch) -> Array:
    """Returns the mask of the rows for which the condition is true."""
    outcomes = evaluate(condition, rows)
    return outcomes.fill_null(False) if outcomes.null_count else outcomes


def _comparable(column: FilterColumn, rows: pa.RecordBatch) -> Array:
    array = rows.column(column.name)
    if column.kind is ValueKind.FLOAT:
        return array.cast(pa.float64())
    if column.kind is ValueKind.TIMESTAMP and pa.types.is_struct(column.type):
        return _nanoseconds(array)
    return pc.ascii_rtrim(array, characters=" ") if column.kind is ValueKind.CHAR else array


def _nanoseconds(array: Array) -> Array:
    """Returns timestamps in parts as nanoseconds since 1970."""
    seconds, nanos = array.flatten()
    whole = pc.multiply(seconds.cast(pa.decimal128(19, 0)), pa.scalar(Decimal(10**9), pa.decimal128(10, 0)))
    return pc.add(whole, nanos.cast(pa.decimal128(10, 0))).cast(pa.decimal128(38, 0))


def _unless_null(array: Array, outcomes: Array) -> Array:
    return pc.if_else(array.is_valid(), outcomes, pa.scalar(None, pa.bool_())) if array.null_count else outcomes


def _one_of(condition: OneOf, rows: pa.RecordBatch) -> Array:
    column = condition.column
    array = _comparable(column, rows)
    if column.kind is ValueKind.FLOAT:  # is_in would distinguish 0.0 from -0.0
        tests = [pc.equal(array, to_scalar(column, value)) for value in condition.values]
        outcomes = reduce(pc.or_kleene, tests) if tests else pa.repeat(pa.scalar(False), rows.num_rows)
    else:
        outcomes = pc.is_in(array, value_set=_value_set(condition, array.type))
    if condition.or_null:
        outcomes = pc.if_else(outcomes, outcomes, pa.scalar(None, pa.bool_()))
    return _unless_null(array, outcomes)


@lru_cache(maxsize=16)
def _value_set(condition: OneOf, kind: pa.DataType) -> Array:
    """Returns the values of a list as an array.

    It is cached, because it may be long and is the same for many batches.
    """
    return pa.array([to_scalar(condition.column, value) for value in condition.values], kind)


def _pair(left: FilterColumn, operator: str, right: FilterColumn, rows: pa.RecordBatch) -> Array:
    first, second = _comparable(left, rows), _comparable(right, rows)
    try:
        return _COMPARE[operator](first, second)
    except pa.ArrowInvalid:  # the two decimals have more digits than Arrow can compare
        pairs = zip(first.to_pylist(), second.to_pylist(), strict=True)
        outcomes = [None if a is None or b is None else _EXACTLY[operator](a, b) for a, b in pairs]
        return pa.array(outcomes, pa.bool_())
