"""Filters of Spark as texts of this package's own filters.

Spark evaluates each filter again, so here a row may stay that does not meet it, and none may go that does. What Spark
compares in another way is not pushed: floating-point numbers (NaN is the largest, and equal to itself) and char columns
(trailing blanks count).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import datasource as ds

_COMPARED = {
    ds.EqualTo: "=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}


def filter_texts(filters: Iterable[ds.Filter], columns: Collection[str]) -> list[str]:
    """Returns the texts of those of ``filters`` that mean the same here.

    Args:
        columns: the names of those whose values are compared as Spark compares them.
    """
    return [text for one in filters if (text := _text(one, columns)) is not None]


def _text(found: ds.Filter, columns: Collection[str]) -> str | None:
    if isinstance(found, ds.Not):
        inner = None if isinstance(found.child, ds.EqualNullSafe) else _text(found.child, columns)
        return None if inner is None else f"NOT ({inner})"
    if len(found.attribute) != 1 or found.attribute[0] not in columns:
        return None
    name = quoted(found.attribute[0])
    if isinstance(found, ds.IsNull | ds.IsNotNull):
        return f"{name} IS {'NOT ' if isinstance(found, ds.IsNotNull) else ''}NULL"
    if isinstance(found, ds.In):
        values = [_literal(value) for value in found.value]
        return None if not values or None in values else f"{name} IN ({', '.join(map(str, values))})"
    return _of_one_value(found, name)


def _of_one_value(found: Any, name: str) -> str | None:
    if isinstance(found, ds.StringStartsWith | ds.StringEndsWith | ds.StringContains):
        before = "" if isinstance(found, ds.StringStartsWith) else "%"
        after = "" if isinstance(found, ds.StringEndsWith) else "%"
        if after and found.value.endswith("\\"):
            return None  # no pattern of Hive's says that anything may follow a backslash
        return f"{name} LIKE {_literal(before + _as_pattern(found.value) + after)}"
    value = _literal(found.value)
    operator = "=" if isinstance(found, ds.EqualNullSafe) else _COMPARED.get(type(found))
    return None if value is None or operator is None else f"{name} {operator} {value}"


def quoted(name: str) -> str:
    """Returns a column's name as one of the grammar, and of Spark, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def _as_pattern(text: str) -> str:
    return "".join(f"\\{one}" if one in "%_" else one for one in text)


def _literal(value: object) -> str | None:
    """Returns a value as a literal of the grammar; None where it has none, or one that is compared otherwise."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case Decimal() if value.is_finite():
            return f"{value:f}"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime() if value.tzinfo is None:
            return f"TIMESTAMP '{value.isoformat(' ')}'"
        case date() if not isinstance(value, datetime):
            return f"DATE '{value.isoformat()}'"
    return None
