"""Predicates that are pushed down into a reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyorc import TypeKind

from tests.judges.values import Row, char_value, date_days, parse_schema, row_type, time_nanos

#: Each operator by its values; ``<=>`` is an equality that holds for NULL and NULL.
_OPERATORS: dict[str, Callable[..., bool]] = {
    "=": lambda value, bound: value == bound,
    "<": lambda value, bound: value < bound,
    "<=": lambda value, bound: value <= bound,
    "in": lambda value, *listed: value in listed,
    "between": lambda value, low, high: low <= value <= high,
}


_TIME = re.compile(r"([0-9]{4})-[0-9]{2}-[0-9]{2} [0-9:]{8}\.([0-9]{9})Z?")


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on one column, such as ``Predicate("id", "in", (1, 2), negated=True)``.

    Its operator is ``=``, ``<=>``, ``<``, ``<=``, ``in``, ``between`` or ``is null``. A field of a struct is ``"s.x"``.
    """

    column: str
    operator: str
    values: tuple[Any, ...] = ()
    negated: bool = False

    @property
    def finds_null(self) -> bool:
        """True if SQL finds the rows in which the column is NULL."""
        return (self.operator == "is null") != self.negated and self.operator in ("is null", "<=>")

    @property
    def has_early_fraction(self) -> bool:
        """True if a value is a time before 1970 with a fraction of a second, which pyorc hands over as another time."""
        times = [_TIME.fullmatch(value) for value in self.values if isinstance(value, str)]
        return any(time and time[1] < "1970" and time[2] != "000000000" for time in times)

    def matches(self, row: Row, schema: str) -> bool:
        """Tells whether SQL finds a row of a file with this schema: a comparison with NULL is neither true nor false."""
        places, key = _column(schema, self.column)
        value: Any = row
        for place in places:
            value = None if value is None else value[place]
        if self.operator == "is null":
            return (value is None) != self.negated
        if self.operator == "<=>":
            return (value is not None and key(value) == key(self.values[0])) != self.negated
        if value is None:
            return False
        return _OPERATORS[self.operator](key(value), *map(key, self.values)) != self.negated


@cache
def _column(schema: str, name: str) -> tuple[Sequence[int], Callable[[Any], Any]]:
    """Returns where a column's value is within a row, and what its values are compared by."""
    kind = row_type(schema)
    places = [] if kind is parse_schema(schema) else [len(parse_schema(schema).fields) - 1]
    for part in name.split("."):
        places.append(list(kind.fields).index(part))
        kind = kind.fields[part]
    return places, _KEYS.get(kind.kind, lambda value: value)


#: Strings are compared by their bytes, as Hive and Trino do.
_KEYS: dict[TypeKind, Callable[[Any], Any]] = {
    TypeKind.DATE: date_days,
    TypeKind.TIMESTAMP: time_nanos,
    TypeKind.TIMESTAMP_INSTANT: time_nanos,
    TypeKind.STRING: lambda text: text.encode("utf-8", "surrogateescape"),
    TypeKind.VARCHAR: lambda text: text.encode("utf-8", "surrogateescape"),
    TypeKind.CHAR: lambda text: char_value(text).encode("utf-8", "surrogateescape"),
}
