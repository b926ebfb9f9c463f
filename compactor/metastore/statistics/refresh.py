"""Statistics written by the database transaction that commits compactions: read before TXN_LOCK_TBL is held, written
under it."""

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
from compactor.database.savepoint import savepoint
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.statistics import subjects as rows
from compactor.metastore.statistics.changed_statistics import Changes, changes
from compactor.metastore.statistics.commit_statistics import StoredStatistics, Subject
from compactor.metastore.statistics.concurrent_writers import undisturbed
from compactor.metastore.statistics.statistics_tables import TAB_COL_STATS
from compactor.metastore.statistics.subjects import Subjects
from compactor.metastore.transactions.write_id_rows import WriteIds

_log = logging.getLogger(__name__)
_SAID = 16  #: the most reasons that one process logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Subjects of one kind, with what is stored of each and what changes, by its id."""

    kind: Subjects
    subjects: Sequence[Subject]
    stored: Mapping[int, StoredStatistics]
    changes: Mapping[int, Changes]


@dataclass(slots=True, kw_only=True)
class Refresh:
    """The statistics of the compactions that one database transaction commits. No error of theirs keeps these from
    committing: then nothing of the statistics is written."""

    statistics: Statistics
    conn: Connection
    decided: list[Decided] = field(default_factory=list)

    def read(self, subjects: Sequence[Subject]) -> None:
        """Reads what is stored and decides what changes; whatever somebody else holds is left out, and not waited for."""
        if not subjects:
            return
        with self._apart():
            self.decided = self.statistics.decide(self.conn, subjects)

    def write(self) -> None:
        """Writes what changes. The caller holds TXN_LOCK_TBL exclusively."""
        if self.decided:
            with self._apart():
                for decided in self.decided:
                    self.statistics.write(self.conn, decided)
            reach(Step.STATISTICS_WRITTEN)

    def _apart(self) -> AbstractContextManager[None]:
        return savepoint(self.conn, "compactor_statistics", self._given_up)

    def _given_up(self, error: Exception) -> None:
        self.decided = []
        self.statistics.say(error)


class Statistics:
    """Statistics of tables and partitions in one metastore."""

    def __init__(self, dialect: Dialect, write_ids: WriteIds) -> None:
        self._dialect = dialect
        self._write_ids = write_ids
        self._tables, self._partitions = rows.of_tables(dialect), rows.of_partitions(dialect)
        self._has_columns: bool | None = None
        self._said: set[str] = set()

    def say(self, error: Exception) -> None:
        """Logs why statistics are left as they are; the same reason once, since it may be one of every compaction."""
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        if reason not in self._said and len(self._said) < _SAID:
            self._said.add(reason)
            _log.warning("statistics are left as they are: %s: %s", type(error).__name__, reason)

    def decide(self, conn: Connection, subjects: Sequence[Subject]) -> list[Decided]:
        """Returns what changes, of subjects that nobody else holds; their rows stay locked."""
        tables = [one for one in subjects if one.partition_id is None]
        partitions = [one for one in subjects if one.partition_id is not None]
        kinds = ((self._tables, tables), (self._partitions, partitions))
        return [self._decided(conn, kind, of_kind) for kind, of_kind in kinds if of_kind]

    def _decided(self, conn: Connection, kind: Subjects, subjects: Sequence[Subject]) -> Decided:
        held = kind.hold(conn, [one.id for one in subjects])
        free = [one for one in subjects if one.id in held]
        with_columns = [one.id for one in free if one.known.rows is not None] if self._reads_columns(conn) else []
        stored = kind.read(conn, held, with_columns)
        return Decided(
            kind=kind,
            subjects=free,
            stored=stored,
            changes={one.id: changes(stored[one.id], one.known) for one in free},
        )

    def _reads_columns(self, conn: Connection) -> bool:
        """Returns true if the metastore has tables for statistics of columns; ours on SQLite has none."""
        if self._has_columns is None:
            self._has_columns = inspect(conn).has_table(TAB_COL_STATS.name)
        return self._has_columns

    def write(self, conn: Connection, decided: Decided) -> None:
        """Writes what changes; what describes rows only where nobody else may have changed them."""
        kind, found = decided.kind, decided.changes
        of_rows = [one for one in decided.subjects if found[one.id].of_rows]
        free = undisturbed(conn, self._dialect, of_rows) if of_rows else []
        wanted = {one.id: dict(found[one.id].sizes) for one in decided.subjects}
        for one in free:
            wanted[one.id] |= found[one.id].parameters
        kind.write_parameters(conn, decided.stored, wanted)
        columns = {number: figures for one in free for number, figures in found[one.id].columns.items()}
        if columns:
            kind.write_columns(conn, columns, now_ms(conn) // 1000)
        kind.write_ids(conn, self._drawn(conn, [one for one in free if found[one.id].marks]))

    def _drawn(self, conn: Connection, marked: Sequence[Subject]) -> dict[int, WriteId]:
        """Gives each subject's transaction a write ID in its table, by which readers know whether they may use its marks:
        only those who see the compaction may."""
        drawn = {one.id: one.known.write_id for one in marked if one.known.write_id is not None}
        by_table: defaultdict[tuple[str, str], list[Subject]] = defaultdict(list)
        for one in marked:
            if one.id not in drawn:
                by_table[one.entity.database, one.entity.table].append(one)
        for (database, table), subjects in sorted(by_table.items()):
            given = self._write_ids.give(conn, [one.txn for one in subjects], database, table)
            drawn |= {one.id: given[one.txn] for one in subjects}
        return drawn
