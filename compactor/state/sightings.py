"""What was newest when an entry that bears no stamp was first seen ready for cleaning."""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.
from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import insert, select

from compactor.database.engine import Database
from compactor.database.retry import retried
from compactor.ids import TxnId
from compactor.state.tables import SIGHTINGS, alone

_S = SIGHTINGS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The newest transaction and the newest lock around the entry at its first sight; 0 where there was no lock."""

    newest: TxnId
    newest_lock: int = 0


class Sightings:
    """COMPACTOR_SIGHTINGS. Hive stamps no CQ_NEXT_TXN_ID on its rebalances, and Hive 3 on nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def seen(self, metastore: str, entry_id: int) -> Sighting | None:
        """What was newest at first sight of the entry; None where nobody has looked at it yet."""
        query = select(_S.NEWEST_TXN_ID, _S.NEWEST_LOCK_ID).where(_S.METASTORE == metastore, _S.ENTRY_ID == entry_id)
        with self._database.read() as conn:
            known = conn.execute(query).first()
        if known is None:
            return None
        return Sighting(newest=TxnId(known.NEWEST_TXN_ID), newest_lock=known.NEWEST_LOCK_ID or 0)

    @retried
    def first(self, metastore: str, entry_id: int, now: Sighting) -> Sighting:
        """What was newest at first sight of the entry; ``now`` when this is the first."""
        query = select(_S.NEWEST_TXN_ID, _S.NEWEST_LOCK_ID).where(_S.METASTORE == metastore, _S.ENTRY_ID == entry_id)
        with self._database.write() as conn:
            alone(conn)
            known = conn.execute(query).first()
            if known is not None:
                return Sighting(newest=TxnId(known.NEWEST_TXN_ID), newest_lock=known.NEWEST_LOCK_ID or 0)
            row = {"NEWEST_TXN_ID": now.newest, "NEWEST_LOCK_ID": now.newest_lock}
            conn.execute(insert(SIGHTINGS).values(METASTORE=metastore, ENTRY_ID=entry_id, **row))
            return now
