"""The clauses of a merge, and the columns that statements name: decided before anything is asked of Spark."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from compactor.base.errors import NotConforming, NotFound, Refused
from compactor.tables.writing.row_change import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column

Expression: TypeAlias = "Column | str"
_WORD = re.compile(r"\w+")
_PLAIN = re.compile(r"\s*(?:\w+\.)?\w+\s*")


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One WHEN of a merge. ``values`` are by column, in any case; None takes all from columns of the same name.

    ``row`` has the values of INSERT … VALUES instead, for the columns ``named``, or for all in the order that the table has
    once it is locked.
    """

    kind: Kind
    condition: Expression | None = None
    values: Mapping[str, Expression] | None = None
    row: tuple[Expression, ...] | None = None
    named: tuple[str, ...] | None = None

    @property
    def is_matched(self) -> bool:
        return self.kind is not Kind.INSERT


def must_be_complete(clauses: Sequence[Clause]) -> None:
    """Refuses clauses that say nothing, or that no row can reach.

    Raises:
        Refused: they do.
    """
    if not clauses:
        raise Refused("merge: no clause says what to do; call when_matched_… or when_not_matched_insert before execute")
    for clause in clauses:
        if clause.kind is not Kind.DELETE and clause.values is not None:
            must_name_columns(clause.values, "merge")
    for is_matched in (True, False):
        of_kind = [clause for clause in clauses if clause.is_matched is is_matched]
        if any(clause.condition is None for clause in of_kind[:-1]):
            raise Refused(
                f"merge: a clause for rows that are {'' if is_matched else 'not '}matched has no condition and is not the "
                "last of them, so the next one is never reached; give it a condition, or leave the next one out"
            )


def with_columns(clause: Clause, columns: Sequence[str], table: str) -> Clause:
    """Returns a clause whose values are by column.

    Args:
        columns: those of the table, read under its lock (PROTOCOL 14.25).

    Raises:
        NotConforming: a row has too few or too many values.
        Refused: a column is named twice.
    """
    if clause.row is None:
        return clause
    names = columns if clause.named is None else clause.named
    if len(names) != len(clause.row):
        raise NotConforming(
            f"{table}: a row has {len(clause.row)} values; wanted are {len(names)}, for {', '.join(names)}"
        )
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise Refused(f"{table}: column {twice} is given twice")
    return replace(clause, values=dict(zip(names, clause.row, strict=True)), row=None, named=None)


def must_name_columns(values: Mapping[str, Expression], statement: str) -> None:
    """Refuses values that are given for no column at all.

    Raises:
        Refused: they are.
    """
    if not values:
        raise Refused(f"{statement}: set or values name no column; give at least one, such as {{'status': \"'done'\"}}")


def by_column(values: Mapping[str, Expression], columns: Collection[str], table: str) -> dict[str, Expression]:
    """Returns ``values`` by the table's names of its columns.

    Raises:
        NotFound: there is no such column.
        Refused: a column is given twice.
    """
    known = {column.lower(): column for column in columns}
    found: dict[str, Expression] = {}
    for name, value in values.items():
        column = known.get(name.lower())
        if column is None:
            raise NotFound(f"{table} has no column {name!r}; it has {', '.join(columns)}")
        if column in found:
            raise Refused(f"{table}: column {column} is given twice; names are the same in any case")
        found[column] = value
    return found


def assigned(clauses: Iterable[Clause]) -> tuple[str, ...] | None:
    """Returns the columns that clauses name to update; None if none of them updates. Those that take all name none: they
    leave partition and bucketing columns as they are."""
    updates = [clause for clause in clauses if clause.kind is Kind.UPDATE]
    if not updates:
        return None
    return tuple(sorted({name for clause in updates for name in clause.values or ()}))


def columns_in(texts: Iterable[Expression | None], columns: Sequence[str]) -> tuple[str, ...] | None:
    """Returns those of ``columns`` that may be meant in SQL texts, and perhaps others; None for all.

    A name in a text is a word of it. Of a Column nothing is known, an asterisk may mean every column, and a variable of
    Spark any of them.
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
    """Returns true if a value is known to be a column's name, or NULL: the same each time that it is evaluated."""
    return value is None or (isinstance(value, str) and _PLAIN.fullmatch(value) is not None)
