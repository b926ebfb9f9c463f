"""Statistics in the database transaction that commits compactions.

They are read before the transaction locks TXN_LOCK_TBL, and written while it holds that lock.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from sqlalchemy import Connection, inspect

from compactor.base.ids import WriteId
from compactor.base.steps import Step, reach
from compactor.database.clock import now_ms
from compactor.database.prepared import savepoint
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.statistics import subjects as rows
from compactor.metastore.statistics.changed_statistics import Changes, find_changes
from compactor.metastore.statistics.commit_statistics import StoredStatistics, Subject
from compactor.metastore.statistics.concurrent_writers import without_other_writers
from compactor.metastore.statistics.subjects import TAB_COL_STATS, Subjects
from compactor.metastore.transactions.write_id_rows import WriteIds

_log = logging.getLogger(__name__)
_MAX_REASONS = 16  #: reasons that one process logs


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsPlan:
    """Subjects of one kind, with the stored statistics and the changes of each, by its id."""

    kind: Subjects
    subjects: Sequence[Subject]
    stored: Mapping[int, StoredStatistics]
    changes: Mapping[int, Changes]


@dataclass(slots=True, kw_only=True)
class Refresh:
    """The statistics of the compactions that one database transaction commits.

    If statistics fail, the compactions commit without them.
    """

    statistics: Statistics
    conn: Connection
    plans: list[StatisticsPlan] = field(default_factory=list)

    def read(self, subjects: Sequence[Subject]) -> None:
        """Reads the stored statistics and plans the changes; skips rows that somebody else has locked."""
        if not subjects:
            return
        with self._in_savepoint():
            self.plans = self.statistics.plan(self.conn, subjects)

    def write(self) -> None:
        """Writes the changes. The caller holds TXN_LOCK_TBL exclusively."""
        if self.plans:
            with self._in_savepoint():
                for plan in self.plans:
                    self.statistics.write(self.conn, plan)
            reach(Step.STATISTICS_WRITTEN)

    def _in_savepoint(self) -> AbstractContextManager[None]:
        return savepoint(self.conn, "compactor_statistics", self._give_up)

    def _give_up(self, error: Exception) -> None:
        self.plans = []
        self.statistics.log_failure(error)


class Statistics:
    """Statistics of tables and partitions in one metastore."""

    def __init__(self, dialect: Dialect, write_ids: WriteIds) -> None:
        self._dialect = dialect
        self._write_ids = write_ids
        self._tables, self._partitions = rows.of_tables(dialect), rows.of_partitions(dialect)
        self._has_columns: bool | None = None
        self._logged_reasons: set[str] = set()

    def log_failure(self, error: Exception) -> None:
        """Logs why statistics stay as they are; each reason only once, as every compaction may have it."""
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        if reason not in self._logged_reasons and len(self._logged_reasons) < _MAX_REASONS:
            self._logged_reasons.add(reason)
            _log.warning("statistics are left as they are: %s: %s", type(error).__name__, reason)

    def plan(self, conn: Connection, subjects: Sequence[Subject]) -> list[StatisticsPlan]:
        """Plans the changes of the subjects that nobody else has locked; their rows stay locked."""
        tables = [subject for subject in subjects if subject.partition_id is None]
        partitions = [subject for subject in subjects if subject.partition_id is not None]
        kinds = ((self._tables, tables), (self._partitions, partitions))
        return [self._plan_kind(conn, kind, of_kind) for kind, of_kind in kinds if of_kind]

    def _plan_kind(self, conn: Connection, kind: Subjects, subjects: Sequence[Subject]) -> StatisticsPlan:
        write_ids = kind.lock(conn, [subject.id for subject in subjects])
        locked = [subject for subject in subjects if subject.id in write_ids]
        with_columns = (
            [subject.id for subject in locked if subject.known.rows is not None] if self._reads_columns(conn) else []
        )
        stored = kind.read(conn, write_ids, with_columns)
        return StatisticsPlan(
            kind=kind,
            subjects=locked,
            stored=stored,
            changes={subject.id: find_changes(stored[subject.id], subject.known) for subject in locked},
        )

    def _reads_columns(self, conn: Connection) -> bool:
        """Returns true if the metastore has tables for column statistics, which ours on SQLite lacks."""
        if self._has_columns is None:
            self._has_columns = inspect(conn).has_table(TAB_COL_STATS.name)
        return self._has_columns

    def write(self, conn: Connection, plan: StatisticsPlan) -> None:
        """Writes the changes; figures of rows only where nobody else may have changed the rows."""
        kind, changes = plan.kind, plan.changes
        with_rows = [subject for subject in plan.subjects if changes[subject.id].of_rows]
        unchanged = without_other_writers(conn, self._dialect, with_rows) if with_rows else []
        parameters = {subject.id: dict(changes[subject.id].sizes) for subject in plan.subjects}
        for subject in unchanged:
            parameters[subject.id] |= changes[subject.id].parameters
        kind.write_parameters(conn, plan.stored, parameters)
        columns = {number: figures for subject in unchanged for number, figures in changes[subject.id].columns.items()}
        if columns:
            kind.write_columns(conn, columns, now_ms(conn) // 1000)
        kind.write_ids(conn, self._draw_write_ids(conn, [s for s in unchanged if changes[s.id].marks]))

    def _draw_write_ids(self, conn: Connection, marked: Sequence[Subject]) -> dict[int, WriteId]:
        """Returns the write ID of each subject's transaction in its table, and allocates it if it has none.

        By that write ID readers know whether they see the compaction, and only then they use its marks.
        """
        drawn = {subject.id: subject.known.write_id for subject in marked if subject.known.write_id is not None}
        by_table: defaultdict[tuple[str, str], list[Subject]] = defaultdict(list)
        for subject in marked:
            if subject.id not in drawn:
                by_table[subject.entity.database, subject.entity.table].append(subject)
        for (database, table), subjects in sorted(by_table.items()):
            write_ids = self._write_ids.assign(conn, [subject.txn for subject in subjects], database, table)
            drawn |= {subject.id: write_ids[subject.txn] for subject in subjects}
        return drawn
