"""Conditions, rows and tables that Hypothesis draws, over all types."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from tests.model.programs.plain_tables import (
    COMPARED,
    KEY,
    PARTITION,
    PARTITIONS,
    VALUES,
    Condition,
    PlainTable,
    Row,
    compared,
    literal,
)

NAMES = ("t", "u")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">=": operator.ge,
}


def values(kind: str) -> st.SearchStrategy[Any]:
    return st.sampled_from((None, *VALUES[kind]))


Columns = tuple[tuple[str, str], ...]


def draw_rows(table: PlainTable, most: int = 4) -> st.SearchStrategy[list[Row]]:
    """Draws rows; those of partitioned tables are in few partitions."""
    return _rows(tuple(table.columns.items()), table.is_partitioned, most)


@lru_cache(1000)  # to make a strategy takes longer than to draw from it
def _rows(columns: Columns, is_partitioned: bool, most: int) -> st.SearchStrategy[list[Row]]:
    def column(name: str, kind: str) -> st.SearchStrategy[Any]:
        if name == PARTITION and is_partitioned:
            return st.sampled_from(PARTITIONS[kind])
        return st.sampled_from((0, 1, 2, 3, None)) if name == KEY else values(kind)

    row = st.fixed_dictionaries({name: column(name, kind) for name, kind in columns})
    return st.lists(row, max_size=most)


def tables() -> st.SearchStrategy[PlainTable]:
    """Draws a table with a key, up to four columns of any types, and rows, in one directory, in partitions or in buckets."""
    kinds = st.lists(st.sampled_from(tuple(VALUES)), max_size=4)
    partitioned_by = st.one_of(st.none(), st.sampled_from(tuple(PARTITIONS)))
    empty = st.builds(_table, kinds, partitioned_by, st.sampled_from((0, 0, 2)))
    return empty.flatmap(lambda table: draw_rows(table).map(lambda some: replace(table, rows=some)))


def _table(kinds: list[str], partitioned_by: str | None, buckets: int) -> PlainTable:
    columns = {KEY: "int"} | {f"c{place}": kind for place, kind in enumerate(kinds)}
    keys = {} if partitioned_by is None else {PARTITION: partitioned_by}
    return PlainTable(columns | keys, partitioned_by is not None, buckets)


def _literals(kind: str) -> tuple[Any, ...]:
    usable = [value for value in VALUES[kind] if not isinstance(value, float) or math.isfinite(value)]
    return tuple(value for value in usable if value != "é\n")


def conditions(table: PlainTable, kinds: Sequence[str] = COMPARED) -> st.SearchStrategy[Condition]:
    """Draws a filter of comparisons of the table's columns of some types, with SQL's three values."""
    return _conditions(tuple((name, kind) for name, kind in table.columns.items() if kind in kinds))


@lru_cache(1000)
def _conditions(usable: Columns) -> st.SearchStrategy[Condition]:
    leaves = st.sampled_from(usable).flatmap(lambda column: _leaf(*column))

    def combined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        return st.one_of(
            st.builds(
                lambda a, b: Condition(f"({a} AND {b})", lambda row: _and(a.holds(row), b.holds(row))), inner, inner
            ),
            st.builds(
                lambda a, b: Condition(f"({a} OR {b})", lambda row: _or(a.holds(row), b.holds(row))), inner, inner
            ),
            st.builds(lambda a: Condition(f"NOT ({a})", lambda row: _not(a.holds(row))), inner),
        )

    return st.recursive(leaves, combined, max_leaves=3)


def _leaf(name: str, kind: str) -> st.SearchStrategy[Condition]:
    literals = st.sampled_from(_literals(kind))
    is_null = st.sampled_from(
        (
            Condition(f"{name} IS NULL", lambda row: row[name] is None),
            Condition(f"{name} IS NOT NULL", lambda row: row[name] is not None),
        )
    )
    comparisons = st.builds(
        lambda sign, value: _comparison(name, kind, sign, value), st.sampled_from(tuple(_OPERATORS)), literals
    )
    members = st.builds(lambda given: _member(name, kind, given), st.lists(literals, min_size=1, max_size=2))
    between = st.builds(lambda low, high: _between(name, kind, low, high), literals, literals)
    return st.one_of(is_null, comparisons, members, *([] if kind == "boolean" else [between]))


def _comparison(name: str, kind: str, sign: str, value: Any) -> Condition:
    def holds(row: Row) -> bool | None:
        if row[name] is None:
            return None
        return _OPERATORS[sign](compared(row[name], kind), compared(value, kind))

    return Condition(f"{name} {sign} {literal(value, kind)}", holds)


def _member(name: str, kind: str, given: list[Any]) -> Condition:
    def holds(row: Row) -> bool | None:
        if row[name] is None:
            return None
        return compared(row[name], kind) in [compared(value, kind) for value in given]

    return Condition(f"{name} IN ({', '.join(literal(value, kind) for value in given)})", holds)


def _between(name: str, kind: str, low: Any, high: Any) -> Condition:
    def holds(row: Row) -> bool | None:
        if row[name] is None:
            return None
        return bool(compared(low, kind) <= compared(row[name], kind) <= compared(high, kind))

    return Condition(f"{name} BETWEEN {literal(low, kind)} AND {literal(high, kind)}", holds)


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a: bool | None, b: bool | None) -> bool | None:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _not(a: bool | None) -> bool | None:
    return None if a is None else not a


def names(table: PlainTable) -> st.SearchStrategy[list[str]]:
    """Draws some columns in any order."""
    return _names(tuple(table.columns))


@lru_cache(1000)
def _names(columns: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(columns), min_size=1, unique=True)


def assignments(table: PlainTable) -> st.SearchStrategy[dict[str, Any]]:
    """Draws literals for some columns that may be assigned."""
    return _assignments(
        tuple(
            (name, kind)
            for name, kind in table.columns.items()
            if kind in COMPARED
            and not (name == PARTITION and table.is_partitioned)
            and not (name == KEY and table.buckets)
        )
    )


@lru_cache(1000)
def _assignments(columns: Columns) -> st.SearchStrategy[dict[str, Any]]:
    usable = dict(columns)
    chosen = st.lists(st.sampled_from(sorted(usable)), min_size=1, max_size=2, unique=True) if usable else st.just([])
    return chosen.flatmap(
        lambda names: st.fixed_dictionaries({name: st.sampled_from((None, *_literals(usable[name]))) for name in names})
    )
