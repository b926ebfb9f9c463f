"""Checks the clauses of a merge and the columns that statements name, before Spark evaluates anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from compactor.base.errors import NotConforming, NotFound, Refused
from compactor.tables.writing.row_change import RowChangeKind

if TYPE_CHECKING:
    from pyspark.sql import Column

Expression: TypeAlias = "Column | str"
_WORD = re.compile(r"\w+")
_PLAIN = re.compile(r"\s*(?:\w+\.)?\w+\s*")


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One WHEN of a merge.

    Attributes:
        values: the new values by column name, in any case; None takes each value from the source column of the same name.
        row: the values of an INSERT … VALUES, instead of ``values``.
        named: the columns of ``row``; None for all columns, in the order that they have once the table is locked.
    """

    kind: RowChangeKind
    condition: Expression | None = None
    values: Mapping[str, Expression] | None = None
    row: tuple[Expression, ...] | None = None
    named: tuple[str, ...] | None = None

    @property
    def is_matched(self) -> bool:
        return self.kind is not RowChangeKind.INSERT


def must_be_complete(clauses: Sequence[Clause]) -> None:
    """Checks that a merge has clauses, that each names columns, and that a row can reach each of them.

    Raises:
        Refused: one of these is not so.
    """
    if not clauses:
        raise Refused("merge: it has no clause; call when_matched_… or when_not_matched_insert before execute")
    for clause in clauses:
        if clause.kind is not RowChangeKind.DELETE and clause.values is not None:
            must_name_columns(clause.values, "merge")
    for is_matched in (True, False):
        alternatives = [clause for clause in clauses if clause.is_matched is is_matched]
        if any(clause.condition is None for clause in alternatives[:-1]):
            raise Refused(
                f"merge: a clause for {'' if is_matched else 'not '}matched rows has no condition, so no row reaches the "
                "clause after it; give it a condition, or leave out the clause after it"
            )


def name_columns(clause: Clause, columns: Sequence[str], table: str) -> Clause:
    """Returns the clause with its row, if it has one, as values by column.

    Args:
        columns: the table's columns, read under its lock (PROTOCOL 14.25).

    Raises:
        NotConforming: a row has too few or too many values.
        Refused: a column is named twice.
    """
    if clause.row is None:
        return clause
    names = columns if clause.named is None else clause.named
    if len(names) != len(clause.row):
        raise NotConforming(
            f"{table}: a row has {len(clause.row)} values; expected are {len(names)}, for {', '.join(names)}"
        )
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise Refused(f"{table}: column {twice} is named twice")
    return replace(clause, values=dict(zip(names, clause.row, strict=True)), row=None, named=None)


def must_name_columns(values: Mapping[str, Expression], statement: str) -> None:
    """Checks that there is a value for at least one column.

    Raises:
        Refused: there is none.
    """
    if not values:
        raise Refused(
            f"{statement}: set or values is empty; name at least one column, such as {{'status': \"'done'\"}}"
        )


def map_by_column(values: Mapping[str, Expression], columns: Collection[str], table: str) -> dict[str, Expression]:
    """Returns ``values`` with the column names spelled as in the table.

    Raises:
        NotFound: the table has no such column.
        Refused: a column is named twice.
    """
    spellings = {column.lower(): column for column in columns}
    by_column: dict[str, Expression] = {}
    for name, value in values.items():
        column = spellings.get(name.lower())
        if column is None:
            raise NotFound(f"{table} has no column {name!r}; it has {', '.join(columns)}")
        if column in by_column:
            raise Refused(f"{table}: column {column} is named twice; names do not differ by case")
        by_column[column] = value
    return by_column


def assigned_columns(clauses: Iterable[Clause]) -> tuple[str, ...] | None:
    """Returns the columns that clauses update by name; None if no clause updates.

    A clause that takes all values from the source names no column. It leaves partition and bucketing columns unchanged.
    """
    updates = [clause for clause in clauses if clause.kind is RowChangeKind.UPDATE]
    if not updates:
        return None
    return tuple(sorted({name for clause in updates for name in clause.values or ()}))


def find_columns(texts: Iterable[Expression | None], columns: Sequence[str]) -> tuple[str, ...] | None:
    """Returns every one of ``columns`` that SQL texts may refer to, perhaps more; None for all columns.

    A text can only refer to a column if it contains its name as a word. But an asterisk may mean every column, a variable of
    Spark may contain any name, and a Column hides its names.
    """
    words: set[str] = set()
    for text in texts:
        if text is None:
            continue
        if not isinstance(text, str) or "*" in text or "${" in text:
            return None
        words.update(word.lower() for word in _WORD.findall(text))
    return tuple(name for name in columns if name.lower() in words or not _WORD.fullmatch(name))


def is_plain(value: Expression | None) -> bool:
    """Returns true if a value is a column name or NULL, so that each evaluation gives the same result."""
    return value is None or (isinstance(value, str) and _PLAIN.fullmatch(value) is not None)
