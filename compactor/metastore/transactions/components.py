"""TXN_COMPONENTS of aborted transactions: under which names they stand, and when they go."""

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
    """The names under which writes into ``entity`` are recorded.

    The twice escaped form is left out where it is itself the stored name of another partition, whose aborted
    transactions must not be forgotten with ours: their rows would count as committed.
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
    """That a row of TXN_COMPONENTS is about ``entity``, under whatever form of its name."""
    return entity_is(TXN_COMPONENTS, "TC", entity, *recorded_forms(conn, entity))


def forget_aborted(conn: Connection, entity: Entity, gone: ColumnElement[bool]) -> int:
    """Delete the components of aborted transactions in ``entity`` that meet ``gone``; how many.

    A row without a write ID (Hive's rebalance writes one) goes with the last of its transaction's that has one.
    """
    here = of_entity(conn, entity)
    aborted = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == txn_rows.ABORTED)
    mine = (here, _TC.TC_TXNID.in_(aborted))
    deleted = conn.execute(delete(TXN_COMPONENTS).where(*mine, gone)).rowcount
    found = select(_TC.TC_TXNID).where(*mine, _TC.TC_WRITEID.is_not(None)).subquery()
    numbered = select(found.c.TC_TXNID)  # MySQL reads no table that it deletes from, but it does read a derived one
    left_over = delete(TXN_COMPONENTS).where(*mine, _TC.TC_WRITEID.is_(None), _TC.TC_TXNID.not_in(numbered))
    return deleted + conn.execute(left_over).rowcount
