"""Finds the statistics that change, from the stored ones and the figures of a compaction. Pure.

A compaction changes no row, so correct statistics stay. Hive answers queries from figures that COLUMN_STATS_ACCURATE
marks. So a mark is set only for proven figures, and removed if a figure contradicts it. If the last writer did not
change the write ID of the statistics, as Hive's streaming does, no mark is set: its next rows would make the mark wrong.
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
PARAMETERS = (FILES, BYTES, ROWS, RAW_SIZE, COLUMN_STATS_ACCURATE)  #: the parameters to read


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changed statistics of one table or partition.

    ``sizes`` describe files and are always written. ``parameters`` and ``columns`` (by CS_ID) describe rows, and are
    written only if nobody else may have changed the rows. With ``marks`` Hive answers queries from them, and they get a
    new write ID.
    """

    sizes: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    marks: bool = False

    @property
    def of_rows(self) -> bool:
        return bool(self.parameters or self.columns)


def find_changes(stored: StoredStatistics, known: CommitStatistics) -> Changes:
    """Returns the statistics that change."""
    sizes = _differing({FILES: str(known.files), BYTES: str(known.bytes)}, stored.parameters)
    is_seen = _describes_view(stored.write_id, known.write_ids)
    if known.rows is None or is_seen is None:
        return Changes(sizes=sizes)
    flags = accuracy.parse_accuracy(stored.parameters.get(COLUMN_STATS_ACCURATE))
    if not known.sets_flags:
        return _estimates(stored, known.rows, flags, sizes)
    flags = flags if is_seen and flags.basic else Accuracy()
    is_right = flags.basic and stored.parameters.get(ROWS) == str(known.rows.rows)
    keeps = stored.write_id >= known.highest
    judgement = _Judgement.from_figures(stored.columns, known.rows, flags, trusts=is_right, renews=keeps)
    if is_right and judgement.flags == flags.columns:
        return Changes(sizes=sizes, columns=judgement.changed)
    marks = is_right or keeps
    parameters = {} if is_right else {ROWS: str(known.rows.rows), RAW_SIZE: str(known.rows.raw_size)}
    if marks or COLUMN_STATS_ACCURATE in stored.parameters:
        parameters[COLUMN_STATS_ACCURATE] = str(Accuracy(basic=True, columns=judgement.flags) if marks else Accuracy())
    return Changes(sizes=sizes, parameters=parameters, columns=judgement.changed, marks=marks)


def _describes_view(write_id: WriteId, seen: ValidWriteIdList) -> bool | None:
    """Returns true if statistics under ``write_id`` describe rows that the view sees, false if an aborted writer did.

    None means that a later or open transaction wrote them (Hive's ``isCurrentStatsValidForTheQuery``). A write ID below
    1 belongs to no transaction.
    """
    if write_id < 1 or seen.is_valid(write_id):
        return True
    return False if write_id in seen.aborted else None


def _estimates(stored: StoredStatistics, rows: RowFigures, flags: Accuracy, sizes: Mapping[str, str]) -> Changes:
    """Returns changes that set no mark; marked statistics stay as they are."""
    if flags.basic:
        return Changes(sizes=sizes)
    estimates = {ROWS: str(rows.rows), RAW_SIZE: str(rows.raw_size)}
    unmarked = [column for column in stored.columns if column.name not in flags.columns]
    changed = _Judgement.from_figures(unmarked, rows, Accuracy(), trusts=False, renews=False).changed
    return Changes(sizes=sizes, parameters=_differing(estimates, stored.parameters), columns=changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    """The columns to mark, and the changed figures by CS_ID."""

    flags: frozenset[str]
    changed: Mapping[int, Mapping[str, object]]

    @classmethod
    def from_figures(
        cls, stored: Sequence[StoredColumn], rows: RowFigures, flags: Accuracy, *, trusts: bool, renews: bool
    ) -> _Judgement:
        """Judges every column.

        ``trusts`` means that the marks agree with the number of rows. Otherwise a mark stays only if all figures that
        Hive answers queries from are proven. ``renews`` also marks columns without an estimate.
        """
        figures = {column.name: column for column in rows.columns}
        marked = set(flags.columns if trusts else ())
        changed: dict[int, Mapping[str, object]] = {}
        for column in stored:
            figure = figures.get(column.name)
            if figure is None or figure.type != column.type:
                continue
            exact = columns.exact_figures(figure, rows.rows)
            if not columns.agrees(column.figures, exact):
                changed[column.id] = exact
                marked.discard(column.name)
            elif column.name in flags.columns and columns.is_proven(figure):
                marked.add(column.name)
            if renews and _may_mark(figure):
                marked.add(column.name)
        return cls(flags=frozenset(marked), changed=changed)


def _may_mark(column: ColumnFigures) -> bool:
    """Returns true if a column may be marked in any case, because none of its statistics is an estimate."""
    return columns.has_no_estimate(column) and columns.is_proven(column)


def _differing(values: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if stored.get(key) != value}
