"""The rows of statistics of tables and of partitions, in statements that are built once for up to ``AT_ONCE`` of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, bindparam, insert, literal, select, update

from compactor.base.ids import WriteId
from compactor.database.parts import parts
from compactor.database.prepared import send, send_all
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import PARTITION_PARAMS, PARTITIONS, TABLE_PARAMS, TBLS
from compactor.metastore.statistics.changed_statistics import PARAMETERS
from compactor.metastore.statistics.commit_statistics import StoredColumn, StoredStatistics
from compactor.metastore.statistics.statistics_tables import ENGINE, FIGURES, PART_COL_STATS, TAB_COL_STATS

AT_ONCE = 16  #: as many as commit together


def among(column: ColumnElement[Any], count: int = AT_ONCE) -> ColumnElement[bool]:
    """Returns the condition that ``column`` is one of ``count`` parameters; ``given`` has their values."""
    return column.in_([bindparam(f"{column.key}_{number}") for number in range(count)])


def given(column: ColumnElement[Any], values: Sequence[Any], count: int = AT_ONCE) -> dict[str, Any]:
    """Returns the parameters of ``among`` for at least one value; the last one fills what is left."""
    filled = [*values, *[values[-1]] * (count - len(values))]
    return {f"{column.key}_{number}": value for number, value in enumerate(filled)}


class Subjects:
    """Reads and writes the statistics of tables, or those of partitions."""

    def __init__(self, dialect: Dialect, owners: Table, parameters: Table, figures: Table) -> None:
        self._id, self._parameter_id = _first(owners), _first(parameters)
        self._owner_id = figures.c[self._id.name]
        self.has_write_ids = str(owners.c.WRITE_ID) not in dialect.missing_columns
        held = select(self._id, owners.c.WRITE_ID).where(among(self._id))
        self._held = dialect.unlocked(held)
        self._parameters = select(self._parameter_id, parameters.c.PARAM_KEY, parameters.c.PARAM_VALUE).where(
            among(self._parameter_id), parameters.c.PARAM_KEY.in_([literal(key) for key in PARAMETERS])
        )
        of_hive = [figures.c.ENGINE == ENGINE] if str(figures.c.ENGINE) not in dialect.missing_columns else []
        columns = (figures.c.CS_ID, self._owner_id, figures.c.COLUMN_NAME, figures.c.COLUMN_TYPE)
        self._columns = select(*columns, *(figures.c[name] for name in FIGURES)).where(among(self._owner_id), *of_hive)
        self._new_parameter = insert(parameters)
        here = (self._parameter_id == bindparam("of_owner"), parameters.c.PARAM_KEY == bindparam("of_key"))
        self._parameter = update(parameters).where(*here)
        self._column = update(figures).where(figures.c.CS_ID == bindparam("of_column"))
        self._owner = update(owners).where(self._id == bindparam("of_owner"))

    def hold(self, conn: Connection, ids: Iterable[int]) -> dict[int, WriteId]:
        """Returns the write IDs of the statistics of those of ``ids`` whose rows nobody else holds; from here on we do."""
        found: dict[int, WriteId] = {}
        for some in parts(sorted(ids), AT_ONCE):
            for number, write_id in send(conn, self._held, given(self._id, some)).rows:
                found[number] = WriteId(write_id or 0)
        return found

    def read(
        self, conn: Connection, held: Mapping[int, WriteId], with_columns: Collection[int]
    ) -> dict[int, StoredStatistics]:
        """Returns the statistics of what is ``held``; columns only of ``with_columns``."""
        parameters: defaultdict[int, dict[str, str]] = defaultdict(dict)
        columns: defaultdict[int, list[StoredColumn]] = defaultdict(list)
        for some in parts(sorted(held), AT_ONCE):
            for number, key, value in send(conn, self._parameters, given(self._parameter_id, some)).rows:
                parameters[number][key] = value or ""
        for some in parts(sorted(with_columns), AT_ONCE):
            for row in send(conn, self._columns, given(self._owner_id, some)).rows:
                columns[row[1]].append(_column(row))
        return {
            number: StoredStatistics(write_id=write_id, parameters=parameters[number], columns=tuple(columns[number]))
            for number, write_id in held.items()
        }

    def write_parameters(
        self, conn: Connection, stored: Mapping[int, StoredStatistics], wanted: Mapping[int, Mapping[str, str]]
    ) -> None:
        """Writes parameters by the id of their owner; ``stored`` says which of them are there."""
        new, changed = [], []
        for owner, values in wanted.items():
            for key, value in values.items():
                if key in stored[owner].parameters:
                    changed.append({"of_owner": owner, "of_key": key, "PARAM_VALUE": value})
                else:
                    new.append({self._parameter_id.name: owner, "PARAM_KEY": key, "PARAM_VALUE": value})
        send_all(conn, self._parameter, changed)
        send_all(conn, self._new_parameter, new)

    def write_columns(self, conn: Connection, changed: Mapping[int, Mapping[str, object]], now_s: int) -> None:
        """Writes figures of columns by CS_ID, as of ``now_s`` (epoch seconds)."""
        alike: defaultdict[tuple[str, ...], list[dict[str, object]]] = defaultdict(list)
        for number, figures in changed.items():
            alike[tuple(sorted(figures))].append({"of_column": number, **figures, "LAST_ANALYZED": now_s})
        for rows in alike.values():
            send_all(conn, self._column, rows)

    def write_ids(self, conn: Connection, drawn: Mapping[int, WriteId]) -> None:
        """Writes the write ID of each owner's statistics."""
        send_all(conn, self._owner, [{"of_owner": owner, "WRITE_ID": number} for owner, number in drawn.items()])


def of_tables(dialect: Dialect) -> Subjects:
    return Subjects(dialect, TBLS, TABLE_PARAMS, TAB_COL_STATS)


def of_partitions(dialect: Dialect) -> Subjects:
    return Subjects(dialect, PARTITIONS, PARTITION_PARAMS, PART_COL_STATS)


def _first(table: Table) -> Column[Any]:
    """Returns the column of the owner's id."""
    return next(iter(table.c))


def _column(row: Sequence[Any]) -> StoredColumn:
    number, _, name, kind, *figures = row
    return StoredColumn(
        id=number,
        name=(name or "").lower(),
        type=(kind or "").lower(),
        figures=dict(zip(FIGURES, figures, strict=True)),
    )
