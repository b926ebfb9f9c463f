"""Literals as values of Arrow, of types that the door of a table takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa

from compactor.base.errors import NotConforming
from compactor.tables.schema import PARTS
from compactor.tables.time_texts import seconds_and_nanos

_LONGEST = 40  #: digits of a number that may be one of Arrow's


class Value(Protocol):
    """A literal: a number is a Decimal, a day or time a text."""

    @property
    def value(self) -> Decimal | str | bool | None: ...


def literal_array(literal: Value, kind: Any, what: str) -> pa.Array:
    """Returns one value in the type in which a column of ``kind`` takes it: texts for dates and timestamps are read as such.

    Raises:
        NotConforming: the literal is no value of such a column; ``what`` names that.
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


def literal_arrays(literals: Sequence[Value], kind: Any, what: str) -> pa.Array:
    """Returns many values for one column; see ``literal_array``."""
    values = [literal.value for literal in literals]
    there = [value for value in values if value is not None]
    if not there:
        return pa.nulls(len(values))
    for value in there:
        _must_fit(value, kind, what)
    if all(isinstance(value, str) for value in there) and (pa.types.is_temporal(kind) or pa.types.is_binary(kind)):
        one_by_one = [literal_array(literal, kind, what) for literal in literals]
        found = next(one.type for one in one_by_one if not pa.types.is_null(one.type))
        return pa.concat_arrays([pa.nulls(1, found) if pa.types.is_null(one.type) else one for one in one_by_one])
    try:
        return pa.array([None if value is None else _plain(value, kind) for value in values])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise NotConforming(f"{what}: {error}; a {kind} cannot hold all of its values") from error


def _must_fit(value: Decimal | str | bool, kind: Any, what: str) -> None:
    """Refuses TRUE and FALSE where ``kind`` is no boolean, and other literals where it is: in an array with numbers Arrow
    may take them for 1 and 0.

    Raises:
        NotConforming: it is so.
    """
    if isinstance(value, bool) != pa.types.is_boolean(kind):
        given = "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "a number"
        raise NotConforming(f"{what}: is given as {given}; wanted: {kind}")


def _plain(value: Decimal | str | bool, kind: Any) -> Decimal | str | bool | int | float:
    if isinstance(value, Decimal) and pa.types.is_floating(kind):
        return _double(value)
    if isinstance(value, Decimal) and pa.types.is_integer(kind) and value.adjusted() < _LONGEST and value == int(value):
        return int(value)
    return value


def _double(value: Decimal) -> float:
    found = float(value)
    if math.isinf(found):
        raise OverflowError(f"{value} is larger than any double")
    return found


def _temporal(text: str, kind: Any) -> pa.Array:
    """Returns a text as ``kind``; a timestamp in parts, since Arrow has no type for all years with all digits."""
    if not pa.types.is_timestamp(kind):
        return pa.array([text]).cast(kind)
    seconds, nanos = seconds_and_nanos(text)
    return pa.array([{"seconds": seconds, "nanos": nanos}], PARTS)
