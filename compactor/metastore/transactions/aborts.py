"""Writes of aborted transactions that are not yet forgotten."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select

from compactor.compaction.entry import Entity
from compactor.database.engine import Database
from compactor.ids import TxnId, WriteId
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import TXN_COMPONENTS, TXNS
from compactor.metastore.transactions import components
from compactor.metastore.transactions import rows as txn_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedWrite:
    """One component of an aborted transaction; its last heartbeat was at ``last_heartbeat`` (epoch ms)."""

    txn: TxnId
    write_id: WriteId
    last_heartbeat: int


class Aborts:
    """TXN_COMPONENTS of transactions in state ``a``."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    def writes(self, entity: Entity) -> list[AbortedWrite]:
        """Returns the aborted writes of one entity that have a write ID, oldest first, under every form of its name.

        If ``are_shared``, some of them may be in another partition.
        """
        query = (
            select(TXNS.c.TXN_ID, TXN_COMPONENTS.c.TC_WRITEID, TXNS.c.TXN_LAST_HEARTBEAT)
            .join(TXNS, TXNS.c.TXN_ID == TXN_COMPONENTS.c.TC_TXNID)
            .where(TXNS.c.TXN_STATE == txn_rows.ABORTED, TXN_COMPONENTS.c.TC_WRITEID.is_not(None))
            .distinct()
            .order_by(TXNS.c.TXN_ID)
        )
        with self._database.read() as conn:
            query = query.where(components.of_entity(conn, self._dialect, entity))
            return [
                AbortedWrite(txn=TxnId(txn), write_id=WriteId(write_id), last_heartbeat=heard)
                for txn, write_id, heard in conn.execute(query)
            ]

    def are_shared(self, entity: Entity) -> bool:
        """Returns true if another partition's aborted writes are recorded under a name of ``entity``, so that what is absent
        from its directory may still be somewhere in its table."""
        with self._database.read() as conn:
            return components.are_shared(conn, self._dialect, entity)

    def forget(self, entity: Entity, write_ids: Collection[WriteId]) -> int:
        """Deletes the components of these aborted writes, none of which may have files in storage (PROTOCOL 8).

        Returns the number of rows deleted.
        """
        gone = TXN_COMPONENTS.c.TC_WRITEID.in_(sorted(write_ids))
        with self._database.write() as conn:
            return components.forget_aborted(conn, self._dialect, entity, gone)
