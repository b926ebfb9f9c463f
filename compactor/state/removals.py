"""The fate of the files that compactions replaced: removed for good, or put back by a restore."""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import delete, func, insert, select

from compactor.compaction.queue_entry import Entity
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.database.prepared import in_parts
from compactor.state.runs import DAY_MS
from compactor.state.state_tables import REMOVALS, UNDONE, lock_state

_R, _U = REMOVALS.c, UNDONE.c
_AT_ONCE = 500  #: entries in one statement


class Cause(enum.Enum):
    """The reason for which directories were removed from storage."""

    CLEANED = "cleaned"  #: a compaction had replaced them
    ERASED = "erased"  #: their time in quarantine was over
    ABORTED = "aborted"  #: only aborted transactions had written them


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Directories and files that are gone from storage.

    ``entry_id`` is None for aborted writes without an entry.
    """

    entity: Entity
    cause: Cause
    directories: int
    files: int
    bytes: int
    entry_id: int | None = None


class EntryRemovals(NamedTuple):
    """The removals of one entry in numbers; ``at`` is the time of the last one (epoch ms)."""

    at: int
    directories: int
    files: int
    bytes: int


class DayOfRemovals(NamedTuple):
    """Sums over the removals of one day (UTC)."""

    day: int  #: its first millisecond, epoch ms
    directories: int
    files: int
    bytes: int


class Undone(NamedTuple):
    """A compaction that a restore undid at ``at`` (epoch ms)."""

    entity: Entity
    at: int


class Removals:
    """Reads and writes COMPACTOR_REMOVALS and COMPACTOR_UNDONE. No correctness depends on them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @retried
    def add_all(self, metastore: str, removals: Sequence[Removal]) -> None:
        """Stores removals that have just been made; one of nothing is left out."""
        real = [removal for removal in removals if removal.directories or removal.files]
        if not real:
            return
        with self._database.write() as conn:
            now = now_ms(conn)
            rows = [
                {
                    "METASTORE": metastore,
                    "ENTRY_ID": removal.entry_id,
                    "DB_NAME": removal.entity.database,
                    "TABLE_NAME": removal.entity.table,
                    "PART_NAME": removal.entity.partition,
                    "CAUSE": removal.cause.value,
                    "DIRECTORIES": removal.directories,
                    "FILES": removal.files,
                    "BYTES": removal.bytes,
                    "AT": now,
                }
                for removal in real
            ]
            conn.execute(insert(REMOVALS), rows)

    def of_entries(self, metastore: str, entry_ids: Collection[int]) -> dict[int, EntryRemovals]:
        """Returns what was removed for each of these entries, by entry id; others are left out."""
        sums = (func.max(_R.AT), func.sum(_R.DIRECTORIES), func.sum(_R.FILES), func.sum(_R.BYTES))
        query = select(_R.ENTRY_ID, *sums).where(_R.METASTORE == metastore).group_by(_R.ENTRY_ID)
        removed: dict[int, EntryRemovals] = {}
        with self._database.read() as conn:
            for part in in_parts(list(entry_ids), _AT_ONCE):
                for entry_id, *figures in conn.execute(query.where(_R.ENTRY_ID.in_(part))):
                    removed[entry_id] = EntryRemovals(*map(int, figures))
        return removed

    def days(self, metastore: str, since: int) -> list[DayOfRemovals]:
        """Returns the sums of each day with removals at ``since`` (epoch ms) or later, oldest first."""
        day = _R.AT // DAY_MS
        sums = (func.sum(_R.DIRECTORIES), func.sum(_R.FILES), func.sum(_R.BYTES))
        query = select(day.label("day"), *sums).where(_R.METASTORE == metastore, _R.AT >= since)
        with self._database.read() as conn:
            rows = conn.execute(query.group_by(day).order_by(day)).all()
        return [DayOfRemovals(int(at) * DAY_MS, *map(int, figures)) for at, *figures in rows]

    @retried
    def note_undone(self, metastore: str, entry_id: int, entity: Entity) -> None:
        """Stores that a restore has undone this compaction."""
        with self._database.write() as conn:
            lock_state(conn)
            conn.execute(delete(UNDONE).where(_U.METASTORE == metastore, _U.ENTRY_ID == entry_id))
            values = {"DB_NAME": entity.database, "TABLE_NAME": entity.table, "PART_NAME": entity.partition}
            conn.execute(insert(UNDONE).values(METASTORE=metastore, ENTRY_ID=entry_id, AT=now_ms(conn), **values))

    def undone(self, metastore: str) -> dict[int, Undone]:
        """Returns the compactions that restores have undone, by entry id, in the order of the restores."""
        with self._database.read() as conn:
            rows = conn.execute(select(UNDONE).where(_U.METASTORE == metastore).order_by(_U.AT)).mappings().all()
        return {
            row["ENTRY_ID"]: Undone(
                Entity(database=row["DB_NAME"], table=row["TABLE_NAME"], partition=row["PART_NAME"]), row["AT"]
            )
            for row in rows
        }

    @retried
    def purge(self, older_than_ms: int) -> int:
        """Deletes what happened longer ago than this; returns the number of rows."""
        with self._database.write() as conn:
            limit = now_ms(conn) - older_than_ms
            removed = conn.execute(delete(REMOVALS).where(_R.AT < limit)).rowcount
            return removed + conn.execute(delete(UNDONE).where(_U.AT < limit)).rowcount
