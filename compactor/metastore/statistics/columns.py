"""Exact figures of a column in the columns of Hive's statistics, type by type (docs/statistics.md). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from compactor.acid.row_figures import ColumnFigures

_LONG = frozenset({"tinyint", "smallint", "int", "bigint", "date"})
_DOUBLE = frozenset({"float", "double"})
_DECIMAL, _BOOLEAN = "decimal", "boolean"


def known(column: ColumnFigures, rows: int) -> dict[str, object]:
    """Returns the figures that are exact, by the names of their columns; ``rows`` counts those with nulls."""
    found: dict[str, object] = {"NUM_NULLS": rows - column.values}
    prefix = _prefix(column)
    if prefix is not None and has_extremes(column):
        found |= {f"{prefix}_LOW_VALUE": _stored(column.low), f"{prefix}_HIGH_VALUE": _stored(column.high)}
    if _kind(column) == _BOOLEAN and column.trues is not None:
        found |= {"NUM_TRUES": column.trues, "NUM_FALSES": column.values - column.trues}
    return found


def has_extremes(column: ColumnFigures) -> bool:
    """Returns true if minimum and maximum are exact, or are none at all.

    A zero of a float may stand for a negative zero, which other statements show as such.
    """
    if not column.values:
        return True
    if column.low is None or column.high is None:
        return False
    return not (_kind(column) in _DOUBLE and 0 in (column.low, column.high))


def is_proved(column: ColumnFigures) -> bool:
    """Returns true if everything that Hive answers queries from is exact for a column of this type."""
    if _kind(column) == _BOOLEAN:
        return column.trues is not None
    return _prefix(column) is not None and has_extremes(column)


def has_no_estimate(column: ColumnFigures) -> bool:
    """Returns true if all statistics of the type are exact ones: the others have a distinct count, or lengths."""
    return _kind(column) == _BOOLEAN


def agrees(stored: Mapping[str, object], exact: Mapping[str, object]) -> bool:
    """Returns true if ``stored`` says the same as ``exact`` where that says anything."""
    return all(_plain(stored.get(name)) == _plain(value) for name, value in exact.items())


def _kind(column: ColumnFigures) -> str:
    return column.type.partition("(")[0]


def _prefix(column: ColumnFigures) -> str | None:
    kind = _kind(column)
    return "LONG" if kind in _LONG else "DOUBLE" if kind in _DOUBLE else "BIG_DECIMAL" if kind == _DECIMAL else None


def _stored(value: object) -> object:
    """Returns a decimal as Hive writes it: digits only, without zeros at the end."""
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
