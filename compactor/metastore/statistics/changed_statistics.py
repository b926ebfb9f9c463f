"""Changes of statistics, from the stored statistics and the figures of a compaction. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from compactor.acid.row_figures import ColumnFigures, RowFigures
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.metastore.schema.tables import COLUMN_STATS_ACCURATE
from compactor.metastore.statistics.commit_statistics import CommitStatistics, StoredColumn, StoredStatistics

_BASIC, _COLUMNS, _TRUE = "BASIC_STATS", "COLUMN_STATS", "true"
_LONG = frozenset({"tinyint", "smallint", "int", "bigint", "date"})
_DOUBLE = frozenset({"float", "double"})
_DECIMAL, _BOOLEAN = "decimal", "boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The flags: ``basic`` for ``numRows`` and the like, ``columns`` with lower-case names of columns."""

    basic: bool = False
    columns: frozenset[str] = frozenset()

    def __str__(self) -> str:
        flags: dict[str, object] = {_BASIC: _TRUE} if self.basic else {}
        if self.columns:
            flags[_COLUMNS] = dict.fromkeys(sorted(self.columns), _TRUE)
        return json.dumps(flags, separators=(",", ":"), ensure_ascii=False)


def parse_accuracy(text: str | None) -> Accuracy:
    """Parses the value of the parameter; a value that is not in Hive's form has no flags."""
    try:
        flags = json.loads(text or "{}")
    except ValueError:
        return Accuracy()
    if not isinstance(flags, dict):
        return Accuracy()
    columns = flags.get(_COLUMNS)
    named = columns.items() if isinstance(columns, dict) else ()
    return Accuracy(
        basic=_is_true_value(flags.get(_BASIC)),
        columns=frozenset(name.lower() for name, value in named if _is_true_value(value)),
    )


def _is_true_value(value: object) -> bool:
    return str(value).lower() == _TRUE


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
    flags = parse_accuracy(stored.parameters.get(COLUMN_STATS_ACCURATE))
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
    """Returns true if statistics under ``write_id`` describe rows that the view sees.

    Returns false if an aborted writer wrote them.

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
            exact = exact_figures(figure, rows.rows)
            if not agrees(column.figures, exact):
                changed[column.id] = exact
                marked.discard(column.name)
            elif column.name in flags.columns and is_proven(figure):
                marked.add(column.name)
            if renews and _may_mark(figure):
                marked.add(column.name)
        return cls(flags=frozenset(marked), changed=changed)


def _may_mark(column: ColumnFigures) -> bool:
    """Returns true if a column may be marked in any case, because none of its statistics is an estimate."""
    return has_no_estimate(column) and is_proven(column)


def _differing(values: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if stored.get(key) != value}


def exact_figures(column: ColumnFigures, rows: int) -> dict[str, object]:
    """Returns the exact figures by the names of Hive's columns; ``rows`` includes rows with nulls."""
    figures: dict[str, object] = {"NUM_NULLS": rows - column.values}
    prefix = _prefix(column)
    if prefix is not None and has_extremes(column):
        figures |= {f"{prefix}_LOW_VALUE": _stored(column.low), f"{prefix}_HIGH_VALUE": _stored(column.high)}
    if _kind(column) == _BOOLEAN and column.trues is not None:
        figures |= {"NUM_TRUES": column.trues, "NUM_FALSES": column.values - column.trues}
    return figures


def has_extremes(column: ColumnFigures) -> bool:
    """Returns true if minimum and maximum are exact, or do not exist.

    A zero of a float may be a negative zero, which other statements show as such.
    """
    if not column.values:
        return True
    if column.low is None or column.high is None:
        return False
    return not (_kind(column) in _DOUBLE and 0 in (column.low, column.high))


def is_proven(column: ColumnFigures) -> bool:
    """Returns true if all figures that Hive answers queries from are exact for this column."""
    if _kind(column) == _BOOLEAN:
        return column.trues is not None
    return _prefix(column) is not None and has_extremes(column)


def has_no_estimate(column: ColumnFigures) -> bool:
    """Returns true if no statistic of the type is an estimate, such as a distinct count or a length."""
    return _kind(column) == _BOOLEAN


def agrees(stored: Mapping[str, object], exact: Mapping[str, object]) -> bool:
    """Returns true if ``stored`` has all the values in ``exact``."""
    return all(_plain(stored.get(name)) == _plain(value) for name, value in exact.items())


def _kind(column: ColumnFigures) -> str:
    return column.type.partition("(")[0]


def _prefix(column: ColumnFigures) -> str | None:
    kind = _kind(column)
    return "LONG" if kind in _LONG else "DOUBLE" if kind in _DOUBLE else "BIG_DECIMAL" if kind == _DECIMAL else None


def _stored(value: object) -> object:
    """Returns a decimal as Hive writes it: digits only, without trailing zeros."""
    if not isinstance(value, Decimal):
        return value
    return format(value.normalize(), "f") if value else "0"


def _plain(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return Decimal(value)
    except InvalidOperation:
        return value
