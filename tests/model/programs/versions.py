"""Rows of several tables under snapshot isolation, as plain lists of versions: slow, obvious, nothing of the product in it.

A version of a row was born of one transaction and died of any number of them. A transaction sees the commits that had
happened when its snapshot was taken, of transactions that were opened before it, and itself. Of two that change rows of the
same place the first to commit wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Row(NamedTuple):
    """A row of every table here; ``day`` is the partition where a table has partitions, and else an ordinary column."""

    id: int | None
    note: str | None
    serial: int
    day: str


Places = frozenset[str]  #: of changes: names of tables, and of partitions where a table has some


@dataclass(slots=True, eq=False)
class Version:
    """One version of a row."""

    row: Row
    born: int
    died: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Writer:
    """A transaction, by its number.

    ``began`` is the number of commits when it was opened; ``sees`` is None until its first statement.
    """

    number: int
    began: int
    sees: frozenset[int] | None = None
    changed: set[str] = field(default_factory=set)  #: places in which it deleted, updated or overwrote rows
    written: set[str] = field(default_factory=set)  #: tables that it wrote into
    overwritten: set[str] = field(default_factory=set)  #: places, to which it can add nothing more


class Overwritten(Exception):
    """A transaction adds to what it has overwritten, which no reader would show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The changes of a committed transaction."""

    number: int
    changed: Places
    written: Places


class Model:
    """Tables, as lists of versions, and all commits in their order."""

    def __init__(self, partitioned: Iterable[str], others: Iterable[str]) -> None:
        self._partitioned = frozenset(partitioned)
        self.tables: dict[str, list[Version]] = {name: [] for name in (*partitioned, *others)}
        self.commits: list[Commit] = []
        self._numbers = 0

    def begin(self) -> Writer:
        return Writer(number=self._next_number(), began=len(self.commits))

    def begin_again(self, writer: Writer) -> None:
        """Goes on in a transaction that is opened now, of one that has read and written nothing."""
        assert writer.sees is None
        writer.number, writer.began = self._next_number(), len(self.commits)

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def look(self, writer: Writer) -> None:
        """Fixes the snapshot of a transaction, at its first statement."""
        if writer.sees is None:
            writer.sees = self._open_to(writer)

    def rows(self, table: str, writer: Writer | None = None) -> list[Row]:
        """Returns what a transaction sees, or what a new one would see."""
        return sorted((version.row for version in self._visible(table, writer)), key=repr)

    def change(
        self, writer: Writer, table: str, where: Callable[[Row], bool], added: Callable[[list[Row]], list[Row]]
    ) -> tuple[list[Row], list[Row]]:
        """Deletes what a transaction sees and ``where`` is true of, adds what ``added`` makes of it, and returns both.

        Raises:
            Overwritten: the transaction has overwritten such a place before; nothing is changed.
        """
        gone = [version for version in self._visible(table, writer) if where(version.row)]
        new = added([version.row for version in gone])
        changed = {self._place(table, version.row) for version in gone}
        if not writer.overwritten.isdisjoint(changed | {self._place(table, row) for row in new}):
            raise Overwritten
        self._apply(writer, table, gone, new)
        writer.changed |= changed
        return [version.row for version in gone], new

    def overwrite(self, writer: Writer, table: str, rows: list[Row]) -> None:
        """Puts rows in place of all, or of those of the partitions that they belong to."""
        places = {self._place(table, row) for row in rows} if table in self._partitioned else {table}
        gone = [version for version in self._visible(table, writer) if self._place(table, version.row) in places]
        self._apply(writer, table, gone, rows)
        writer.changed |= places
        writer.overwritten |= places

    def _apply(self, writer: Writer, table: str, gone: list[Version], new: list[Row]) -> None:
        self.look(writer)
        for version in gone:
            version.died.add(writer.number)
        self.tables[table] += [Version(row=row, born=writer.number) for row in new]
        if gone or new:
            writer.written.add(table)

    def must_lose(self, writer: Writer) -> bool:
        """Returns true if a transaction that changed the same place has committed since this one was opened."""
        return any(not commit.changed.isdisjoint(writer.changed) for commit in self.commits[writer.began :])

    def later(self, writer: Writer, table: str, *, changes: bool) -> bool:
        """Returns true if a transaction committed after this one was opened and changed rows of ``table``; unless only
        ``changes`` count also if it wrote into it and this one does not see that."""
        since = self.commits[writer.began :]
        if any(place.split("/")[0] == table for commit in since for place in commit.changed):
            return True
        unseen = [commit for commit in since if writer.sees is not None and commit.number not in writer.sees]
        return not changes and any(table in commit.written for commit in unseen)

    def commit(self, writer: Writer) -> None:
        """Commits; no row may be changed by two transactions of which neither saw the other."""
        committed = {commit.number for commit in self.commits}
        for table, versions in self.tables.items():
            for version in versions:
                assert writer.number not in version.died or not version.died & committed, f"{table}: lost {version}"
        self.commits.append(
            Commit(number=writer.number, changed=frozenset(writer.changed), written=frozenset(writer.written))
        )

    def _visible(self, table: str, writer: Writer | None) -> list[Version]:
        if writer is None:
            seen = {commit.number for commit in self.commits}
        else:
            seen = {*(self._open_to(writer) if writer.sees is None else writer.sees), writer.number}
        return [v for v in self.tables[table] if v.born in seen and v.died.isdisjoint(seen)]

    def _open_to(self, writer: Writer) -> frozenset[int]:
        """Returns the commits that a snapshot shows which is taken now; Hive's ends at the transaction's own ID."""
        return frozenset(commit.number for commit in self.commits if commit.number < writer.number)

    def _place(self, table: str, row: Row) -> str:
        return f"{table}/{row.day}" if table in self._partitioned else table
