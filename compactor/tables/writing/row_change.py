"""The change of one row, by an UPDATE, DELETE or MERGE, as it travels to those who write it; see ``changed_rows``."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

KIND = "row__change"  #: the column of ``Kind``
CLAUSE = "row__clause"  #: the column of the number of the clause that changes a row; without it there is one, number 0
FILE = "row__file"  #: the column of the file that holds the row: its partition, "" without one, and its number
FILE_TYPE = pa.struct([pa.field("partition", pa.string()), pa.field("number", pa.int32())])
EXACT = "row__exact"  #: a struct of the row's timestamps with all of their digits, by column
CHECK = "hive.merge.cardinality.check"


_VALUE = "row__value"


def value_column(place: int, clauses: Iterable[int]) -> str:
    """Returns the name of the column of new values, in the types that they have there, which ``clauses`` give to the table's
    column at ``place``."""
    return "_".join([_VALUE, *map(str, (place, *clauses))])


def value_columns(names: Iterable[str]) -> dict[tuple[int, int], str]:
    """Returns those of ``names`` that ``value_column`` made, by clause and place."""
    found: dict[tuple[int, int], str] = {}
    for name in names:
        if name.startswith(f"{_VALUE}_"):
            place, *clauses = map(int, name.removeprefix(f"{_VALUE}_").split("_"))
            found |= {(clause, place): name for clause in clauses}
    return found


class Kind(enum.IntEnum):
    """The change of one row."""

    NOTHING = 0  #: matched, and left as it is; it counts for the check alone
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
        every = list(parts)
        return cls(
            deleted=sum(one.deleted for one in every),
            updated=sum(one.updated for one in every),
            inserted=sum(one.inserted for one in every),
        )
