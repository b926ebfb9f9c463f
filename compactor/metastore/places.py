"""Where the catalog says that something is, asked again just before a compaction is named."""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.
from __future__ import annotations

from sqlalchemy import Connection, select

from compactor.compaction.entry import Entity
from compactor.errors import LostClaim
from compactor.metastore.tables import DBS, PARTITIONS, SDS, TBLS


def same_place(
    conn: Connection, entry_id: int, entity: Entity, *, table_id: int, partition_id: int | None, location: str
) -> None:
    """That table and partition are those that were read, where they were (dropped and made again meanwhile?).

    Raises:
        LostClaim: they are not.
    """
    of_table = select(TBLS.c.TBL_ID, SDS.c.LOCATION).join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    of_table = of_table.where(DBS.c.NAME == entity.database, TBLS.c.TBL_NAME == entity.table)
    place = of_table.join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    if entity.partition is not None:
        place = (
            of_table.add_columns(PARTITIONS.c.PART_ID)
            .join(PARTITIONS, PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID)
            .join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
            .where(PARTITIONS.c.PART_NAME == entity.partition)
        )
    found = conn.execute(place).mappings().first()
    if found is None:
        raise LostClaim(f"compaction {entry_id}: {entity} is not in the metastore any more")
    wanted = (table_id, partition_id, location)
    seen = (found["TBL_ID"], found.get("PART_ID"), found["LOCATION"])
    if seen != wanted:
        raise LostClaim(
            f"compaction {entry_id}: {entity} was made again or moved meanwhile; it is table {seen[0]}, partition "
            f"{seen[1]} at {seen[2]}, what was read is table {table_id}, partition {partition_id} at {location}"
        )
