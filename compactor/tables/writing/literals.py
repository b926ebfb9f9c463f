"""Converts literals to Arrow values of types that a table's columns accept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa

from compactor.base.errors import NotConforming
from compactor.tables.filters.expressions import seconds_and_nanos
from compactor.tables.schema import PARTS

_LONGEST = 40  #: digits of an integer that may fit an Arrow type


class Value(Protocol):
    """A literal; a number is a Decimal, a date or time a text."""

    @property
    def value(self) -> Decimal | str | bool | None: ...


def build_literal_array(literal: Value, kind: Any, what: str) -> pa.Array:
    """Returns one value in a type that a column of ``kind`` accepts.

    Texts are parsed for dates and timestamps.

    Raises:
        NotConforming: the literal does not fit such a column, which ``what`` names.
    """
    value = literal.value
    if value is None:
        return pa.nulls(1)
    _must_fit(value, kind, what)
    try:
        if isinstance(value, str) and (pa.types.is_temporal(kind) or pa.types.is_binary(kind)):
            return _temporal(value, kind)
        return pa.array([_plain(value, kind)])
    except (ValueError, OverflowError) as error:
        raise NotConforming(f"{what}: {value!r}: {error}; a {kind} cannot hold it") from error


def build_literal_arrays(literals: Sequence[Value], kind: Any, what: str) -> pa.Array:
    """Returns many values for one column; see ``build_literal_array``."""
    values = [literal.value for literal in literals]
    present = [value for value in values if value is not None]
    if not present:
        return pa.nulls(len(values))
    for value in present:
        _must_fit(value, kind, what)
    if all(isinstance(value, str) for value in present) and (pa.types.is_temporal(kind) or pa.types.is_binary(kind)):
        arrays = [build_literal_array(literal, kind, what) for literal in literals]
        text_type = next(array.type for array in arrays if not pa.types.is_null(array.type))
        return pa.concat_arrays([pa.nulls(1, text_type) if pa.types.is_null(array.type) else array for array in arrays])
    try:
        return pa.array([None if value is None else _plain(value, kind) for value in values])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise NotConforming(f"{what}: {error}; a {kind} cannot hold all of its values") from error


def _must_fit(value: Decimal | str | bool, kind: Any, what: str) -> None:
    """Refuses TRUE and FALSE unless ``kind`` is boolean, and other literals if it is.

    In an array with numbers, Arrow might take them for 1 and 0.

    Raises:
        NotConforming: the literal is refused.
    """
    if isinstance(value, bool) != pa.types.is_boolean(kind):
        actual = "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "a number"
        raise NotConforming(f"{what}: is given as {actual}; expected: {kind}")


def _plain(value: Decimal | str | bool, kind: Any) -> Decimal | str | bool | int | float:
    if isinstance(value, Decimal) and pa.types.is_floating(kind):
        return _double(value)
    if isinstance(value, Decimal) and pa.types.is_integer(kind) and value.adjusted() < _LONGEST and value == int(value):
        return int(value)
    return value


def _double(value: Decimal) -> float:
    number = float(value)
    if math.isinf(number):
        raise OverflowError(f"{value} is larger than any double")
    return number


def _temporal(text: str, kind: Any) -> pa.Array:
    """Converts a text to ``kind``.

    A timestamp becomes parts, since Arrow has no type for all years with all digits.
    """
    if not pa.types.is_timestamp(kind):
        return pa.array([text]).cast(kind)
    seconds, nanos = seconds_and_nanos(text)
    return pa.array([{"seconds": seconds, "nanos": nanos}], PARTS)
