"""Figures of finished compactions, and the progress of running ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, RowMapping, and_, delete, func, insert, or_, select

from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.database.prepared import in_parts
from compactor.state.state_tables import PROGRESS, RUNS, UNDONE

_R = RUNS.c
DAY_MS = 86_400_000
_AT_ONCE = 100  #: tables and partitions in one statement


_PROGRESS = PROGRESS.c
_PROGRESS_FIGURES = ("units", "units_done", "bytes", "bytes_done", "spent_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The figures of one compaction, before and after.

    ``ended_at`` is the time of its commit (epoch ms); without it, the database sets the time at which it stores them.
    """

    metastore: str
    entry_id: int
    entity: Entity
    type: CompactionType
    txn: TxnId | None = None
    worker_id: str | None = None
    directories_before: int = 0
    directories_after: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows_in: int = 0
    rows_out: int = 0
    stripes_copied: int = 0
    stripes_reencoded: int = 0
    stripes_dropped: int = 0
    seconds: float = 0.0
    bytes_copied: int | None = None  #: of ``bytes_after``; None in rows of releases that did not count them
    deltas_left: int = 0  #: because of a bound of the request
    bytes_left: int = 0
    opening_before: float | None = None  #: seconds that a reader takes to open the input; None if not measured
    opening_after: float | None = None  #: the same for the output
    bytes_taken_over: int | None = None  #: part of ``bytes_copied`` that the store or file system copied; None as there
    store: str | None = None  #: scheme of its location; None in rows of releases that did not keep it
    together: int = 1  #: entries that its worker took at once; each waits for the others
    core_seconds: float | None = None  #: processor time of its units; None as there
    group_key: str | None = None  #: shared by the entries that its worker took at once; None for one alone
    expected_seconds: float | None = None  #: prediction from the runs of earlier batches; None if there were too few
    expected_low: float | None = None  #: four of five runs take between this and ``expected_high``
    expected_high: float | None = None
    ended_at: int | None = None


class DayOfRuns(NamedTuple):
    """Sums over the runs that committed on one day (UTC).

    ``fewer_directories`` and ``fewer_files`` are those that readers no longer read, and ``opening`` is the number of seconds
    by which the measured inputs became faster to open. These three leave out runs that a restore has undone.
    """

    day: int  #: its first millisecond, epoch ms
    runs: int
    fewer_directories: int
    fewer_files: int
    bytes_moved: int
    seconds: float
    core_seconds: float
    opening: float


#: Fields that are columns of the same name in upper case.
_FIGURES = (
    "directories_before",
    "directories_after",
    "files_before",
    "files_after",
    "bytes_before",
    "bytes_after",
    "rows_in",
    "rows_out",
    "stripes_copied",
    "stripes_reencoded",
    "stripes_dropped",
    "seconds",
    "bytes_copied",
    "deltas_left",
    "bytes_left",
    "opening_before",
    "opening_after",
    "bytes_taken_over",
    "store",
    "together",
    "core_seconds",
    "expected_seconds",
    "expected_low",
    "expected_high",
    "group_key",
)


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


class Runs:
    """Reads and writes COMPACTOR_RUNS and COMPACTOR_PROGRESS. No correctness depends on progress."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run: Run) -> None:
        """Stores one run."""
        self.add_all([run])

    @retried
    def add_all(self, runs: Sequence[Run]) -> None:
        """Stores runs."""
        if not runs:
            return
        with self._database.write() as conn:
            now = now_ms(conn)
            conn.execute(insert(RUNS), [{"ENDED_AT": now} | _row(run) for run in runs])

    def of_entry(self, metastore: str, entry_id: int) -> list[Run]:
        """Returns the runs of one entry, newest first."""
        query = select(RUNS).where(_R.METASTORE == metastore, _R.ENTRY_ID == entry_id).order_by(_R.RUN_ID.desc())
        with self._database.read() as conn:
            return [_run(row) for row in conn.execute(query).mappings()]

    def of_entries(self, metastore: str, entry_ids: Collection[int]) -> dict[int, Run]:
        """Returns the newest run of each of these entries that Compactor has compacted."""
        query = select(RUNS).where(_R.METASTORE == metastore, _R.ENTRY_ID.in_(entry_ids)).order_by(_R.RUN_ID)
        with self._database.read() as conn:
            return {row["ENTRY_ID"]: _run(row) for row in conn.execute(query).mappings()}

    def remainders(self, metastore: str) -> dict[int, tuple[int, int]]:
        """Returns the deltas and bytes that bounded requests left to later ones, by entry."""
        query = select(_R.ENTRY_ID, _R.DELTAS_LEFT, _R.BYTES_LEFT).where(_R.METASTORE == metastore, _R.DELTAS_LEFT > 0)
        with self._database.read() as conn:
            return {row.ENTRY_ID: (row.DELTAS_LEFT, row.BYTES_LEFT) for row in conn.execute(query)}

    def openings(self, metastore: str) -> dict[int, tuple[float, float]]:
        """Returns the measured seconds to open the input and the output, by entry."""
        query = select(_R.ENTRY_ID, _R.OPENING_BEFORE, _R.OPENING_AFTER).where(
            _R.METASTORE == metastore, _R.OPENING_BEFORE.is_not(None), _R.OPENING_AFTER.is_not(None)
        )
        with self._database.read() as conn:
            return {row.ENTRY_ID: (row.OPENING_BEFORE, row.OPENING_AFTER) for row in conn.execute(query)}

    def latest(self, metastore: str, limit: int = 100, *, entity: Entity | None = None) -> list[Run]:
        """Returns the newest runs, newest first; of one entity, or of all."""
        query = select(RUNS).where(_R.METASTORE == metastore).limit(limit)
        if entity is None:
            query = query.order_by(_R.ENDED_AT.desc(), _R.RUN_ID.desc())  # as the index has them
        else:
            query = query.order_by(_R.RUN_ID.desc()).where(_is_of(entity))
        with self._database.read() as conn:
            return [_run(row) for row in conn.execute(query).mappings()]

    def newest_of(self, metastore: str, entities: Collection[Entity]) -> dict[Entity, Run]:
        """Returns the newest run of each of these tables and partitions that Compactor has compacted."""
        newest_runs: dict[Entity, Run] = {}
        with self._database.read() as conn:
            for batch in in_parts(list(dict.fromkeys(entities)), _AT_ONCE):
                newest = select(func.max(_R.RUN_ID)).where(_R.METASTORE == metastore, or_(*map(_is_of, batch)))
                newest = newest.group_by(_R.DB_NAME, _R.TABLE_NAME, _R.PART_NAME)
                ids = conn.execute(newest).scalars().all()
                rows = conn.execute(select(RUNS).where(_R.RUN_ID.in_(ids))).mappings()
                newest_runs |= {run.entity: run for run in map(_run, rows)}
        return newest_runs

    def of_table(self, metastore: str, database: str, table: str, since: int, limit: int) -> list[Run]:
        """Returns the newest runs of a table and its partitions, newest first.

        ``since`` (epoch ms) bounds their ends.
        """
        query = select(RUNS).where(_R.METASTORE == metastore, _R.DB_NAME == database, _R.TABLE_NAME == table)
        query = query.where(_R.ENDED_AT >= since).order_by(_R.RUN_ID.desc()).limit(limit)
        with self._database.read() as conn:
            return [_run(row) for row in conn.execute(query).mappings()]

    def tables_since(self, metastore: str, at: int) -> dict[tuple[str, str], int]:
        """Counts the runs of each database and table that ended at ``at`` (epoch ms) or later."""
        query = select(_R.DB_NAME, _R.TABLE_NAME, func.count()).where(_R.METASTORE == metastore, _R.ENDED_AT >= at)
        with self._database.read() as conn:
            rows = conn.execute(query.group_by(_R.DB_NAME, _R.TABLE_NAME)).all()
        return {(database, table): int(n) for database, table, n in rows}

    def over_store(self, metastore: str, store: str, limit: int, *, before: int | None = None) -> list[Run]:
        """Returns the newest runs over a store, newest first; with ``before`` (epoch ms), earlier ones."""
        query = select(RUNS).where(_R.METASTORE == metastore, _R.STORE == store)
        if before is not None:
            query = query.where(_R.ENDED_AT < before)
        query = query.order_by(_R.ENDED_AT.desc(), _R.RUN_ID.desc()).limit(limit)
        with self._database.read() as conn:
            return [_run(row) for row in conn.execute(query).mappings()]

    def since(self, metastore: str, at: int) -> list[Run]:
        """Returns the runs that ended at ``at`` (epoch ms) or later, oldest first."""
        query = select(RUNS).where(_R.METASTORE == metastore, _R.ENDED_AT >= at).order_by(_R.ENDED_AT, _R.RUN_ID)
        with self._database.read() as conn:
            return [_run(row) for row in conn.execute(query).mappings()]

    def days(self, metastore: str, since: int) -> list[DayOfRuns]:
        """Returns the sums of each day with commits at ``since`` (epoch ms) or later, oldest first."""
        day = (_R.ENDED_AT // DAY_MS).label("day")
        gains = (
            func.sum(_R.DIRECTORIES_BEFORE - _R.DIRECTORIES_AFTER),
            func.sum(_R.FILES_BEFORE - _R.FILES_AFTER),
            func.coalesce(func.sum(_R.OPENING_BEFORE - _R.OPENING_AFTER), 0.0),
        )
        costs = (
            func.count(),
            func.sum(_R.BYTES_BEFORE + _R.BYTES_AFTER - 2 * func.coalesce(_R.BYTES_TAKEN_OVER, 0)),
            func.sum(_R.SECONDS),
            func.coalesce(func.sum(_R.CORE_SECONDS), 0.0),
        )
        here = (_R.METASTORE == metastore, _R.ENDED_AT >= since)
        query = select(day, *gains, *costs).where(*here).group_by(day).order_by(day)
        # The undone ones are few, and subtracting them keeps the sums within the index.
        undone = select(UNDONE.c.ENTRY_ID).where(UNDONE.c.METASTORE == metastore)
        lost = select(day, *gains).where(*here, _R.ENTRY_ID.in_(undone)).group_by(day)
        with self._database.read() as conn:
            rows = conn.execute(query).all()
            undone_gains = {row[0]: row[1:] for row in conn.execute(lost)}
        days = []
        for at, directories, files, opening, runs, moved, seconds, cores in rows:
            less_directories, less_files, less_opening = undone_gains.get(at, (0, 0, 0.0))
            days.append(
                DayOfRuns(
                    day=int(at) * DAY_MS,
                    runs=int(runs),
                    fewer_directories=int(directories - less_directories),
                    fewer_files=int(files - less_files),
                    bytes_moved=int(moved),
                    seconds=float(seconds),
                    core_seconds=float(cores),
                    opening=float(opening) - float(less_opening),
                )
            )
        return days

    @retried
    def purge(self, older_than_ms: int) -> int:
        """Deletes runs that ended longer ago than this; returns their number."""
        with self._database.write() as conn:
            return conn.execute(delete(RUNS).where(_R.ENDED_AT < now_ms(conn) - older_than_ms)).rowcount

    @retried
    def record_progress(self, metastore: str, rows: Sequence[Progress]) -> None:
        """Stores rows as of now; each replaces the earlier row of its entry."""
        if not rows:
            return
        with self._database.write() as conn:
            conn.execute(delete(PROGRESS).where(*_is_progress_of(metastore, [progress.entry_id for progress in rows])))
            now = now_ms(conn)
            conn.execute(insert(PROGRESS), [_progress_row(metastore, progress, now) for progress in rows])

    @retried
    def forget_progress(self, metastore: str, entry_ids: Collection[int]) -> None:
        """Removes the rows of entries that have ended."""
        if entry_ids:
            with self._database.write() as conn:
                conn.execute(delete(PROGRESS).where(*_is_progress_of(metastore, entry_ids)))

    def progress(self, metastore: str, entry_ids: Collection[int]) -> dict[int, Progress]:
        """Returns the progress of these entries, by entry id; entries without a row are left out."""
        if not entry_ids:
            return {}
        with self._database.read() as conn:
            rows = conn.execute(select(PROGRESS).where(*_is_progress_of(metastore, entry_ids))).mappings().all()
        return {
            row["ENTRY_ID"]: Progress(
                entry_id=row["ENTRY_ID"], at=row["AT"], **{name: row[name.upper()] for name in _PROGRESS_FIGURES}
            )
            for row in rows
        }

    @retried
    def purge_progress(self, older_than_ms: int) -> int:
        """Deletes rows that have not changed for longer than this; returns their number."""
        with self._database.write() as conn:
            return conn.execute(delete(PROGRESS).where(_PROGRESS.AT < now_ms(conn) - older_than_ms)).rowcount


def _is_of(entity: Entity) -> ColumnElement[bool]:
    part = _R.PART_NAME.is_not_distinct_from(entity.partition)
    return and_(_R.DB_NAME == entity.database, _R.TABLE_NAME == entity.table, part)


def _row(run: Run) -> dict[str, object]:
    return {
        "METASTORE": run.metastore,
        "ENTRY_ID": run.entry_id,
        "DB_NAME": run.entity.database,
        "TABLE_NAME": run.entity.table,
        "PART_NAME": run.entity.partition,
        "TYPE": run.type.label,
        "TXN_ID": run.txn,
        "WORKER_ID": run.worker_id,
        **({} if run.ended_at is None else {"ENDED_AT": run.ended_at}),
        **{name.upper(): getattr(run, name) for name in _FIGURES},
    }


def _run(row: RowMapping) -> Run:
    return Run(
        metastore=row["METASTORE"],
        entry_id=row["ENTRY_ID"],
        entity=Entity(database=row["DB_NAME"], table=row["TABLE_NAME"], partition=row["PART_NAME"]),
        type=CompactionType[row["TYPE"]],
        txn=row["TXN_ID"],
        worker_id=row["WORKER_ID"],
        ended_at=row["ENDED_AT"],
        **{name: row[name.upper()] for name in _FIGURES},
    )


def _is_progress_of(metastore: str, entry_ids: Collection[int]) -> tuple[ColumnElement[bool], ...]:
    return (_PROGRESS.METASTORE == metastore, _PROGRESS.ENTRY_ID.in_(entry_ids))


def _progress_row(metastore: str, progress: Progress, now: int) -> dict[str, object]:
    figures = {name.upper(): getattr(progress, name) for name in _PROGRESS_FIGURES}
    return {"METASTORE": metastore, "ENTRY_ID": progress.entry_id, "AT": now, **figures}
