"""Reads facts about a column from statistics of an ORC file, in the form in which conditions compare values."""

from __future__ import annotations

from decimal import Decimal, DecimalException

from compactor.orc.format import messages
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import INTEGERS, OrcType, TypeKind
from compactor.orc.stripe_compatibility import FIRST_GREGORIAN_DAY, ORC_135
from compactor.tables.filters.conditions import Column, Kind, Value
from compactor.tables.filters.outcomes import Facts

NULLS = Facts(has_value=False)  #: facts about a column that is newer than the file
_MILLISECOND, _DAY = 10**6, 86_400 * 10**9  #: in nanoseconds
_JAVA = 0  #: the id of the Java writer
_HIVE_8732 = 1  #: the first writer version with correct statistics of texts


def read_facts(part: messages.Message, rows: int, column: Column, stored: OrcType, tail: Tail) -> Facts:
    """Returns what statistics of ``rows`` rows tell of ``column``, which the file holds as ``stored``.

    Bounds are only taken where every writer's can be trusted, else they are unknown: none of texts by the first writers
    (HIVE-8732), of times before ORC-135 and before 1582, of chars, booleans and floating point with NaN, nor of a column
    that has another type in the table.
    """
    values = part.number_of_values
    empty = rows > 0 and values == 0 and part.has_null
    low, high = (None, None) if empty else _bounds(part, column, stored, tail)
    return Facts(
        low=low,
        high=high,
        has_null=part.has_null or values != rows,
        has_value=not empty,
    )


def _bounds(part: messages.Message, column: Column, stored: OrcType, tail: Tail) -> tuple[Value | None, Value | None]:
    if column.kind is Kind.NUMBER and stored.kind in INTEGERS:
        return _extremes(part.int_statistics)
    if column.kind is Kind.NUMBER and stored.kind is TypeKind.DECIMAL:
        return _decimals(part.decimal_statistics)
    if column.kind is Kind.FLOAT and stored.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        low, high = _extremes(part.double_statistics)
        return (low, high) if low == low and high == high else (None, None)
    if column.kind is Kind.TEXT and stored.kind in (TypeKind.STRING, TypeKind.VARCHAR):
        return _texts(part.string_statistics) if tail.writer or tail.writer_version >= _HIVE_8732 else (None, None)
    if column.kind is Kind.DATE and stored.kind is TypeKind.DATE:
        low, high = _extremes(part.date_statistics)
        return (low, high) if isinstance(low, int) and low >= FIRST_GREGORIAN_DAY else (None, None)
    if column.kind is Kind.TIMESTAMP and stored.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        return _times(part.timestamp_statistics, tail)
    return None, None


def _extremes(part: messages.Message) -> tuple[Value | None, Value | None]:
    known = part.HasField("minimum") and part.HasField("maximum")
    return (part.minimum, part.maximum) if known else (None, None)


def _decimals(part: messages.Message) -> tuple[Value | None, Value | None]:
    low, high = _extremes(part)
    if not isinstance(low, bytes) or not isinstance(high, bytes) or max(len(low), len(high)) > 100:
        return None, None
    try:
        bounds = Decimal(low.decode("ascii")), Decimal(high.decode("ascii"))
    except (DecimalException, UnicodeDecodeError):
        return None, None
    return bounds if all(bound.is_finite() for bound in bounds) else (None, None)


def _texts(part: messages.Message) -> tuple[Value | None, Value | None]:
    low = part.minimum if part.HasField("minimum") else part.lower_bound if part.HasField("lower_bound") else None
    high = part.maximum if part.HasField("maximum") else part.upper_bound if part.HasField("upper_bound") else None
    return (low, high) if low is not None and high is not None else (None, None)


def _times(part: messages.Message, tail: Tail) -> tuple[Value | None, Value | None]:
    """Returns bounds wider than written: by a millisecond, because written bounds are rounded.

    For writers other than Java, by a day, because their bounds may not follow the wall clock.
    """
    if tail.writer_version < ORC_135 or not (part.HasField("minimum_utc") and part.HasField("maximum_utc")):
        return None, None
    slack = _MILLISECOND if tail.writer == _JAVA else _DAY
    low, high = part.minimum_utc * _MILLISECOND - slack, part.maximum_utc * _MILLISECOND + slack
    return (low, high) if low >= FIRST_GREGORIAN_DAY * _DAY else (None, None)
