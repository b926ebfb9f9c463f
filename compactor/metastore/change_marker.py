"""A short text that changes when the initiator has something new to look at."""

from __future__ import annotations

import hashlib

from sqlalchemy import ColumnElement, Connection, func, or_, select

from compactor.acid import txn_states
from compactor.database.clock import now_ms
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    DATABASE_PARAMS,
    TABLE_PARAMS,
    TXN_COMPONENTS,
    TXNS,
)
from compactor.metastore.transactions.transaction_rows import TxnType

_HOUR_MS = 3_600_000
_POLICY = ("compact%", "no_auto_compaction", "no_cleanup", "transactional%", "hive.compactor.%")


def change_marker(metastore: Metastore) -> str:
    """Returns a text that changes with commits, aborts and their age, queue, history and properties.

    The age counts in hours.

    It costs seven aggregates in one reading transaction. Two equal texts mean that nothing has changed the initiator's
    decisions in between, except for settings, which the caller adds.
    """
    with metastore.database.read() as conn:
        # Compactions are left out: queue and history show what they change for the initiator.
        is_write = func.coalesce(TXNS.c.TXN_TYPE, 0).not_in(
            (TxnType.READ_ONLY, TxnType.COMPACTION, TxnType.REBALANCE_COMPACTION)
        )
        committed = select(func.max(TXNS.c.TXN_ID)).where(TXNS.c.TXN_STATE == txn_states.COMMITTED, is_write)
        parts = [
            conn.execute(committed).scalar() or 0,
            conn.execute(select(func.max(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID))).scalar() or 0,
            *_aborts(conn),
            *_queue(conn),
            conn.execute(select(func.max(COMPLETED_COMPACTIONS.c.CC_ID))).scalar() or 0,
            _properties(conn),
        ]
    return "-".join(map(str, parts))


def _aborts(conn: Connection) -> tuple[int, int]:
    components = TXN_COMPONENTS.join(TXNS, TXNS.c.TXN_ID == TXN_COMPONENTS.c.TC_TXNID)
    figures = select(func.count(TXNS.c.TXN_ID.distinct()), func.min(TXNS.c.TXN_STARTED)).select_from(components)
    count, oldest = conn.execute(figures.where(TXNS.c.TXN_STATE == txn_states.ABORTED)).one()
    return count, 0 if oldest is None else (now_ms(conn) - oldest) // _HOUR_MS


def _queue(conn: Connection) -> tuple[int, int]:
    newest, count = conn.execute(select(func.max(COMPACTION_QUEUE.c.CQ_ID), func.count(COMPACTION_QUEUE.c.CQ_ID))).one()
    return newest or 0, count


def _properties(conn: Connection) -> str:
    """Returns a digest of the table and database properties that affect compaction."""
    digest = hashlib.sha256()
    for table, owner in ((DATABASE_PARAMS, "DB_ID"), (TABLE_PARAMS, "TBL_ID")):
        key: ColumnElement[str] = table.c.PARAM_KEY
        relevant = or_(*(func.lower(key).like(pattern) for pattern in _POLICY))
        query = select(table.c[owner], key, table.c.PARAM_VALUE).where(relevant).order_by(table.c[owner], key)
        for row in conn.execute(query):
            digest.update(repr(tuple(row)).encode())
    return digest.hexdigest()[:16]
