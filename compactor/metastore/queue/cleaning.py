"""Entries ready for cleaning: those that are due, and how they end."""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.
from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    func,
    or_,
    select,
)

from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.database.clock import now_ms
from compactor.database.retry import retried
from compactor.errors import LostClaim
from compactor.ids import WriteId
from compactor.metastore.queue.rows import CQ, KNOWN_QUEUED
from compactor.metastore.queue.table import QueueTable
from compactor.metastore.schema.entity import entity_is
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    COMPLETED_TXN_COMPONENTS,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
)
from compactor.metastore.transactions import components


class Cleaning:
    """Reads, postpones and ends entries that are ready for cleaning."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table

    def ready_for_cleaning(self, now: int) -> list[Entry]:
        """Returns the entries to clean now: the oldest of each entity, unless it is in its retry back-off.

        The back-off counts from the last attempt, or from the commit if there was none. ``now`` is epoch ms.
        """
        due = [entry for entry in self._ready_rows() if next_cleaning(entry) <= now]
        lowest: dict[Entity, WriteId] = {}
        for entry in due:
            if entry.highest_write_id is not None:
                known = lowest.get(entry.entity, entry.highest_write_id)
                lowest[entry.entity] = min(known, entry.highest_write_id)
        return [
            entry for entry in due if entry.highest_write_id is None or entry.highest_write_id == lowest[entry.entity]
        ]

    def backing_off(self, now: int) -> list[Entry]:
        """Returns the entries that could not be cleaned and wait until ``next_cleaning``; ``now`` is epoch ms."""
        return [entry for entry in self._ready_rows() if next_cleaning(entry) > now]

    def _ready_rows(self) -> list[Entry]:
        with self._table.database.read() as conn:
            ready = select(COMPACTION_QUEUE).where(CQ.CQ_STATE == State.READY_FOR_CLEANING.value, KNOWN_QUEUED)
            return list(self._table.rows.readable_queued(conn.execute(ready.order_by(CQ.CQ_ID)).mappings()))

    def must_be_ready(self, entry: Entry) -> None:
        """Checks that the entry is still in the queue, ready for cleaning.

        Raises:
            LostClaim: it is not: another cleaner has ended it.
        """
        waits = select(CQ.CQ_ID).where(CQ.CQ_ID == entry.id, CQ.CQ_STATE == State.READY_FOR_CLEANING.value)
        with self._table.database.read() as conn:
            if conn.execute(waits).first() is None:
                raise LostClaim(f"compaction {entry.id} is no longer ready for cleaning; somebody else has ended it")

    @retried
    def mark_cleaner_start(self, entry: Entry) -> None:
        """Records that a cleaner looks at the entry now.

        Raises:
            LostClaim: the row is no longer ready for cleaning.
        """
        with self._table.changing() as conn:
            self._table.change(conn, _ready(entry), {"CQ_CLEANER_START": now_ms(conn)})

    @retried
    def back_off(self, entry: Entry, retention_ms: int, error: str | None) -> None:
        """Leaves the entry alone for ``retention_ms`` from now.

        Raises:
            LostClaim: the row is no longer ready for cleaning.
        """
        with self._table.changing() as conn:
            values = {
                "CQ_CLEANER_START": now_ms(conn),
                "CQ_RETRY_RETENTION": retention_ms,
                "CQ_ERROR_MESSAGE": error,
            }
            self._table.change(conn, _ready(entry), values)

    @retried
    def mark_cleaned(self, entry: Entry, forgotten_write_ids: Collection[WriteId], *, all_below: bool) -> None:
        """Moves a clean entry to the history; the writes that it covered are no longer a reason to compact.

        Components of aborted transactions go once none of their files is in storage: with ``all_below`` those of every
        write ID up to the entry's highest, otherwise those of ``forgotten_write_ids``. Only this entity's own rows go:
        a table without partition name never takes the rows of its partitions along.

        Raises:
            LostClaim: the row is no longer ready for cleaning.
        """
        _ready(entry)
        with self._table.changing() as conn:
            names = components.recorded_forms(conn, self._table.dialect, entry.entity)
            retries = entity_is(COMPACTION_QUEUE, "CQ", entry.entity)
            if entry.type is CompactionType.ABORT_CLEANUP:
                self._table.delete(conn, entry)
            else:
                self._table.end(conn, entry, State.SUCCEEDED, None)
                leftover = (CQ.CQ_TYPE == CompactionType.ABORT_CLEANUP.value) & (CQ.CQ_STATE == "r")
                conn.execute(delete(COMPACTION_QUEUE).where(retries, leftover))
                _forget_completed(conn, entry, names)
            gone = _aborted(entry, forgotten_write_ids, all_below=all_below)
            components.forget_aborted(conn, self._table.dialect, entry.entity, gone)


def next_cleaning(entry: Entry) -> int:
    """Returns the epoch ms at which a cleaner looks at the entry again; 0 if it may do so now."""
    return max(entry.cleaner_start or 0, entry.commit_time or 0) + entry.retry_retention if entry.retry_retention else 0


def _ready(entry: Entry) -> Entry:
    if entry.state is not State.READY_FOR_CLEANING:
        raise LostClaim(f"compaction {entry.id} is {entry.state.label}; only one ready for cleaning is cleaned")
    return entry


def _forget_completed(conn: Connection, entry: Entry, names: Sequence[str | None]) -> None:
    """Deletes COMPLETED_TXN_COMPONENTS up to the entry's highest write ID; rows of Trino have none and go by mapping."""
    if entry.highest_write_id is None:
        return
    columns, mapping = COMPLETED_TXN_COMPONENTS.c, TXN_TO_WRITE_ID.c
    here = entity_is(COMPLETED_TXN_COMPONENTS, "CTC", entry.entity, *names)
    mapped = select(mapping.T2W_WRITEID).where(
        mapping.T2W_TXNID == columns.CTC_TXNID,
        mapping.T2W_DATABASE == columns.CTC_DATABASE,
        mapping.T2W_TABLE == columns.CTC_TABLE,
    )
    write_id = func.coalesce(columns.CTC_WRITEID, mapped.scalar_subquery())
    conn.execute(delete(COMPLETED_TXN_COMPONENTS).where(here, write_id <= entry.highest_write_id))
    if entry.txn_id is not None:
        # Neither a write ID nor a mapping: the transaction ended long ago.
        unknown = write_id.is_(None) & (columns.CTC_TXNID < entry.txn_id)
        conn.execute(delete(COMPLETED_TXN_COMPONENTS).where(here, unknown))


def _aborted(entry: Entry, write_ids: Collection[WriteId], *, all_below: bool) -> ColumnElement[bool]:
    columns = TXN_COMPONENTS.c
    gone: ColumnElement[bool] = columns.TC_WRITEID.in_(write_ids)
    if all_below and entry.highest_write_id is not None:
        gone = or_(gone, columns.TC_WRITEID <= entry.highest_write_id)
    return gone
