"""The newest transaction and lock when an entry without a stamp was first seen ready for cleaning."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import insert, select

from compactor.base.ids import TxnId
from compactor.database.engine import Database, retried
from compactor.state.state_tables import SIGHTINGS, lock_state

_S = SIGHTINGS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The newest transaction and lock of the metastore when an entry was first seen; 0 if there was no lock."""

    newest: TxnId
    newest_lock: int = 0


class Sightings:
    """Reads and writes COMPACTOR_SIGHTINGS. Hive leaves CQ_NEXT_TXN_ID of rebalances empty, Hive 3 of all entries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def seen(self, metastore: str, entry_id: int) -> Sighting | None:
        """Returns the first sighting of the entry; None if it has not been seen yet."""
        query = select(_S.NEWEST_TXN_ID, _S.NEWEST_LOCK_ID).where(_S.METASTORE == metastore, _S.ENTRY_ID == entry_id)
        with self._database.read() as conn:
            known = conn.execute(query).first()
        if known is None:
            return None
        return Sighting(newest=TxnId(known.NEWEST_TXN_ID), newest_lock=known.NEWEST_LOCK_ID or 0)

    @retried
    def first(self, metastore: str, entry_id: int, now: Sighting) -> Sighting:
        """Returns the first sighting of the entry, and stores ``now`` if there is none."""
        query = select(_S.NEWEST_TXN_ID, _S.NEWEST_LOCK_ID).where(_S.METASTORE == metastore, _S.ENTRY_ID == entry_id)
        with self._database.write() as conn:
            lock_state(conn)
            known = conn.execute(query).first()
            if known is not None:
                return Sighting(newest=TxnId(known.NEWEST_TXN_ID), newest_lock=known.NEWEST_LOCK_ID or 0)
            row = {"NEWEST_TXN_ID": now.newest, "NEWEST_LOCK_ID": now.newest_lock}
            conn.execute(insert(SIGHTINGS).values(METASTORE=metastore, ENTRY_ID=entry_id, **row))
            return now
