"""The order in which a pass goes through candidates, a few tables at a time to limit memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compactor.compaction.queue_entry import Entity

ROWS = 50_000  #: recorded writes of the tables of one portion, unless one table alone has more
TABLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Some tables, as pairs of database and name.

    A pass begins inside a table, with the entities ``after`` the one at which the last pass ended. It ends in the same
    table, with those ``until`` it.
    """

    tables: tuple[tuple[str, str], ...]
    after: Entity | None = None
    until: Entity | None = None

    def filter_partitions(self, partitions: Iterable[str | None]) -> list[str | None]:
        """Returns the partitions of a table in this portion, sorted; None (the table as a whole) comes first."""
        named = list(partitions)
        # the order of ``_key``, without calling it for each name
        names = [*(name for name in named if name is None), *sorted(name for name in named if name is not None)]
        begin = 0 if self.after is None else bisect_right(names, _key(self.after.partition), key=_key)
        end = len(names) if self.until is None else bisect_right(names, _key(self.until.partition), key=_key)
        return names[begin:end]

    def count(self, partitions: Collection[str | None]) -> int:
        """Returns how many of a table's partitions are in this portion."""
        if self.after is None and self.until is None:
            return len(partitions)
        return len(self.filter_partitions(partitions))


def _key(partition: str | None) -> str:
    return partition or ""


def split_portions(tables: Mapping[tuple[str, str], int], after: Entity | None) -> Iterator[Portion]:
    """Yields all ``tables`` in the order of ``eligibility.order``: from ``after`` on, once around.

    Args:
        tables: each with the number of its recorded writes.
    """
    ordered = sorted(tables)
    if after is None:
        yield from _fill_portions(ordered, tables)
        return
    first = (after.database, after.table)
    if first in tables:
        yield Portion(tables=(first,), after=after)
    yield from _fill_portions([table for table in ordered if table > first], tables)
    yield from _fill_portions([table for table in ordered if table < first], tables)
    if first in tables:
        yield Portion(tables=(first,), until=after)


def _fill_portions(ordered: Sequence[tuple[str, str]], sizes: Mapping[tuple[str, str], int]) -> Iterator[Portion]:
    filled: list[tuple[str, str]] = []
    rows = 0
    for table in ordered:
        if filled and (rows + sizes[table] > ROWS or len(filled) == TABLES):
            yield Portion(tables=tuple(filled))
            filled, rows = [], 0
        filled.append(table)
        rows += sizes[table]
    if filled:
        yield Portion(tables=tuple(filled))
