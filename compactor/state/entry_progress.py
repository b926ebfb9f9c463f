"""The progress of running compactions, for people who watch them. No correctness depends on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, insert, select

from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.state.state_tables import PROGRESS

_P = PROGRESS.c
_FIGURES = ("units", "units_done", "bytes", "bytes_done", "spent_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The units and input bytes of one entry, and how many of them are done.

    ``spent_ms`` counts from the begin of its units. The database sets ``at`` when it stores the row.
    """

    entry_id: int
    units: int
    units_done: int
    bytes: int
    bytes_done: int
    spent_ms: int
    at: int = 0


class ProgressRows:
    """Reads and writes COMPACTOR_PROGRESS."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @retried
    def put(self, metastore: str, rows: Sequence[Progress]) -> None:
        """Stores rows as of now; each replaces the earlier row of its entry."""
        if not rows:
            return
        with self._database.write() as conn:
            conn.execute(delete(PROGRESS).where(*_is_of(metastore, [progress.entry_id for progress in rows])))
            now = now_ms(conn)
            conn.execute(insert(PROGRESS), [_row(metastore, progress, now) for progress in rows])

    @retried
    def forget(self, metastore: str, entry_ids: Collection[int]) -> None:
        """Removes the rows of entries that have ended."""
        if entry_ids:
            with self._database.write() as conn:
                conn.execute(delete(PROGRESS).where(*_is_of(metastore, entry_ids)))

    def for_entries(self, metastore: str, entry_ids: Collection[int]) -> dict[int, Progress]:
        """Returns the progress of these entries, by entry id; entries without a row are left out."""
        if not entry_ids:
            return {}
        with self._database.read() as conn:
            rows = conn.execute(select(PROGRESS).where(*_is_of(metastore, entry_ids))).mappings().all()
        return {
            row["ENTRY_ID"]: Progress(
                entry_id=row["ENTRY_ID"], at=row["AT"], **{name: row[name.upper()] for name in _FIGURES}
            )
            for row in rows
        }

    @retried
    def purge(self, older_than_ms: int) -> int:
        """Deletes rows that have not changed for longer than this; returns their number."""
        with self._database.write() as conn:
            return conn.execute(delete(PROGRESS).where(_P.AT < now_ms(conn) - older_than_ms)).rowcount


def _is_of(metastore: str, entry_ids: Collection[int]) -> tuple[ColumnElement[bool], ...]:
    return (_P.METASTORE == metastore, _P.ENTRY_ID.in_(entry_ids))


def _row(metastore: str, progress: Progress, now: int) -> dict[str, object]:
    figures = {name.upper(): getattr(progress, name) for name in _FIGURES}
    return {"METASTORE": metastore, "ENTRY_ID": progress.entry_id, "AT": now, **figures}
