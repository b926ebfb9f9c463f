"""Entries of the queue and of the history, read as values."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import (
    ColumnElement,
    select,
)

from compactor.base.errors import NotFound
from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.metastore.queue.queue_rows import CC, CQ, KNOWN_ENDED, KNOWN_QUEUED
from compactor.metastore.queue.queue_table import QueueTable
from compactor.metastore.schema.entity import entity_is
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
)


class Entries:
    """Reads entries of the queue and of the history."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table

    def get(self, entry_id: int) -> Entry:
        """Returns an entry of the queue, or else of the history.

        Raises:
            NotFound: it is in neither of them.
        """
        with self._table.database.read() as conn:
            entries = self._table.rows.queued(
                conn.execute(select(COMPACTION_QUEUE).where(CQ.CQ_ID == entry_id)).mappings()
            )
            if not entries:
                past = select(COMPLETED_COMPACTIONS).where(CC.CC_ID == entry_id)
                entries = self._table.rows.ended(conn.execute(past).mappings())
        if not entries:
            raise NotFound(f"compaction {entry_id} is neither in the queue nor in the history")
        return entries[0]

    def queue(
        self,
        *,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        states: Collection[State] | None = None,
        pool: str | None = None,
        ids: Collection[int] | None = None,
    ) -> list[Entry]:
        """Returns the entries of the queue that match all filters, by id; skips rows that it cannot understand."""
        names: list[tuple[ColumnElement[str], str | None]] = [
            (CQ.CQ_DATABASE, database),
            (CQ.CQ_TABLE, table),
            (CQ.CQ_PARTITION, partition),
        ]
        query = select(COMPACTION_QUEUE).where(KNOWN_QUEUED).order_by(CQ.CQ_ID)
        query = query.where(*(column == value for column, value in names if value is not None))
        if states is not None:
            query = query.where(CQ.CQ_STATE.in_([state.value for state in states]))
        if ids is not None:
            query = query.where(CQ.CQ_ID.in_(ids))
        with self._table.database.read() as conn:
            entries = self._table.rows.readable_queued(conn.execute(query).mappings())
        return [entry for entry in entries if pool is None or entry.pool == pool]

    def working(self) -> list[Entry]:
        """Returns the entries that workers have claimed, by id."""
        return self.queue(states=(State.WORKING,))

    def history(
        self,
        entity: Entity | None = None,
        limit: int | None = None,
        *,
        table: tuple[str, str] | None = None,
        type: CompactionType | None = None,
    ) -> list[Entry]:
        """Returns the entries of the history, newest first.

        ``entity`` selects one entity, ``table`` (database and name) a table with its partitions, ``type`` one type.
        """
        query = select(COMPLETED_COMPACTIONS).where(KNOWN_ENDED).order_by(CC.CC_ID.desc()).limit(limit)
        if entity is not None:
            query = query.where(entity_is(COMPLETED_COMPACTIONS, "CC", entity))
        if table is not None:
            query = query.where(CC.CC_DATABASE == table[0], CC.CC_TABLE == table[1])
        if type is not None:
            query = query.where(CC.CC_TYPE == type.value)
        with self._table.database.read() as conn:
            return self._table.rows.readable_ended(conn.execute(query).mappings())
