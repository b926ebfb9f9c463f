"""From what the metastore has and what a compaction knows to the statistics that change. Pure.

A compaction changes no row, so what is stored and true stays. Hive answers queries from what COLUMN_STATS_ACCURATE marks:
a mark is set only for figures that are proved, and one that a figure contradicts is taken away. None is set where the last
writer left the statistics' write ID as it was, as Hive's streaming does: his next rows would make it wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compactor.acid.row_figures import ColumnFigures, RowFigures
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.metastore.schema.tables import COLUMN_STATS_ACCURATE
from compactor.metastore.statistics import accuracy, columns
from compactor.metastore.statistics.accuracy import Accuracy
from compactor.metastore.statistics.commit_statistics import CommitStatistics, StoredColumn, StoredStatistics

FILES, BYTES, ROWS, RAW_SIZE = "numFiles", "totalSize", "numRows", "rawDataSize"
PARAMETERS = (FILES, BYTES, ROWS, RAW_SIZE, COLUMN_STATS_ACCURATE)  #: all that are read


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """``sizes`` describe files, and are written in any case. ``parameters`` and ``columns`` (by CS_ID) describe rows: they
    are written only if nobody else may have changed these. With ``marks``, queries are
    answered from them, and they get a new write ID."""

    sizes: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    marks: bool = False

    @property
    def of_rows(self) -> bool:
        return bool(self.parameters or self.columns)


def changes(stored: StoredStatistics, known: CommitStatistics) -> Changes:
    """Returns the statistics that change."""
    sizes = _differing({FILES: str(known.files), BYTES: str(known.bytes)}, stored.parameters)
    seen = _sight(stored.write_id, known.write_ids)
    if known.rows is None or seen is None:
        return Changes(sizes=sizes)
    flags = accuracy.parsed(stored.parameters.get(COLUMN_STATS_ACCURATE))
    if not known.sets_flags:
        return _estimates(stored, known.rows, flags, sizes)
    flags = flags if seen and flags.basic else Accuracy()
    is_right = flags.basic and stored.parameters.get(ROWS) == str(known.rows.rows)
    keeps = stored.write_id >= known.highest
    judged = _Judged.of(stored.columns, known.rows, flags, trusts=is_right, renews=keeps)
    if is_right and judged.flags == flags.columns:
        return Changes(sizes=sizes, columns=judged.changed)
    marks = is_right or keeps
    wanted = {} if is_right else {ROWS: str(known.rows.rows), RAW_SIZE: str(known.rows.raw_size)}
    if marks or COLUMN_STATS_ACCURATE in stored.parameters:
        wanted[COLUMN_STATS_ACCURATE] = str(Accuracy(basic=True, columns=judged.flags) if marks else Accuracy())
    return Changes(sizes=sizes, parameters=wanted, columns=judged.changed, marks=marks)


def _sight(write_id: WriteId, seen: ValidWriteIdList) -> bool | None:
    """Returns whether statistics under ``write_id`` describe rows that the view sees; None if others wrote them later, or
    still write (Hive's ``isCurrentStatsValidForTheQuery``: below 1 is no transaction's, an aborted one's may go)."""
    if write_id < 1 or seen.is_valid(write_id):
        return True
    return False if write_id in seen.aborted else None


def _estimates(stored: StoredStatistics, rows: RowFigures, flags: Accuracy, sizes: Mapping[str, str]) -> Changes:
    """Returns changes where nothing may be marked: what is marked is left to whoever marked it."""
    if flags.basic:
        return Changes(sizes=sizes)
    wanted = {ROWS: str(rows.rows), RAW_SIZE: str(rows.raw_size)}
    left = [column for column in stored.columns if column.name not in flags.columns]
    changed = _Judged.of(left, rows, Accuracy(), trusts=False, renews=False).changed
    return Changes(sizes=sizes, parameters=_differing(wanted, stored.parameters), columns=changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The columns that are marked from now on, and the figures that change, by CS_ID."""

    flags: frozenset[str]
    changed: Mapping[int, Mapping[str, object]]

    @classmethod
    def of(
        cls, stored: Sequence[StoredColumn], rows: RowFigures, flags: Accuracy, *, trusts: bool, renews: bool
    ) -> _Judged:
        """Judges every column. ``trusts`` is true if the marks are right about the number of rows; else a mark stays only
        where all that Hive answers from is proved. With ``renews``, columns without an estimate are marked anew."""
        figures = {column.name: column for column in rows.columns}
        marked = set(flags.columns if trusts else ())
        changed: dict[int, Mapping[str, object]] = {}
        for column in stored:
            found = figures.get(column.name)
            if found is None or found.type != column.type:
                continue
            exact = columns.known(found, rows.rows)
            if not columns.agrees(column.figures, exact):
                changed[column.id] = exact
                marked.discard(column.name)
            elif column.name in flags.columns and columns.is_proved(found):
                marked.add(column.name)
            if renews and _is_marked_anew(found):
                marked.add(column.name)
        return cls(flags=frozenset(marked), changed=changed)


def _is_marked_anew(column: ColumnFigures) -> bool:
    """Returns true if a column may be marked whatever was known of it: none of its statistics is an estimate."""
    return columns.has_no_estimate(column) and columns.is_proved(column)


def _differing(wanted: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if stored.get(key) != value}
