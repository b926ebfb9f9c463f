"""Locations of all tables and partitions in every catalog, to find those that overlap.

Hive has no index on locations, so each statement reads SDS once. It returns few rows: partitions at their default location,
``<location of the table>/<PART_NAME>``, are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy import false as nothing
from sqlalchemy import true as everything

from compactor.database.engine import Database
from compactor.database.prepared import in_parts
from compactor.metastore.catalog.values import VIEW, is_true
from compactor.metastore.schema.tables import CATALOG, DBS, PARTITIONS, SDS, TABLE_PARAMS, TBLS

_OF_TABLE = SDS.alias("OF_TABLE")
_TRANSACTIONAL = "transactional"
_AT_ONCE = 500  #: tables in one statement


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


class Grounds:
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
        """Yields the partitions of these tables (TBL_IDs); with ``spellings``, only if their location has one of them."""
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


def _name(catalog: str, database: str, table: str) -> str:
    return ".".join((*([] if catalog == CATALOG else [catalog]), database, table))


def _partitions() -> Select[Any]:
    columns = (PARTITIONS.c.TBL_ID, PARTITIONS.c.PART_NAME, SDS.c.LOCATION)
    return select(*columns).join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)


def _has_spelling(spellings: Collection[str]) -> ColumnElement[bool]:
    return or_(nothing(), *(SDS.c.LOCATION.contains(f"{spelling}/", autoescape=True) for spelling in spellings))


def _is_transactional_key() -> ColumnElement[bool]:
    return func.lower(TABLE_PARAMS.c.PARAM_KEY) == _TRANSACTIONAL
