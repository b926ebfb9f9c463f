"""The rows that the commit of a user transaction reads and writes, inside a transaction of the caller."""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.
from __future__ import annotations

from sqlalchemy import Connection, and_, func, insert, literal, or_, select, update

from compactor.errors import Refused
from compactor.ids import TxnId
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    COMPLETED_TXN_COMPONENTS,
    TABLE_PARAMS,
    TXN_COMPONENTS,
    WRITE_SET,
)
from compactor.metastore.transactions.values import KeyValue

KEY_PREFIX = "_meta"  #: of what may be committed with a transaction (Hive's ``TxnStore.TXN_KEY_START``)


def conflict(conn: Connection, dialect: Dialect, txn: TxnId) -> TxnId | None:
    """Returns a transaction that updated or deleted where ``txn`` did and committed after ``txn`` was opened."""
    mine, theirs = TXN_COMPONENTS.c, WRITE_SET.c
    same = and_(
        mine.TC_DATABASE == theirs.WS_DATABASE,
        mine.TC_TABLE == theirs.WS_TABLE,
        or_(
            mine.TC_PARTITION == theirs.WS_PARTITION,
            and_(mine.TC_PARTITION.is_(None), theirs.WS_PARTITION.is_(None)),
        ),
    )
    query = (
        select(theirs.WS_TXNID)
        .select_from(TXN_COMPONENTS.join(WRITE_SET, same))
        .where(
            mine.TC_TXNID == txn,
            dialect.conflicting(),
            theirs.WS_TXNID != txn,
            theirs.WS_COMMIT_ID >= txn,
        )
        .order_by(theirs.WS_TXNID)
        .limit(1)
    )
    return conn.execute(query).scalar()


def complete_components(conn: Connection, txn: TxnId) -> None:
    """Copies TXN_COMPONENTS to COMPLETED_TXN_COMPONENTS, with ``Y`` in all rows if any of them updated or deleted."""
    components = TXN_COMPONENTS.c
    changes = select(func.count()).where(components.TC_TXNID == txn, components.TC_OPERATION_TYPE.in_(("u", "d")))
    flag = "Y" if conn.execute(changes).scalar_one() else "N"
    written = select(
        components.TC_TXNID,
        components.TC_DATABASE,
        components.TC_TABLE,
        components.TC_PARTITION,
        components.TC_WRITEID,
        literal(flag),
    ).where(components.TC_TXNID == txn, components.TC_OPERATION_TYPE != "c")
    columns = ["CTC_TXNID", "CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION", "CTC_WRITEID", "CTC_UPDATE_DELETE"]
    conn.execute(insert(COMPLETED_TXN_COMPONENTS).from_select(columns, written))


def set_property(conn: Connection, wanted: KeyValue) -> None:
    """Sets a table property with the commit.

    Raises:
        Refused: its key lacks the prefix, or the table has no such property.
    """
    if not wanted.key.startswith(KEY_PREFIX):
        raise Refused(
            f"property {wanted.key!r} cannot be committed with a transaction: it must begin with {KEY_PREFIX}"
        )
    here = (TABLE_PARAMS.c.TBL_ID == wanted.table_id, TABLE_PARAMS.c.PARAM_KEY == wanted.key)
    if conn.execute(select(TABLE_PARAMS.c.PARAM_KEY).where(*here)).first() is None:
        raise Refused(
            f"property {wanted.key!r} of table {wanted.table_id} is not there; set it once before it is committed with a "
            "transaction"
        )
    conn.execute(update(TABLE_PARAMS).where(*here).values(PARAM_VALUE=wanted.value))
