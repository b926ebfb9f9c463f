"""The history of many entities in figures, without reading all of its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select, true, tuple_

from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import State
from compactor.metastore.queue.queue_rows import CC, KNOWN_ENDED
from compactor.metastore.queue.queue_table import QueueTable
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import COMPLETED_COMPACTIONS

_FINE = CC.CC_STATE == State.SUCCEEDED.value


class Ended(NamedTuple):
    """The compactions of one entity that have ended."""

    newest: int = 0  #: the largest id; 0 if there are none
    at: int = 0  #: the last end, epoch ms
    succeeded_at: int | None = None  #: the end of the last one that succeeded, epoch ms
    others: int = 0  #: the number of compactions that did not succeed


class EndedEntries:
    """Reads figures of the history."""

    def __init__(self, table: QueueTable, dialect: Dialect) -> None:
        self._table = table
        names = (CC.CC_DATABASE, CC.CC_TABLE, CC.CC_PARTITION)
        self._names = [dialect.exactly(name) for name in names]

    def for_tables(
        self, tables: Collection[tuple[str, str]], partitions: Collection[str | None] | None = None
    ) -> dict[tuple[str, str], dict[str | None, Ended]]:
        """Returns the ended compactions of each of ``tables``, by partition; with ``partitions`` only of these."""
        ended: dict[tuple[str, str], dict[str | None, Ended]] = {table: {} for table in tables}
        figures = (
            func.max(CC.CC_ID),
            func.max(CC.CC_END),
            func.max(case((_FINE, CC.CC_END), else_=None)),
            func.sum(case((_FINE, 0), else_=1)),
        )
        names = [name.label(f"name{number}") for number, name in enumerate(self._names)]
        query: Select[Any] = select(*names, *figures).where(KNOWN_ENDED, _of_tables(tables), _of_partitions(partitions))
        query = query.group_by(*self._names)
        with self._table.database.read() as conn:
            for database, table, partition, newest, at, end, others in conn.execute(query).all():
                if (of_table := ended.get((database, table))) is not None:
                    of_table[partition] = Ended(newest, at or 0, end or None, int(others))
        return ended

    def entries(
        self, tables: Collection[tuple[str, str]], partitions: Collection[str | None] | None = None
    ) -> Mapping[Entity, Sequence[Entry]]:
        """Returns the whole history, newest first, of the entities of ``tables`` with a compaction that did not succeed.

        With ``partitions``, only these count.
        """
        key = tuple_(CC.CC_DATABASE, CC.CC_TABLE, func.coalesce(CC.CC_PARTITION, ""))
        troubled = COMPLETED_COMPACTIONS.alias("TROUBLED").c
        theirs = select(troubled.CC_DATABASE, troubled.CC_TABLE, func.coalesce(troubled.CC_PARTITION, "")).where(
            troubled.CC_STATE != State.SUCCEEDED.value,
            _of_tables(tables, troubled),
            _of_partitions(partitions, troubled),
        )
        query = select(COMPLETED_COMPACTIONS).where(KNOWN_ENDED, _of_tables(tables), key.in_(theirs))
        with self._table.database.read() as conn:
            rows = conn.execute(query.order_by(CC.CC_ID.desc())).mappings()
            read = self._table.rows.readable_ended(rows)
        by_entity: defaultdict[Entity, list[Entry]] = defaultdict(list)
        for entry in read:
            by_entity[entry.entity].append(entry)
        # MySQL's comparison of names, which uses the index, ignores case and finds other entities too.
        return {
            entity: entries
            for entity, entries in by_entity.items()
            if any(entry.state is not State.SUCCEEDED for entry in entries)
        }

    def since(self, at: int) -> set[Entity]:
        """Returns the entities of which a compaction has ended at ``at`` (epoch ms) or later."""
        names = [name.label(f"name{number}") for number, name in enumerate(self._names)]
        query = select(*names).where(KNOWN_ENDED, CC.CC_END >= at).distinct()
        with self._table.database.read() as conn:
            return {
                Entity(database=database, table=table, partition=partition)
                for database, table, partition in conn.execute(query)
            }


def _of_tables(tables: Collection[tuple[str, str]], columns: Any = CC) -> ColumnElement[bool]:
    """Returns a condition that all rows of ``tables`` meet, and some others with one of their names."""
    databases, names = {database for database, _ in tables}, {table for _, table in tables}
    return and_(columns.CC_DATABASE.in_(databases), columns.CC_TABLE.in_(names))


def _of_partitions(partitions: Collection[str | None] | None, columns: Any = CC) -> ColumnElement[bool]:
    """Returns the condition for rows of ``partitions``; a None in it means the table itself, no list all rows."""
    if partitions is None:
        return true()
    named = columns.CC_PARTITION.in_({name for name in partitions if name is not None})
    return or_(columns.CC_PARTITION.is_(None), named) if None in partitions else named
