"""Tables as dictionaries of rows, and what each statement does to them: no files, no transactions, nothing of the product.

A row is a dictionary by column. Values are plain: a timestamp is (seconds, nanoseconds), a char has no trailing blanks.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

Row = dict[str, Any]
KEY, PARTITION = "id", "p"
#: Values of each type, without NULL. Texts of char differ in their trailing blanks, and early days in both calendars.
VALUES: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, 2, -1, 2**31 - 1),
    "bigint": (0, 2, -(2**63), 2**62),
    "tinyint": (-128, 0, 7),
    "smallint": (-32768, 5),
    "boolean": (True, False),
    "double": (0.0, -0.0, 1.5, float("nan"), float("inf"), -1e300),
    "float": (0.0, -0.0, 0.5, float("nan")),
    "decimal(9,2)": (Decimal("0.00"), Decimal("1.50"), Decimal("-9999999.99")),
    "string": ("", "a", "b ", "it's", "é\n"),
    "varchar(4)": ("", "abcd", "a "),
    "char(4)": ("", "a", "a  ", "abcd"),
    "binary": (b"", b"\x00\xff"),
    "date": tuple(
        map(datetime.date.fromisoformat, ("0001-01-01", "1500-03-01", "1582-10-04", "1582-10-15", "2026-11-27"))
    ),
    "timestamp": ((0, 0), (-1, 0), (1_764_201_600, 123_456_789), (-14_830_974_000, 500), (-30_610_224_000, 0)),
    "array<int>": ([], [1, None, 3]),
    "map<string,int>": ({}, {"k": 1, "": None}),
    "struct<city:string,name:string>": ({"city": "x", "name": None}, {"city": "", "name": "y"}),
    "array<struct<n:decimal(9,2),d:date>>": ([], [{"n": Decimal("1.50"), "d": datetime.date(1500, 3, 1)}, None]),
    "decimal(38,10)": (Decimal("0E-10"), Decimal("-1234567890123456789012345678.0123456789"), Decimal("7.5000000000")),
    "array<array<string>>": ([], [None, []], [["a", None], [""]]),
    "struct<m:map<string,int>,t:timestamp>": (
        {"m": {"k": None}, "t": (-14_830_974_000, 500)},
        {"m": None, "t": None},
        {"m": {}, "t": (1_764_201_600, 123_456_789)},
    ),
}
#: Values of a partition column of each type; the empty text is in the partition of NULL, so it is left out.
PARTITIONS: dict[str, tuple[Any, ...]] = {
    "string": ("x", "y z", "a/b", None),
    "int": (0, -1, 2**31 - 1, None),
    "bigint": (0, -(2**63), None),
    "tinyint": (7, -128, None),
    "date": (datetime.date(2026, 11, 27), datetime.date(1500, 3, 1), datetime.date(1, 1, 1), None),
    "boolean": (True, False, None),
    "char(4)": ("a", "a  ", "", "a/b", None),
    "varchar(4)": ("a ", "a", "ab:c", None),
}
#: Types whose columns a condition or an assignment may name, with the text of their literals.
COMPARED = (
    "int",
    "bigint",
    "tinyint",
    "smallint",
    "boolean",
    "double",
    "decimal(9,2)",
    "decimal(38,10)",
    "string",
    "varchar(4)",
    "char(4)",
    "date",
    "timestamp",
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter in the product's grammar, and what it says of a row: None where it is unknown."""

    text: str
    holds: Callable[[Row], bool | None]

    def __repr__(self) -> str:
        return self.text


EVERYTHING = Condition("", lambda row: True)


@dataclass(slots=True)
class PlainTable:
    """A table: its columns with Hive's types, the partition column last, and its rows."""

    columns: dict[str, str]
    is_partitioned: bool = False
    buckets: int = 0
    rows: list[Row] = field(default_factory=list)

    def copy(self) -> PlainTable:
        return PlainTable(dict(self.columns), self.is_partitioned, self.buckets, [dict(row) for row in self.rows])

    def shown(self, rows: Sequence[Row] | None = None, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """Returns rows as values that compare equal exactly where readers show the same."""
        columns = self.columns if names is None else {name: self.columns[name] for name in names}
        chosen = self.rows if rows is None else rows
        return in_order(tuple(shown(row.get(name), kind) for name, kind in columns.items()) for row in chosen)

    def select(self, where: Condition) -> list[Row]:
        return [row for row in self.rows if where.holds(row) is True]

    def append(self, rows: Sequence[Row]) -> int:
        self.rows += [{name: row.get(name) for name in self.columns} for row in rows]
        return len(rows)

    def overwrite(self, rows: Sequence[Row]) -> int:
        places = {self._place(row) for row in rows}
        self.rows = [row for row in self.rows if self._place(row) not in places] if self.is_partitioned else []
        return self.append(rows)

    def _place(self, row: Row) -> Any:
        return shown(row[PARTITION], self.columns[PARTITION]) if self.is_partitioned else None

    def delete(self, where: Condition) -> int:
        before = len(self.rows)
        self.rows = [row for row in self.rows if where.holds(row) is not True]
        return before - len(self.rows)

    def update(self, values: dict[str, Any], where: Condition) -> int:
        chosen = self.select(where)
        for row in chosen:
            row.update(values)
        return len(chosen)

    def upsert(self, rows: Sequence[Row]) -> int:
        """Rows with the key of one that comes are replaced; NULL is equal to nothing. Returns how many keys were there."""
        keys = {row[KEY] for row in rows} - {None}
        there = {row[KEY] for row in self.rows} & keys
        self.rows = [row for row in self.rows if row[KEY] not in keys]
        self.append(rows)
        return len(there)

    def add_column(self, name: str, kind: str) -> None:
        columns = [
            (known, of) for known, of in self.columns.items() if not (self.is_partitioned and known == PARTITION)
        ]
        keys = [(known, of) for known, of in self.columns.items() if self.is_partitioned and known == PARTITION]
        self.columns = dict([*columns, (name, kind), *keys])
        for row in self.rows:
            row[name] = None


def in_order(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def shown(value: Any, kind: str) -> Any:
    """Returns a value of the model, of Arrow, of JSON or of a file in one form."""
    if value is None:
        return None
    name, _, inner = kind.partition("<")
    inner = inner.removesuffix(">")
    match name.partition("(")[0]:
        case "double" | "float":
            return repr(float({"Infinity": "inf", "-Infinity": "-inf"}.get(value, value)))
        case "decimal":
            return Fraction(value)
        case "char":
            return value.rstrip(" ")
        case "binary":
            return bytes(value)
        case "date":
            return str(value)
        case "timestamp":
            return _timestamp(value)
        case "array":
            return tuple(shown(item, inner) for item in value)
        case "map":
            key, _, item = inner.partition(",")
            return tuple(sorted((shown(k, key), shown(v, item)) for k, v in _pairs(value)))
        case "struct":
            fields = [text.partition(":") for text in fields_of(inner)]
            return tuple(shown(_field(value, place, name), of) for place, (name, _, of) in enumerate(fields))
    return value


def _timestamp(value: Any) -> tuple[int, int]:
    if isinstance(value, str | datetime.datetime):
        whole, _, fraction = str(value).partition(".")
        at = datetime.datetime.fromisoformat(whole) - datetime.datetime(1970, 1, 1)
        return at.days * 86_400 + at.seconds, int(fraction.ljust(9, "0"))
    return tuple(value.values()) if isinstance(value, dict) else tuple(value)


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return [(item["_key"], item["_value"]) if isinstance(item, dict) else tuple(item) for item in value]


def fields_of(inner: str) -> list[str]:
    """Splits the fields of a struct: at commas that are in no parentheses."""
    fields, depth = [""], 0
    for letter in inner:
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and not depth:
            fields.append("")
        else:
            fields[-1] += letter
    return fields


def _field(value: Any, place: int, name: str) -> Any:
    return value[name] if isinstance(value, dict) else value[place]


def literal(value: Any, kind: str) -> str:
    """Returns a value as SQL and filters have it."""
    if value is None:
        return "NULL"
    if kind == "boolean":
        return str(value).upper()
    if kind in ("string", "char(4)", "varchar(4)"):
        return "'" + value.replace("'", "''") + "'"
    if kind == "date":
        return f"DATE '{value}'"
    if kind == "timestamp":
        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value[0])
        return f"TIMESTAMP '{at.isoformat(' ')}.{value[1]:09d}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value) if not isinstance(value, float) else repr(value)


def compared(value: Any, kind: str) -> Any:
    """Returns a value by which a condition compares."""
    return value.rstrip(" ") if kind.startswith("char") and value is not None else value
