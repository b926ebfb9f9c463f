"""Entries that are ready for cleaning: which are due, which cleaner takes them, how they end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    Connection,
    Delete,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from compactor.base.errors import LostClaim
from compactor.base.ids import WriteId
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.database.clock import now_ms
from compactor.database.engine import retried
from compactor.database.prepared import send_all
from compactor.metastore.queue.queue_rows import CQ, KNOWN_QUEUED, QUEUE, history_row
from compactor.metastore.queue.queue_table import QueueTable
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
)
from compactor.metastore.transactions import components

_READY = State.READY_FOR_CLEANING.value
_RETRIES = select(CQ.CQ_ID, CQ.CQ_DATABASE, CQ.CQ_TABLE, CQ.CQ_PARTITION).where(
    CQ.CQ_TYPE == CompactionType.ABORT_CLEANUP.value, CQ.CQ_STATE == _READY
)
_NOBODY = -1  #: CQ_CLEANER_START without a cleaner (Hive's ``clearCleanerStart``)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedEntry:
    """An entry that is completely cleaned.

    Attributes:
        forgotten: aborted write IDs without files in storage, whose components are deleted.
        all_below: components of all write IDs up to the entry's highest are deleted.
        has_aborted: false if its entity certainly has no component of an aborted transaction.
    """

    entry: Entry
    forgotten: Collection[WriteId] = ()
    all_below: bool = False
    has_aborted: bool = True


class Cleaning:
    """Reads, takes, postpones and ends entries that are ready for cleaning."""

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
        """Returns the entries that wait for ``next_cleaning`` after a failed attempt; ``now`` is epoch ms."""
        return [entry for entry in self._ready_rows() if next_cleaning(entry) > now]

    def _ready_rows(self) -> list[Entry]:
        ready = QUEUE.where(CQ.CQ_STATE == State.READY_FOR_CLEANING.value, KNOWN_QUEUED).order_by(CQ.CQ_ID)
        with self._table.database.read() as conn:
            entries = self._table.rows.readable_queued(conn.execute(ready).mappings())
        return [entry for entry in entries if entry.left_to is None]

    def must_be_ready(self, entry: Entry) -> None:
        """Checks that the entry is still in the queue, ready for cleaning.

        Raises:
            LostClaim: another cleaner has ended it.
        """
        if entry.id not in self.still_ready([entry]):
            raise no_longer_ready(entry)

    def still_ready(self, entries: Collection[Entry]) -> frozenset[int]:
        """Returns the ids of the ``entries`` that are still in the queue, ready for cleaning."""
        waits = select(CQ.CQ_ID).where(CQ.CQ_ID.in_([entry.id for entry in entries]), CQ.CQ_STATE == _READY)
        with self._table.database.read() as conn:
            return frozenset(conn.execute(waits).scalars())

    @retried
    def take(self, entries: Sequence[Entry], lease_ms: int) -> list[Entry]:
        """Takes those of the entries for a cleaner that no other cleaner has, and returns them.

        This only keeps cleaners from doing the same work. A cleaner that has not ended or released an entry within
        ``lease_ms`` counts as dead.
        """
        with self._table.changing() as conn:
            rows = self._table.locked_all(conn, [entry.id for entry in entries])
            now = now_ms(conn)
            free = [entry for entry in entries if _is_free(rows.get(entry.id), now, lease_ms)]
            self._set_start(conn, free, now)
        return free

    @retried
    def release(self, entries: Sequence[Entry]) -> None:
        """Records that no cleaner works on these entries any more."""
        if entries:
            with self._table.changing() as conn:
                self._set_start(conn, entries, _NOBODY)

    def _set_start(self, conn: Connection, entries: Sequence[Entry], start: int) -> None:
        values = {"CQ_CLEANER_START": start}
        ids = [entry.id for entry in entries]
        if ids and (stored := self._table.rows.stored(COMPACTION_QUEUE, values)):
            conn.execute(update(COMPACTION_QUEUE).where(CQ.CQ_ID.in_(ids), CQ.CQ_STATE == _READY).values(**stored))
        self._table.rows.keep(dict.fromkeys(ids, values))

    @retried
    def back_off(self, entry: Entry, retention_ms: int, error: str | None) -> None:
        """Leaves the entry alone for ``retention_ms`` from now.

        Raises:
            LostClaim: the row is no longer ready for cleaning.
        """
        with self._table.changing() as conn:
            values = {
                "CQ_CLEANER_START": now_ms(conn) if retention_ms else _NOBODY,
                "CQ_RETRY_RETENTION": retention_ms,
                "CQ_ERROR_MESSAGE": error,
            }
            self._table.change(conn, _check_ready(entry), values)

    def mark_cleaned(self, entry: Entry, forgotten_write_ids: Collection[WriteId], *, all_below: bool) -> None:
        """Moves a clean entry to the history; see ``mark_all_cleaned``.

        Raises:
            LostClaim: the row is no longer ready for cleaning.
        """
        lost = self.mark_all_cleaned([CleanedEntry(entry=entry, forgotten=forgotten_write_ids, all_below=all_below)])
        if lost:
            raise lost[entry.id]

    @retried
    def mark_all_cleaned(self, cleaned: Sequence[CleanedEntry]) -> dict[int, LostClaim]:
        """Moves clean entries to the history, and deletes the records of the writes that they covered.

        Those writes are no reason to compact any more. Components of aborted transactions without files in storage are
        deleted too. Rows of a table without a partition name never stand for its partitions.

        Returns:
            an error for each entry whose row is no longer ready for cleaning, by id; such an entry is skipped.
        """
        with self._table.changing() as conn:
            rows = self._locked_rows(conn, [clean.entry.id for clean in cleaned])
            matching = [clean for clean in cleaned if _is_as_known(clean.entry, rows.get(clean.entry.id))]
            ended = [clean.entry for clean in matching if clean.entry.type is not CompactionType.ABORT_CLEANUP]
            self._add_history(conn, [rows[entry.id] for entry in ended])
            conn.execute(delete(COMPACTION_QUEUE).where(CQ.CQ_ID.in_([clean.entry.id for clean in matching])))
            self._delete_retries(conn, {entry.entity for entry in ended})
            otherwise = components.in_other_case(conn, [entry.entity for entry in ended])
            names = {
                entry.id: (*components.recorded_forms(conn, entry.entity), *otherwise.get(entry.entity, ()))
                for entry in ended
            }
            _forget_completed(conn, ended, names)
            for clean in matching:
                if clean.has_aborted:
                    upto = clean.entry.highest_write_id if clean.all_below else None
                    components.forget_aborted(conn, self._table.dialect, clean.entry.entity, clean.forgotten, upto)
        done = {clean.entry.id for clean in matching}
        return {clean.entry.id: no_longer_ready(clean.entry) for clean in cleaned if clean.entry.id not in done}

    def _locked_rows(self, conn: Connection, ids: Collection[int]) -> dict[int, Mapping[str, Any]]:
        query = self._table.dialect.for_update(select(COMPACTION_QUEUE).where(CQ.CQ_ID.in_(ids)).order_by(CQ.CQ_ID))
        return {row["CQ_ID"]: dict(row) for row in conn.execute(query).mappings()}

    def _add_history(self, conn: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        now = now_ms(conn)
        ended = {row["CQ_ID"]: history_row(row, State.SUCCEEDED, now, None) for row in rows}
        self._table.rows.keep(
            {number: {name: value for name, value in row.items() if value is not None} for number, row in ended.items()}
        )
        stored = [self._table.rows.stored(COMPLETED_COMPACTIONS, row) for row in ended.values()]
        conn.execute(insert(COMPLETED_COMPACTIONS), stored)

    def _delete_retries(self, conn: Connection, entities: Collection[Entity]) -> None:
        """Deletes the rows with which Hive's cleaner retries to remove aborted writes of the same entities."""
        retries = {
            row.CQ_ID: Entity(database=row.CQ_DATABASE, table=row.CQ_TABLE, partition=row.CQ_PARTITION)
            for row in conn.execute(_RETRIES)
        }
        gone = [number for number, entity in retries.items() if entity in entities]
        if gone:
            conn.execute(delete(COMPACTION_QUEUE).where(CQ.CQ_ID.in_(gone), CQ.CQ_STATE == _READY))


def next_cleaning(entry: Entry) -> int:
    """Returns when a cleaner may try the entry again (epoch ms); 0 for now."""
    return max(entry.cleaner_start or 0, entry.commit_time or 0) + entry.retry_retention if entry.retry_retention else 0


def no_longer_ready(entry: Entry) -> LostClaim:
    """Returns the error for an entry that another cleaner has ended."""
    return LostClaim(f"compaction {entry.id} is no longer ready for cleaning; another cleaner has ended it")


def _check_ready(entry: Entry) -> Entry:
    if entry.state is not State.READY_FOR_CLEANING:
        raise LostClaim(f"compaction {entry.id} is {entry.state.label}; only one ready for cleaning is cleaned")
    return entry


def _is_free(current: Entry | None, now: int, lease_ms: int) -> bool:
    """Returns true if a cleaner may take the entry now, by its current row."""
    if current is None or current.state is not State.READY_FOR_CLEANING:
        return False
    if current.retry_retention:
        return next_cleaning(current) <= now
    return current.cleaner_start is None or current.cleaner_start + lease_ms <= now


def _is_as_known(entry: Entry, row: Mapping[str, Any] | None) -> bool:
    known = (State.READY_FOR_CLEANING, _READY, entry.worker_id)
    return row is not None and known == (entry.state, row["CQ_STATE"], row["CQ_WORKER_ID"])


def _forget_completed(conn: Connection, ended: Iterable[Entry], names: Mapping[int, Sequence[str | None]]) -> None:
    """Deletes COMPLETED_TXN_COMPONENTS up to each entry's highest write ID.

    Rows of Trino have no write ID: the mapping of their transaction decides. Without a mapping they go if their
    transaction is older than the compaction's.
    """
    whole: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for entry in ended:
        if entry.highest_write_id is None:
            continue
        here = {"of_database": entry.entity.database, "of_table": entry.entity.table}
        limits = {"of_highest": entry.highest_write_id, "of_txn": entry.txn_id or 0}
        for name in names[entry.id]:
            if name is None:
                whole.append(here | limits)
            else:
                parts.append(here | limits | {"of_partition": name})
    send_all(conn, _completed(in_partition=False), whole)
    send_all(conn, _completed(in_partition=True), parts)


@cache
def _completed(*, in_partition: bool) -> Delete:
    columns, mapping = COMPLETED_TXN_COMPONENTS.c, TXN_TO_WRITE_ID.c
    mapped = select(mapping.T2W_WRITEID).where(
        mapping.T2W_TXNID == columns.CTC_TXNID,
        mapping.T2W_DATABASE == columns.CTC_DATABASE,
        mapping.T2W_TABLE == columns.CTC_TABLE,
    )
    write_id = func.coalesce(columns.CTC_WRITEID, mapped.scalar_subquery())
    partition = columns.CTC_PARTITION
    return delete(COMPLETED_TXN_COMPONENTS).where(
        columns.CTC_DATABASE == bindparam("of_database"),
        columns.CTC_TABLE == bindparam("of_table"),
        partition == bindparam("of_partition") if in_partition else partition.is_(None),
        or_(
            write_id <= bindparam("of_highest"),
            write_id.is_(None) & (columns.CTC_TXNID < bindparam("of_txn")),  # an old transaction
        ),
    )
