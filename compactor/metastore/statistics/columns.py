"""Exact figures of a column in the columns of Hive's statistics, type by type (docs/statistics.md). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from compactor.acid.row_figures import ColumnFigures

_LONG = frozenset({"tinyint", "smallint", "int", "bigint", "date"})
_DOUBLE = frozenset({"float", "double"})
_DECIMAL, _BOOLEAN = "decimal", "boolean"


def exact_figures(column: ColumnFigures, rows: int) -> dict[str, object]:
    """Returns the exact figures by the names of Hive's columns; ``rows`` includes rows with nulls."""
    figures: dict[str, object] = {"NUM_NULLS": rows - column.values}
    prefix = _prefix(column)
    if prefix is not None and has_extremes(column):
        figures |= {f"{prefix}_LOW_VALUE": _stored(column.low), f"{prefix}_HIGH_VALUE": _stored(column.high)}
    if _kind(column) == _BOOLEAN and column.trues is not None:
        figures |= {"NUM_TRUES": column.trues, "NUM_FALSES": column.values - column.trues}
    return figures


def has_extremes(column: ColumnFigures) -> bool:
    """Returns true if minimum and maximum are exact, or do not exist.

    A zero of a float may be a negative zero, which other statements show as such.
    """
    if not column.values:
        return True
    if column.low is None or column.high is None:
        return False
    return not (_kind(column) in _DOUBLE and 0 in (column.low, column.high))


def is_proven(column: ColumnFigures) -> bool:
    """Returns true if all figures that Hive answers queries from are exact for this column."""
    if _kind(column) == _BOOLEAN:
        return column.trues is not None
    return _prefix(column) is not None and has_extremes(column)


def has_no_estimate(column: ColumnFigures) -> bool:
    """Returns true if no statistic of the type is an estimate, such as a distinct count or a length."""
    return _kind(column) == _BOOLEAN


def agrees(stored: Mapping[str, object], exact: Mapping[str, object]) -> bool:
    """Returns true if ``stored`` has all the values in ``exact``."""
    return all(_plain(stored.get(name)) == _plain(value) for name, value in exact.items())


def _kind(column: ColumnFigures) -> str:
    return column.type.partition("(")[0]


def _prefix(column: ColumnFigures) -> str | None:
    kind = _kind(column)
    return "LONG" if kind in _LONG else "DOUBLE" if kind in _DOUBLE else "BIG_DECIMAL" if kind == _DECIMAL else None


def _stored(value: object) -> object:
    """Returns a decimal as Hive writes it: digits only, without trailing zeros."""
    if not isinstance(value, Decimal):
        return value
    return format(value.normalize(), "f") if value else "0"


def _plain(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return Decimal(value)
    except InvalidOperation:
        return value
