"""Translates Spark's filters into this package's filter language.

Spark evaluates each filter again, so a translated filter may keep rows that do not meet it, but must keep all rows that do.
Comparisons that Spark evaluates in another way are not translated: floating-point numbers (in Spark NaN is the largest and
equals itself) and char columns (in Spark trailing blanks count).
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


def translate_filters(filters: Iterable[ds.Filter], columns: Collection[str]) -> list[str]:
    """Returns the filters as texts, without filters that mean something else here.

    Args:
        columns: the columns whose values are compared here as in Spark.
    """
    return [text for spark_filter in filters if (text := _translate(spark_filter, columns)) is not None]


def _translate(spark_filter: ds.Filter, columns: Collection[str]) -> str | None:
    if isinstance(spark_filter, ds.Not):
        inner = None if isinstance(spark_filter.child, ds.EqualNullSafe) else _translate(spark_filter.child, columns)
        return None if inner is None else f"NOT ({inner})"
    if len(spark_filter.attribute) != 1 or spark_filter.attribute[0] not in columns:
        return None
    name = quote_name(spark_filter.attribute[0])
    if isinstance(spark_filter, ds.IsNull | ds.IsNotNull):
        return f"{name} IS {'NOT ' if isinstance(spark_filter, ds.IsNotNull) else ''}NULL"
    if isinstance(spark_filter, ds.In):
        values = [_literal(value) for value in spark_filter.value]
        return None if not values or None in values else f"{name} IN ({', '.join(map(str, values))})"
    return _translate_comparison(spark_filter, name)


def _translate_comparison(spark_filter: Any, name: str) -> str | None:
    if isinstance(spark_filter, ds.StringStartsWith | ds.StringEndsWith | ds.StringContains):
        before = "" if isinstance(spark_filter, ds.StringStartsWith) else "%"
        after = "" if isinstance(spark_filter, ds.StringEndsWith) else "%"
        if after and spark_filter.value.endswith("\\"):
            return None  # in a pattern of Hive a backslash escapes the % that follows it
        return f"{name} LIKE {_literal(before + _escape_pattern(spark_filter.value) + after)}"
    value = _literal(spark_filter.value)
    operator = "=" if isinstance(spark_filter, ds.EqualNullSafe) else _COMPARED.get(type(spark_filter))
    return None if value is None or operator is None else f"{name} {operator} {value}"


def quote_name(name: str) -> str:
    """Returns a column's name in backquotes, as this package and Spark read it.

    The name may have any character.
    """
    return "`" + name.replace("`", "``") + "`"


def _escape_pattern(text: str) -> str:
    return "".join(f"\\{character}" if character in "%_" else character for character in text)


def _literal(value: object) -> str | None:
    """Returns a value as a literal of the filter language.

    Returns None if it has no literal that is compared as in Spark.
    """
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
