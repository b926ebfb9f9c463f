"""What was the newest transaction when an entry without a stamp was first seen ready for cleaning."""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.
from __future__ import annotations

from sqlalchemy import insert, select

from compactor.database.engine import Database
from compactor.database.retry import retried
from compactor.ids import TxnId
from compactor.state.tables import SIGHTINGS, alone

_S = SIGHTINGS.c


class Sightings:
    """COMPACTOR_SIGHTINGS. Hive stamps no CQ_NEXT_TXN_ID on its rebalances, and Hive 3 on nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @retried
    def first(self, metastore: str, entry_id: int, newest: TxnId) -> TxnId:
        """The newest transaction at first sight of the entry; ``newest`` when this is the first."""
        query = select(_S.NEWEST_TXN_ID).where(_S.METASTORE == metastore, _S.ENTRY_ID == entry_id)
        with self._database.write() as conn:
            alone(conn)
            known = conn.execute(query).scalar()
            if known is None:
                conn.execute(insert(SIGHTINGS).values(METASTORE=metastore, ENTRY_ID=entry_id, NEWEST_TXN_ID=newest))
                return newest
            return TxnId(known)
