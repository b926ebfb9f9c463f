"""The change of a row by an UPDATE, DELETE or MERGE, in the form in which writers receive it.

See ``merge_check``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

KIND = "row__change"  #: the column of ``RowChangeKind``
CLAUSE = "row__clause"  #: the column of the number of the clause that changes a row; without it the number is 0
FILE = "row__file"  #: the column of the file that holds the row: its partition ("" without one) and its number
FILE_TYPE = pa.struct([pa.field("partition", pa.string()), pa.field("number", pa.int32())])
EXACT = "row__exact"  #: the column of a struct with the row's timestamps, by column, with all their digits
CHECK = "hive.merge.cardinality.check"

_VALUE = "row__value"


def value_column(place: int, clauses: Iterable[int]) -> str:
    """Returns the name of a column of new values for the column at ``place``, which ``clauses`` assign.

    Its values have the types of their expressions. Example: ``row__value_2_0_1`` for column 2 of clauses 0 and 1.
    """
    return "_".join([_VALUE, *map(str, (place, *clauses))])


def value_columns(names: Iterable[str]) -> dict[tuple[int, int], str]:
    """Returns those of ``names`` that are from ``value_column``, by clause and place."""
    columns: dict[tuple[int, int], str] = {}
    for name in names:
        if name.startswith(f"{_VALUE}_"):
            place, *clauses = map(int, name.removeprefix(f"{_VALUE}_").split("_"))
            columns |= {(clause, place): name for clause in clauses}
    return columns


class RowChangeKind(enum.IntEnum):
    """The kinds of changes to a row."""

    NOTHING = 0  #: matched but unchanged; it only counts for the cardinality check
    DELETE = 1
    UPDATE = 2
    INSERT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The numbers of rows that a statement has deleted, updated and inserted."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0

    @classmethod
    def total(cls, parts: Iterable[Changed]) -> Changed:
        """Returns the sums of ``parts``."""
        changes = list(parts)
        return cls(
            deleted=sum(change.deleted for change in changes),
            updated=sum(change.updated for change in changes),
            inserted=sum(change.inserted for change in changes),
        )
