"""Rows of statistics of tables and partitions.

Each statement is built once for up to ``AT_ONCE`` ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    MetaData,
    String,
    Table,
    bindparam,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.types import UserDefinedType

from compactor.base.ids import WriteId
from compactor.database.prepared import in_parts, send, send_all
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import PARTITION_PARAMS, PARTITIONS, TABLE_PARAMS, TBLS
from compactor.metastore.statistics.changed_statistics import PARAMETERS
from compactor.metastore.statistics.commit_statistics import StoredColumn, StoredStatistics

metadata = MetaData()


class _Double(UserDefinedType[float]):
    """A double as the driver reads and writes it; SQLAlchemy's own asks a running query how to."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "DOUBLE PRECISION"


#: The columns of figures, in which Hive keeps those of every type.
FIGURES = (
    *("LONG_LOW_VALUE", "LONG_HIGH_VALUE", "DOUBLE_LOW_VALUE", "DOUBLE_HIGH_VALUE"),
    *("BIG_DECIMAL_LOW_VALUE", "BIG_DECIMAL_HIGH_VALUE", "NUM_NULLS", "NUM_TRUES", "NUM_FALSES"),
)
ENGINE = "hive"  #: of Hive's own rows; those of other engines are left alone


def _table(name: str, owner: str) -> Table:
    return Table(
        name,
        metadata,
        Column("CS_ID", BigInteger, primary_key=True, autoincrement=False),
        Column(owner, BigInteger, nullable=False),
        Column("COLUMN_NAME", String(767)),
        Column("COLUMN_TYPE", String(128)),
        Column("LONG_LOW_VALUE", BigInteger),
        Column("LONG_HIGH_VALUE", BigInteger),
        Column("DOUBLE_LOW_VALUE", _Double),
        Column("DOUBLE_HIGH_VALUE", _Double),
        Column("BIG_DECIMAL_LOW_VALUE", String(4000)),
        Column("BIG_DECIMAL_HIGH_VALUE", String(4000)),
        Column("NUM_NULLS", BigInteger, nullable=False),
        Column("NUM_DISTINCTS", BigInteger),
        Column("AVG_COL_LEN", _Double),
        Column("MAX_COL_LEN", BigInteger),
        Column("NUM_TRUES", BigInteger),
        Column("NUM_FALSES", BigInteger),
        Column("LAST_ANALYZED", BigInteger, nullable=False),
        Column("ENGINE", String(128), nullable=False),  # since Hive 4
    )


TAB_COL_STATS = _table("TAB_COL_STATS", "TBL_ID")
PART_COL_STATS = _table("PART_COL_STATS", "PART_ID")

#: What is written here and in which ways; the rights of the database's user that statistics need.
WRITTEN = (
    ((TABLE_PARAMS, PARTITION_PARAMS), ("INSERT", "UPDATE")),
    ((TBLS, PARTITIONS, TAB_COL_STATS, PART_COL_STATS), ("UPDATE",)),
)


AT_ONCE = 16  #: ids in one statement, about as many as commit together


def is_among(column: ColumnElement[Any], count: int = AT_ONCE) -> ColumnElement[bool]:
    """Returns the condition that ``column`` equals one of ``count`` parameters; see ``values_among``."""
    return column.in_([bindparam(f"{column.key}_{number}") for number in range(count)])


def values_among(column: ColumnElement[Any], values: Sequence[Any], count: int = AT_ONCE) -> dict[str, Any]:
    """Returns values of the parameters of ``is_among``; repeats the last value to fill all parameters."""
    filled = [*values, *[values[-1]] * (count - len(values))]
    return {f"{column.key}_{number}": value for number, value in enumerate(filled)}


class Subjects:
    """Reads and writes the statistics of tables, or those of partitions."""

    def __init__(self, dialect: Dialect, owners: Table, parameters: Table, figures: Table) -> None:
        self._id, self._parameter_id = _id_column(owners), _id_column(parameters)
        self._owner_id = figures.c[self._id.name]
        self.has_write_ids = str(owners.c.WRITE_ID) not in dialect.missing_columns
        unlocked = select(self._id, owners.c.WRITE_ID).where(is_among(self._id))
        self._unlocked = dialect.unlocked(unlocked)
        self._parameters = select(self._parameter_id, parameters.c.PARAM_KEY, parameters.c.PARAM_VALUE).where(
            is_among(self._parameter_id), parameters.c.PARAM_KEY.in_([literal(key) for key in PARAMETERS])
        )
        of_hive = [figures.c.ENGINE == ENGINE] if str(figures.c.ENGINE) not in dialect.missing_columns else []
        columns = (figures.c.CS_ID, self._owner_id, figures.c.COLUMN_NAME, figures.c.COLUMN_TYPE)
        self._columns = select(*columns, *(figures.c[name] for name in FIGURES)).where(
            is_among(self._owner_id), *of_hive
        )
        self._new_parameter = insert(parameters)
        here = (self._parameter_id == bindparam("of_owner"), parameters.c.PARAM_KEY == bindparam("of_key"))
        self._parameter = update(parameters).where(*here)
        self._column = update(figures).where(figures.c.CS_ID == bindparam("of_column"))
        self._owner = update(owners).where(self._id == bindparam("of_owner"))

    def lock(self, conn: Connection, ids: Iterable[int]) -> dict[int, WriteId]:
        """Locks the rows that nobody else has locked; returns the write IDs of their statistics by id."""
        write_ids: dict[int, WriteId] = {}
        for batch in in_parts(sorted(ids), AT_ONCE):
            for number, write_id in send(conn, self._unlocked, values_among(self._id, batch)).rows:
                write_ids[number] = WriteId(write_id or 0)
        return write_ids

    def read(
        self, conn: Connection, write_ids: Mapping[int, WriteId], with_columns: Collection[int]
    ) -> dict[int, StoredStatistics]:
        """Returns the statistics of the locked rows, by id; those of columns only for ``with_columns``."""
        parameters: defaultdict[int, dict[str, str]] = defaultdict(dict)
        columns: defaultdict[int, list[StoredColumn]] = defaultdict(list)
        for batch in in_parts(sorted(write_ids), AT_ONCE):
            for number, key, value in send(conn, self._parameters, values_among(self._parameter_id, batch)).rows:
                parameters[number][key] = value or ""
        for batch in in_parts(sorted(with_columns), AT_ONCE):
            for row in send(conn, self._columns, values_among(self._owner_id, batch)).rows:
                columns[row[1]].append(_column(row))
        return {
            number: StoredStatistics(write_id=write_id, parameters=parameters[number], columns=tuple(columns[number]))
            for number, write_id in write_ids.items()
        }

    def write_parameters(
        self, conn: Connection, stored: Mapping[int, StoredStatistics], parameters: Mapping[int, Mapping[str, str]]
    ) -> None:
        """Writes parameters by the id of their owner; ``stored`` shows which of them exist."""
        new, changed = [], []
        for owner, values in parameters.items():
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


def _id_column(table: Table) -> Column[Any]:
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
