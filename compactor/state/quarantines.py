"""The list of what lies in quarantine, so that it is found without listing every table (PROTOCOL 11.15)."""

from __future__ import annotations

import json

from sqlalchemy import delete, insert, select

from compactor.compaction.entry import Entity
from compactor.compaction.quarantine_rules import Quarantined
from compactor.database.engine import Database
from compactor.database.retry import retried
from compactor.state.state_tables import QUARANTINES, alone

_Q = QUARANTINES.c


class Quarantines:
    """Reads and writes COMPACTOR_QUARANTINES. A row is there before its directory, and goes after it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self, metastore: str) -> list[Quarantined]:
        """Returns every quarantine of one metastore, by entry."""
        query = select(QUARANTINES).where(_Q.METASTORE == metastore).order_by(_Q.ENTRY_ID)
        with self._database.read() as conn:
            return [
                Quarantined(
                    entry_id=row["ENTRY_ID"],
                    entity=Entity(database=row["DB_NAME"], table=row["TABLE_NAME"], partition=row["PART_NAME"]),
                    location=row["LOCATION"],
                    since=row["SINCE"],
                    until=row["UNTIL"],
                    bytes=row["BYTES"],
                    names=tuple(json.loads(row["NAMES"])),
                )
                for row in conn.execute(query).mappings()
            ]

    @retried
    def keep(self, metastore: str, one: Quarantined) -> None:
        """Stores a quarantine, in place of an earlier row of its entry."""
        with self._database.write() as conn:
            alone(conn)
            conn.execute(delete(QUARANTINES).where(_Q.METASTORE == metastore, _Q.ENTRY_ID == one.entry_id))
            conn.execute(
                insert(QUARANTINES).values(
                    METASTORE=metastore,
                    ENTRY_ID=one.entry_id,
                    DB_NAME=one.entity.database,
                    TABLE_NAME=one.entity.table,
                    PART_NAME=one.entity.partition,
                    LOCATION=one.location,
                    SINCE=one.since,
                    UNTIL=one.until,
                    BYTES=one.bytes,
                    NAMES=json.dumps(one.names),
                )
            )

    @retried
    def forget(self, metastore: str, entry_id: int) -> None:
        """Removes the row of a quarantine that is erased."""
        with self._database.write() as conn:
            conn.execute(delete(QUARANTINES).where(_Q.METASTORE == metastore, _Q.ENTRY_ID == entry_id))
