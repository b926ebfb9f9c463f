"""Counts of aborted transactions of one table or partition, as the metastore has them."""

from __future__ import annotations

from sqlalchemy import func, select

from compactor.acid import txn_states
from compactor.compaction.queue_entry import Entity
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import TXN_COMPONENTS, TXNS
from compactor.metastore.transactions import components
from compactor.metastore.transactions.components import Aborted


def aborted_of(metastore: Metastore, entity: Entity) -> Aborted:
    """Returns the aborted transactions of one entity, under every form of its partition's name."""
    with metastore.database.read() as conn:
        here = components.is_of_entity(conn, metastore.dialect, entity)
        total = func.sum(TXNS.c.TXN_ID.distinct())
        figures = select(func.count(TXNS.c.TXN_ID.distinct()), func.min(TXNS.c.TXN_STARTED), total)
        joined = figures.select_from(TXN_COMPONENTS.join(TXNS, TXNS.c.TXN_ID == TXN_COMPONENTS.c.TC_TXNID))
        count, oldest, added = conn.execute(joined.where(TXNS.c.TXN_STATE == txn_states.ABORTED, here)).one()
    return Aborted(count=count, oldest_start=oldest or 0, total=int(added or 0))
