"""The ORDER BY of a rebalance, as CQ_ORDER_BY holds it (``order by a desc, b``)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from compactor.base.errors import Refused

_PREFIX = re.compile(r"\s*order\s+by\s+", re.IGNORECASE)
_ITEM = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>\w+))(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBy:
    """One column, in lower case as Hive stores it.

    Unless stated, NULLs come last when ascending and first when descending (Hive's ``hive.default.nulls.last``).
    """

    column: str
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        quoted = self.column.replace("`", "``")
        words = [self.column if re.fullmatch(r"[a-z_]\w*", self.column, re.ASCII) else f"`{quoted}`"]
        if self.descending:
            words.append("desc")
        if self.nulls_first != self.descending:
            words.append("nulls first" if self.nulls_first else "nulls last")
        return " ".join(words)


def parse_order_by(text: str) -> tuple[OrderBy, ...]:
    """Parses ``a desc, b``, with or without ORDER BY before it.

    Raises:
        Refused: the text is something else, such as an expression, or names a column twice.
    """
    begin = _PREFIX.match(text)
    columns: list[OrderBy] = []
    at = begin.end() if begin else 0
    while True:
        item = _ITEM.match(text, at)
        if item is None or (item.end() < len(text) and text[item.end()] != ","):
            raise Refused(
                f"ORDER BY {text!r}: expected columns such as 'a desc, b nulls first'; expressions are not supported"
            )
        columns.append(_order_by(item))
        if item.end() == len(text):
            break
        at = item.end() + 1
    names = [order.column for order in columns]
    if len(set(names)) < len(names):
        raise Refused(f"ORDER BY {text!r}: names a column twice")
    return tuple(columns)


def _order_by(item: re.Match[str]) -> OrderBy:
    name = item["plain"] or item["quoted"].replace("``", "`")
    descending = (item["way"] or "").lower() == "desc"
    nulls_first = descending if item["nulls"] is None else item["nulls"].lower() == "first"
    return OrderBy(column=name.lower(), descending=descending, nulls_first=nulls_first)


def format_order_by(order: Sequence[OrderBy]) -> str | None:
    """Formats the columns for CQ_ORDER_BY, in a form that Hive's worker also reads; None without columns."""
    return f"order by {', '.join(map(str, order))}" if order else None


def check_columns(table: str, order: Sequence[OrderBy], types: dict[str, str], partition_keys: Collection[str]) -> None:
    """Checks that every column is in the rows of ``table`` and can be compared.

    ``types`` are Hive's, by column.

    Raises:
        Refused: a column is a partition key, unknown or of a type without an order.
    """
    for column in order:
        if column.column in partition_keys:
            raise Refused(
                f"{table}: ORDER BY {column.column}: a partition column is the same in all rows of a partition"
            )
        if column.column not in types:
            raise Refused(f"{table}: ORDER BY {column.column}: there is no such column; there are {', '.join(types)}")
        if types[column.column].lower().startswith(("array<", "map<", "struct<", "uniontype<")):
            raise Refused(
                f"{table}: ORDER BY {column.column}: {types[column.column]} has no order; name a plain column"
            )
