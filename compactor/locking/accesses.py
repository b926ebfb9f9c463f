"""Accesses of a statement to databases, tables and partitions, from which its locks follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from compactor.locking.statement_rules import AccessKind, Command

#: PARTITION (...): keys with their plain values, None for a key without a value.
Spec: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """The name of a table or database in a statement. ``database`` None is the current one."""

    database: str | None = None
    table: str

    def __str__(self) -> str:
        return self.table if self.database is None else f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access of a statement to an object.

    Attributes:
        name: its ``table`` is empty if the object is a database.
        partition: the PARTITION clause.
        where: columns and the values that the condition of a row change or query requires.
        makes: whether the table to create will be transactional; None if the statement creates no table.
        moves: true if rows may move to other partitions.
        cascades: true if the contents of a database are dropped too.
    """

    kind: AccessKind
    name: Name
    partition: Spec | None = None
    where: tuple[tuple[str, str], ...] = ()
    command: Command | None = None
    makes: bool | None = None
    moves: bool = False
    cascades: bool = False

    @property
    def is_database(self) -> bool:
        return not self.name.table


class Accessing(Protocol):
    """A parsed statement, as far as its locks depend on it."""

    @property
    def accesses(self) -> Sequence[Access]: ...
