"""TXN_COMPONENTS of aborted transactions: the names under which they are recorded, and their removal."""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.
from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, delete, select

from compactor.acid import partition_names
from compactor.compaction.entry import Entity
from compactor.metastore.schema.entity import entity_is
from compactor.metastore.schema.tables import DBS, PARTITIONS, TBLS, TXN_COMPONENTS, TXNS
from compactor.metastore.transactions import rows as txn_rows

_TC = TXN_COMPONENTS.c


def recorded_forms(conn: Connection, entity: Entity) -> tuple[str | None, ...]:
    """Returns the names under which writes into ``entity`` are recorded.

    The twice escaped form is left out if it is also the stored name of another partition: the aborted transactions of
    that one must not be forgotten with ours, or their rows would count as committed.
    """
    names = partition_names.recorded_names(entity.partition)
    if len(names) == 1:
        return names
    other = (
        select(PARTITIONS.c.PART_ID)
        .join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
        .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        .where(DBS.c.NAME == entity.database, TBLS.c.TBL_NAME == entity.table, PARTITIONS.c.PART_NAME == names[1])
    )
    return names if conn.execute(other).first() is None else names[:1]


def of_entity(conn: Connection, entity: Entity) -> ColumnElement[bool]:
    """Returns the condition for rows of TXN_COMPONENTS that refer to ``entity``, under any form of its name."""
    return entity_is(TXN_COMPONENTS, "TC", entity, *recorded_forms(conn, entity))


def forget_aborted(conn: Connection, entity: Entity, gone: ColumnElement[bool]) -> int:
    """Deletes the components of aborted transactions in ``entity`` that meet ``gone``; returns their number.

    A row without a write ID (Hive's rebalance writes one) goes with the last row of its transaction that has one.
    """
    here = of_entity(conn, entity)
    aborted = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == txn_rows.ABORTED)
    mine = (here, _TC.TC_TXNID.in_(aborted))
    deleted = conn.execute(delete(TXN_COMPONENTS).where(*mine, gone)).rowcount
    found = select(_TC.TC_TXNID).where(*mine, _TC.TC_WRITEID.is_not(None)).subquery()
    numbered = select(found.c.TC_TXNID)  # MySQL reads no table that it deletes from, but it does read a derived one
    left_over = delete(TXN_COMPONENTS).where(*mine, _TC.TC_WRITEID.is_(None), _TC.TC_TXNID.not_in(numbered))
    return deleted + conn.execute(left_over).rowcount
