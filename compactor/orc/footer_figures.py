"""Takes the figures of a file's rows from the statistics in its footer, as far as these are exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from compactor.acid.row_figures import ColumnFigures, Extreme, RowFigures
from compactor.orc.format import messages
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.tail import FIRST_GREGORIAN_DAY, Tail
from compactor.orc.format.types import INTEGERS, MAX_CACHED, MAX_PRECISION, TEXT_KINDS, OrcType, TypeKind, Types

Extremes = tuple[Extreme | None, Extreme | None]
UNKNOWN: Extremes = (None, None)
_OBJECT, _ARRAY, _INT, _LONG = 32, 40, 4, 8
_TEXT = _OBJECT + 3 * _INT + _ARRAY  #: bytes of a text without its characters
_BYTES = {
    TypeKind.TIMESTAMP: _OBJECT + _LONG,
    TypeKind.TIMESTAMP_INSTANT: _OBJECT + _LONG,
    TypeKind.DATE: _OBJECT + 3 * _LONG,
    TypeKind.DECIMAL: 2 * _OBJECT + 6 * _LONG,
    TypeKind.DOUBLE: _LONG,
    TypeKind.LONG: _LONG,
}  #: of a value, by its kind; all others take those of an int


def row_figures(tail: Tail) -> RowFigures | None:
    """Returns the figures of the file's rows.

    Returns None if its footer's statistics are incomplete or impossible.

    A database that refuses an impossible number would lose those of other tables, too. For ACID events, the figures are
    those of ``row``, and ``raw_size`` is 0, as in Hive.
    """
    root = tail.types[0].children[-1] if tail.is_acid else 0
    statistics = tail.statistics
    if len(statistics) != len(tail.types) or statistics[0].number_of_values != tail.rows:
        return None
    columns = tuple([_column(column, statistics[column.number]) for column in _columns(tail.types, root)])
    if any(column.values > tail.rows or (column.trues or 0) > column.values for column in columns):
        return None
    return RowFigures(rows=tail.rows, raw_size=0 if tail.is_acid else raw_data_size(tail), columns=columns)


class _FooterColumn(NamedTuple):
    number: int
    name: str
    kind: TypeKind
    type: str


@lru_cache(maxsize=MAX_CACHED)
def _columns(types: Types, root: int) -> tuple[_FooterColumn, ...]:
    row = types[root]
    return tuple(
        _FooterColumn(
            child, name.lower(), types[child].kind, schema_text(types, child) if not types[child].children else ""
        )
        for child, name in zip(row.children, row.field_names, strict=True)
    )


def _column(column: _FooterColumn, statistics: messages.Message) -> ColumnFigures:
    values = statistics.number_of_values
    low, high = _EXTREMES.get(column.kind, _unknown)(statistics) if values else UNKNOWN
    trues = None
    if column.kind is TypeKind.BOOLEAN:
        counts = statistics.bucket_statistics.count
        trues = counts[0] if len(counts) == 1 else None if values else 0
    return ColumnFigures(name=column.name, type=column.type, values=values, low=low, high=high, trues=trues)


def _unknown(_: messages.Message) -> Extremes:
    return UNKNOWN


def _integers(statistics: messages.Message) -> Extremes:
    numbers = statistics.int_statistics
    if not (numbers.HasField("minimum") and numbers.HasField("maximum")):
        return UNKNOWN
    return numbers.minimum, numbers.maximum


def _doubles(statistics: messages.Message) -> Extremes:
    """Returns the extremes of a column without NaN; unknown if the column may have NaN.

    Most writers leave NaN out of the extremes, but the sum shows it. Infinities may have the same effect on the sum.
    """
    numbers = statistics.double_statistics
    if not (numbers.HasField("minimum") and numbers.HasField("maximum") and numbers.HasField("sum")):
        return UNKNOWN
    if not all(map(math.isfinite, (numbers.minimum, numbers.maximum, numbers.sum))):
        return UNKNOWN
    return numbers.minimum, numbers.maximum


def _decimals(statistics: messages.Message) -> Extremes:
    low, high = _decimal(statistics.decimal_statistics.minimum), _decimal(statistics.decimal_statistics.maximum)
    return UNKNOWN if low is None or high is None else (low, high)


def _decimal(text: bytes) -> Decimal | None:
    try:
        number = Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if not number.is_finite():
        return None
    exponent = number.as_tuple().exponent
    is_short = isinstance(exponent, int) and -MAX_PRECISION <= exponent <= MAX_PRECISION
    return number if is_short and number.adjusted() < MAX_PRECISION else None


def _dates(statistics: messages.Message) -> Extremes:
    days = statistics.date_statistics
    if not (days.HasField("minimum") and days.HasField("maximum")) or days.minimum < FIRST_GREGORIAN_DAY:
        return UNKNOWN
    return days.minimum, days.maximum


_EXTREMES: dict[TypeKind, Callable[[messages.Message], Extremes]] = {
    **dict.fromkeys(INTEGERS, _integers),
    **dict.fromkeys((TypeKind.FLOAT, TypeKind.DOUBLE), _doubles),
    TypeKind.DECIMAL: _decimals,
    TypeKind.DATE: _dates,
}


def raw_data_size(tail: Tail) -> int:
    """Returns the size as Java's reader estimates it.

    A column without statistics counts as a column without values.
    """
    return sum(
        _column_size(column, statistics) for column, statistics in zip(tail.types, tail.statistics, strict=False)
    )


def _column_size(column: OrcType, statistics: messages.Message) -> int:
    count = int(statistics.number_of_values)
    if column.kind is TypeKind.BINARY:
        return int(statistics.binary_statistics.sum)
    if column.kind in TEXT_KINDS:
        count = count or 1
        return count * (_TEXT + int(statistics.string_statistics.sum) // count)
    return count * _BYTES.get(column.kind, _INT)
