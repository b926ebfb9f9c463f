"""The queue and the history, read one page at a time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, case, func, select

from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.database.engine import Database
from compactor.metastore.queue.queue_rows import Rows
from compactor.metastore.schema.tables import COMPACTION_QUEUE, COMPLETED_COMPACTIONS

_TYPES = tuple(kind.value for kind in CompactionType)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPage:
    """A page of rows, and the number of rows on all pages."""

    entries: tuple[Entry, ...]
    total: int


class CompactionLists:
    """Reads COMPACTION_QUEUE and COMPLETED_COMPACTIONS one page at a time."""

    def __init__(self, database: Database, rows: Rows) -> None:
        self._database = database
        self._rows = rows

    def queue(
        self, *, find: str = "", states: Collection[State] | None = None, limit: int, offset: int = 0
    ) -> EntryPage:
        """Returns a page of the queue, oldest first; ``find`` has words of ``db.table/partition``, in any case."""
        query = _select_rows(COMPACTION_QUEUE, "CQ", find, states)
        page = query.order_by(COMPACTION_QUEUE.c.CQ_ID).limit(limit).offset(offset)
        with self._database.read() as conn:
            entries = self._rows.readable_queued(conn.execute(page).mappings())
            return EntryPage(entries=tuple(entries), total=_count(conn, query))

    def history(
        self, *, find: str = "", states: Collection[State] | None = None, limit: int, offset: int = 0
    ) -> EntryPage:
        """Returns a page of the history, newest first; ``find`` as for ``queue``."""
        query = _select_rows(COMPLETED_COMPACTIONS, "CC", find, states)
        page = query.order_by(COMPLETED_COMPACTIONS.c.CC_ID.desc()).limit(limit).offset(offset)
        with self._database.read() as conn:
            entries = self._rows.readable_ended(conn.execute(page).mappings())
            return EntryPage(entries=tuple(entries), total=_count(conn, query))

    def of_entities(self, entities: Collection[Entity]) -> dict[Entity, Entry]:
        """Returns the newest row of the queue for each of these entities that is queued."""
        columns = COMPACTION_QUEUE.c
        tables = sorted({entity.table for entity in entities})
        names = sorted({entity.partition for entity in entities if entity.partition is not None})
        here = columns.CQ_PARTITION.is_(None) | columns.CQ_PARTITION.in_(names)
        query = select(COMPACTION_QUEUE).where(columns.CQ_TYPE.in_(_TYPES), columns.CQ_TABLE.in_(tables), here)
        with self._database.read() as conn:
            entries = self._rows.readable_queued(conn.execute(query.order_by(columns.CQ_ID)).mappings())
        requested = set(entities)
        return {entry.entity: entry for entry in entries if entry.entity in requested}


def _select_rows(table: Table, prefix: str, find: str, states: Collection[State] | None) -> Select[Any]:
    columns = table.c
    query = select(table).where(columns[f"{prefix}_TYPE"].in_(_TYPES))
    if states is not None:
        query = query.where(columns[f"{prefix}_STATE"].in_([state.value for state in states]))
    partition = columns[f"{prefix}_PARTITION"]
    name: ColumnElement[str] = columns[f"{prefix}_DATABASE"] + "." + columns[f"{prefix}_TABLE"]
    name = name + case((partition.is_(None), ""), else_="/" + partition)
    for word in find.lower().split():
        query = query.where(func.lower(name).contains(word, autoescape=True))
    return query


def _count(conn: Any, query: Select[Any]) -> int:
    return int(conn.execute(select(func.count()).select_from(query.subquery())).scalar_one())
