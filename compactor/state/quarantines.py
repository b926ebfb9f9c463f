"""The list of quarantined directories, so that no table has to be listed to find them.

See PROTOCOL 11.15.
"""

from __future__ import annotations

import json

from sqlalchemy import delete, insert, select

from compactor.compaction.quarantine_rules import Quarantined
from compactor.compaction.queue_entry import Entity
from compactor.database.engine import Database, retried
from compactor.state.state_tables import QUARANTINES, lock_state

_Q = QUARANTINES.c


class Quarantines:
    """Reads and writes COMPACTOR_QUARANTINES. A row exists before its directory and until after it."""

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
    def keep(self, metastore: str, quarantine: Quarantined) -> None:
        """Stores a quarantine; it replaces an earlier row of its entry."""
        with self._database.write() as conn:
            lock_state(conn)
            conn.execute(delete(QUARANTINES).where(_Q.METASTORE == metastore, _Q.ENTRY_ID == quarantine.entry_id))
            conn.execute(
                insert(QUARANTINES).values(
                    METASTORE=metastore,
                    ENTRY_ID=quarantine.entry_id,
                    DB_NAME=quarantine.entity.database,
                    TABLE_NAME=quarantine.entity.table,
                    PART_NAME=quarantine.entity.partition,
                    LOCATION=quarantine.location,
                    SINCE=quarantine.since,
                    UNTIL=quarantine.until,
                    BYTES=quarantine.bytes,
                    NAMES=json.dumps(quarantine.names),
                )
            )

    @retried
    def forget(self, metastore: str, entry_id: int) -> None:
        """Removes the row of a quarantine that is erased."""
        with self._database.write() as conn:
            conn.execute(delete(QUARANTINES).where(_Q.METASTORE == metastore, _Q.ENTRY_ID == entry_id))
