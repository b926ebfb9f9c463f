"""Locations of tables and partitions: read by name, read all to find overlaps, and checked again.

Hive has no index on locations, so each statement reads SDS once. It returns few rows: partitions at their default location,
``<location of the table>/<PART_NAME>``, are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, or_, select, tuple_
from sqlalchemy import false as nothing
from sqlalchemy import true as everything

from compactor.base.errors import LostClaim
from compactor.compaction.queue_entry import Entity
from compactor.database.engine import Database
from compactor.database.prepared import in_parts, send
from compactor.metastore.catalog.values import VIEW, PartitionPlace, is_true
from compactor.metastore.schema.tables import CATALOG, DBS, PARTITIONS, SDS, SORT_COLS, TABLE_PARAMS, TBLS

_OF_TABLE = SDS.alias("OF_TABLE")
_TRANSACTIONAL = "transactional"
_AT_ONCE = 500  #: tables in one statement
_P = PARTITIONS.c
_NAMES_AT_ONCE = 1000  #: partitions that one statement names
_FEW = 20  #: up to this many partitions of a table are read by their names
_SHARE = 4  #: a table is read whole if it has at most this many times the requested partitions
# Built once, because every compaction uses them.
_IDS = (
    select(TBLS.c.TBL_ID, SDS.c.LOCATION)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(DBS.c.CTLG_NAME == bindparam("of_catalog"), DBS.c.NAME == bindparam("of_database"))
    .where(TBLS.c.TBL_NAME == bindparam("of_table"))
)
_TABLE = _IDS.join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
_PARTITION = (
    _IDS.add_columns(PARTITIONS.c.PART_ID)
    .join(PARTITIONS, PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID)
    .join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
    .where(PARTITIONS.c.PART_NAME == bindparam("of_partition"))
)

_PLACES_OF_TABLES = (
    select(TBLS.c.TBL_ID, DBS.c.NAME, TBLS.c.TBL_NAME, SDS.c.LOCATION)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
)
_PLACES_OF_PARTITIONS = (
    select(TBLS.c.TBL_ID, PARTITIONS.c.PART_ID, DBS.c.NAME, TBLS.c.TBL_NAME, PARTITIONS.c.PART_NAME, SDS.c.LOCATION)
    .select_from(PARTITIONS)
    .join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGround:
    """A table's location; ``name`` includes the catalog unless it is Hive's own."""

    id: int
    name: str
    location: str
    is_transactional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGround:
    """A partition's location; ``name`` is PART_NAME as stored."""

    table: int
    name: str
    location: str


def place_of(conn: Connection, entity: Entity) -> tuple[int, int | None, str] | None:
    """Returns TBL_ID, PART_ID and stored location of a partition or table; None if it does not exist."""
    names = {"of_catalog": CATALOG, "of_database": entity.database, "of_table": entity.table}
    if entity.partition is None:
        rows = send(conn, _TABLE, names).mappings()
    else:
        rows = send(conn, _PARTITION, {**names, "of_partition": entity.partition}).mappings()
    return (rows[0]["TBL_ID"], rows[0].get("PART_ID"), rows[0]["LOCATION"] or "") if rows else None


def places_by_id(
    conn: Connection, tables: Collection[int], partitions: Collection[int]
) -> dict[tuple[int, int | None], tuple[Entity, str]]:
    """Returns names and stored location of the existing tables and partitions with these ids.

    The keys are TBL_ID and PART_ID, which is None for the table itself.
    """
    places: dict[tuple[int, int | None], tuple[Entity, str]] = {}
    if tables:
        for table in conn.execute(_PLACES_OF_TABLES.where(in_catalog(), TBLS.c.TBL_ID.in_(tables))):
            places[table.TBL_ID, None] = (Entity(database=table.NAME, table=table.TBL_NAME), table.LOCATION or "")
    if partitions:
        for row in conn.execute(_PLACES_OF_PARTITIONS.where(in_catalog(), PARTITIONS.c.PART_ID.in_(partitions))):
            entity = Entity(database=row.NAME, table=row.TBL_NAME, partition=row.PART_NAME)
            places[row.TBL_ID, row.PART_ID] = (entity, row.LOCATION or "")
    return places


def must_be_same_place(
    conn: Connection, entry_id: int, entity: Entity, *, table_id: int, partition_id: int | None, location: str
) -> None:
    """Checks that table and partition are still the ones that were read, at the same location.

    Raises:
        LostClaim: somebody has dropped, re-created or moved them.
    """
    current = place_of(conn, entity)
    if current is None:
        raise LostClaim(f"compaction {entry_id}: {entity} is no longer in the metastore")
    if current != (table_id, partition_id, location):
        raise LostClaim(
            f"compaction {entry_id}: {entity} was re-created or moved meanwhile; it is table {current[0]}, partition "
            f"{current[1]} at {current[2]}, what was read is table {table_id}, partition {partition_id} at {location}"
        )


def in_catalog() -> Any:
    return DBS.c.CTLG_NAME == CATALOG


class Locations:
    """Reads TBLS, PARTITIONS and SDS of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def tables(self) -> list[TableGround]:
        """Returns every table that has a location."""
        query = (
            select(TBLS.c.TBL_ID, TBLS.c.TBL_NAME, DBS.c.NAME, DBS.c.CTLG_NAME, SDS.c.LOCATION)
            .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
            .join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
            .where(TBLS.c.TBL_TYPE != VIEW)
        )
        with self._database.read() as conn:
            rows = conn.execute(query).all()
            marked = conn.execute(
                select(TABLE_PARAMS.c.TBL_ID, TABLE_PARAMS.c.PARAM_VALUE).where(_is_transactional_key())
            ).all()
        transactional = {row.TBL_ID for row in marked if is_true(row.PARAM_VALUE)}
        return [
            TableGround(
                id=row.TBL_ID,
                name=_name(row.CTLG_NAME, row.NAME, row.TBL_NAME),
                location=row.LOCATION,
                is_transactional=row.TBL_ID in transactional,
            )
            for row in rows
            if row.LOCATION
        ]

    def name_of(self, table: int) -> str | None:
        """Returns the name of the table with this TBL_ID in any catalog; None if it does not exist."""
        query = select(TBLS.c.TBL_NAME, DBS.c.NAME, DBS.c.CTLG_NAME).join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        with self._database.read() as conn:
            row = conn.execute(query.where(TBLS.c.TBL_ID == table)).first()
        return None if row is None else _name(row.CTLG_NAME, row.NAME, row.TBL_NAME)

    def partitions_elsewhere(self, spellings: Collection[str]) -> Iterator[PartitionGround]:
        """Yields the partitions that are not at their default location.

        Of tables without transactions it yields only those with one of ``spellings`` in their location.
        """
        with self._database.read() as conn:
            keys = conn.execute(select(TABLE_PARAMS.c.PARAM_KEY).where(_is_transactional_key()).distinct()).scalars()
            marked = select(TABLE_PARAMS.c.TBL_ID).where(TABLE_PARAMS.c.PARAM_KEY.in_(keys.all()))
        default = _OF_TABLE.c.LOCATION + "/" + PARTITIONS.c.PART_NAME
        query = _partitions().join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
        query = query.join(_OF_TABLE, _OF_TABLE.c.SD_ID == TBLS.c.SD_ID)
        return self._rows(
            query.where(SDS.c.LOCATION != default, or_(TBLS.c.TBL_ID.in_(marked), _has_spelling(spellings)))
        )

    def partitions_of(
        self, tables: Collection[int], spellings: Collection[str] | None = None
    ) -> Iterator[PartitionGround]:
        """Yields the partitions of these tables (TBL_IDs).

        With ``spellings``, only if their location has one of them.
        """
        where = everything() if spellings is None else _has_spelling(spellings)
        for batch in in_parts(sorted(tables), _AT_ONCE):
            yield from self._rows(_partitions().where(PARTITIONS.c.TBL_ID.in_(batch), where))

    def partitions(self) -> Iterator[PartitionGround]:
        """Yields every partition."""
        return self._rows(_partitions())

    def _rows(self, query: Select[Any]) -> Iterator[PartitionGround]:
        with self._database.read() as conn:
            for table, name, location in conn.execute(query):
                if location:
                    yield PartitionGround(table=table, name=name, location=location)

    def for_partitions(self, names_by_table: Mapping[int, Collection[str]]) -> dict[int, dict[str, PartitionPlace]]:
        """Returns the existing partitions of ``names_by_table``, by TBL_ID and PART_NAME.

        The argument has PART_NAMEs by TBL_ID.
        """
        places: dict[int, dict[str, PartitionPlace]] = {table: {} for table in names_by_table}
        whole = self._tables_to_read_whole(
            {table: len(names) for table, names in names_by_table.items() if len(names) > _FEW}
        )
        pairs = [(table, name) for table, names in names_by_table.items() if table not in whole for name in names]
        where = [_P.TBL_ID.in_(batch) for batch in in_parts(list(whole), _NAMES_AT_ONCE)]
        where += [tuple_(_P.TBL_ID, _P.PART_NAME).in_(named) for named in in_parts(pairs, _NAMES_AT_ONCE)]
        for condition in where:
            self._read_places(condition, names_by_table, places)
        return places

    def _tables_to_read_whole(self, name_counts: Mapping[int, int]) -> set[int]:
        """Returns the tables whose partitions are mostly in the request, by the number of requested names."""
        whole: set[int] = set()
        counts = select(_P.TBL_ID, func.count().label("n")).group_by(_P.TBL_ID)
        with self._database.read() as conn:
            for batch in in_parts(list(name_counts), _NAMES_AT_ONCE):
                rows = conn.execute(counts.where(_P.TBL_ID.in_(batch)))
                whole.update(row.TBL_ID for row in rows if row.n <= _SHARE * name_counts[row.TBL_ID])
        return whole

    def _read_places(
        self,
        where: ColumnElement[bool],
        names_by_table: Mapping[int, Collection[str]],
        into: Mapping[int, dict[str, PartitionPlace]],
    ) -> None:
        """Reads the partitions ``where``, and adds those in ``names_by_table`` to ``into``."""
        places = select(_P.TBL_ID, _P.PART_ID, _P.PART_NAME, SDS.c.LOCATION).join(SDS, SDS.c.SD_ID == _P.SD_ID)
        sorting = select(_P.PART_ID, SORT_COLS.c.COLUMN_NAME).join(SORT_COLS, SORT_COLS.c.SD_ID == _P.SD_ID)
        with self._database.read() as conn:
            columns = _columns_by_owner(
                conn.execute(sorting.where(where).order_by(_P.PART_ID, SORT_COLS.c.INTEGER_IDX))
            )
            for table, number, name, location in conn.execute(places.where(where)).all():
                if name in names_by_table[table]:
                    sort_columns = tuple(columns.get(number, ()))
                    into[table][name] = PartitionPlace(
                        id=number, name=name, location=location or "", sort_columns=sort_columns
                    )


def _name(catalog: str, database: str, table: str) -> str:
    return ".".join((*([] if catalog == CATALOG else [catalog]), database, table))


def _partitions() -> Select[Any]:
    columns = (PARTITIONS.c.TBL_ID, PARTITIONS.c.PART_NAME, SDS.c.LOCATION)
    return select(*columns).join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)


def _has_spelling(spellings: Collection[str]) -> ColumnElement[bool]:
    return or_(nothing(), *(SDS.c.LOCATION.contains(f"{spelling}/", autoescape=True) for spelling in spellings))


def _is_transactional_key() -> ColumnElement[bool]:
    return func.lower(TABLE_PARAMS.c.PARAM_KEY) == _TRANSACTIONAL


def _columns_by_owner(rows: Iterable[Any]) -> Mapping[int, Sequence[str]]:
    collected: defaultdict[int, list[str]] = defaultdict(list)
    for owner, column in rows:
        collected[owner].append(column)
    return collected
