"""Locations in the catalog, checked again just before an output gets its name or a file is removed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, bindparam, select

from compactor.base.errors import LostClaim
from compactor.compaction.entry import Entity
from compactor.database.prepared import send
from compactor.metastore.schema.tables import CATALOG, DBS, PARTITIONS, SDS, TBLS

# Built once, because every compaction uses them.
_OF_TABLE = (
    select(TBLS.c.TBL_ID, SDS.c.LOCATION)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(DBS.c.CTLG_NAME == bindparam("of_catalog"), DBS.c.NAME == bindparam("of_database"))
    .where(TBLS.c.TBL_NAME == bindparam("of_table"))
)
_TABLE = _OF_TABLE.join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
_PARTITION = (
    _OF_TABLE.add_columns(PARTITIONS.c.PART_ID)
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
