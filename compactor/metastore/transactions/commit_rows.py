"""Rows that the commit of a user transaction reads and writes, in the caller's database transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import (
    Column,
    Connection,
    Delete,
    Insert,
    Select,
    Update,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    update,
)

from compactor.acid.write_ids import ValidTxnList
from compactor.base.errors import Disagreement, Refused, WriteConflict
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity
from compactor.database.clock import now_ms
from compactor.database.prepared import send
from compactor.metastore.schema.dialect import Dialect, one_of
from compactor.metastore.schema.tables import (
    CATALOG,
    COLUMN_STATS_ACCURATE,
    COMPACTION_QUEUE,
    COMPLETED_TXN_COMPONENTS,
    DBS,
    PARTITION_PARAMS,
    PARTITIONS,
    TABLE_PARAMS,
    TBLS,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    WRITE_SET,
)
from compactor.metastore.transactions import transaction_rows
from compactor.metastore.transactions.shown_transactions import KeyValue
from compactor.metastore.transactions.transaction_rows import TxnType

InTransaction: TypeAlias = Callable[[Connection], None]  #: a function to run within a database transaction
KEY_PREFIX = "_meta"  #: prefix of properties that a transaction may commit (Hive's ``TxnStore.TXN_KEY_START``)


def conflict(conn: Connection, dialect: Dialect, txn: TxnId) -> TxnId | None:
    """Returns a transaction that changed the same rows as ``txn`` and committed after it was opened.

    A change is an update or a delete.
    """
    winner = send(conn, _conflicts(dialect), {"of_txn": txn}).scalar()
    return None if winner is None else TxnId(winner)


@cache
def _conflicts(dialect: Dialect) -> Select[Any]:
    mine, theirs = TXN_COMPONENTS.c, WRITE_SET.c
    same = and_(
        mine.TC_DATABASE == theirs.WS_DATABASE,
        mine.TC_TABLE == theirs.WS_TABLE,
        or_(
            mine.TC_PARTITION == theirs.WS_PARTITION,
            and_(mine.TC_PARTITION.is_(None), theirs.WS_PARTITION.is_(None)),
        ),
    )
    return (
        select(theirs.WS_TXNID)
        .select_from(TXN_COMPONENTS.join(WRITE_SET, same))
        .where(
            mine.TC_TXNID == bindparam("of_txn"),
            dialect.conflicting(),
            theirs.WS_TXNID != bindparam("of_txn"),
            theirs.WS_COMMIT_ID >= bindparam("of_txn"),
        )
        .order_by(theirs.WS_TXNID)
        .limit(literal_column("1"))
    )


def lost_error(txn: TxnId, winner: TxnId) -> WriteConflict:
    """Returns the error for a transaction that lost to ``winner``."""
    return WriteConflict(
        f"transaction {txn} is aborted: transaction {winner} updated or deleted in the same place and committed first; run "
        "the statement again",
        winner,
    )


def later_writer(
    conn: Connection, txn: TxnId, database: str, table: str, *, seen: ValidTxnList | None, only_changes: bool
) -> TxnId | None:
    """Returns a transaction that wrote into a table and committed after ``txn`` was opened.

    Returns None without one.

    ``txn`` does not see that transaction, or would lose to it although it sees it.

    Args:
        seen: the snapshot of ``txn``; without one ``txn`` will see the transactions that were opened before it.
    """
    changed, written = WRITE_SET.c, COMPLETED_TXN_COMPONENTS.c
    changes = select(changed.WS_TXNID).where(
        changed.WS_DATABASE == database,
        changed.WS_TABLE == table,
        changed.WS_TXNID != txn,
        changed.WS_COMMIT_ID >= txn,
        changed.WS_OPERATION_TYPE.in_(("u", "d")),
    )
    changer = conn.execute(changes.limit(1)).scalar()
    if changer is not None or only_changes:
        return changer
    unseen = written.CTC_TXNID > (txn if seen is None else seen.high_watermark)
    if seen is not None and seen.open:
        unseen = or_(unseen, written.CTC_TXNID.in_(sorted(seen.open)))
    writes = select(written.CTC_TXNID).where(
        written.CTC_DATABASE == database, written.CTC_TABLE == table, written.CTC_TXNID != txn, unseen
    )
    return conn.execute(writes.limit(1)).scalar()


def check_not_overwritten(txn: TxnId, entities: Collection[Entity]) -> InTransaction:
    """Returns a check that nobody has overwritten ``entities`` or their tables since ``txn`` was opened.

    Readers skip everything with a smaller write ID than the base of an overwrite (PROTOCOL 14.18). The function raises
    WriteConflict if such an overwrite has committed.
    """

    def check(conn: Connection) -> None:
        for database, table in sorted({(entity.database, entity.table) for entity in entities}):
            own = {entity.partition for entity in entities if (entity.database, entity.table) == (database, table)}
            here = {"of_txn": txn, "of_database": database, "of_table": table}
            for winner, partition in send(conn, _OVERWRITTEN, here).rows:
                if partition is None or partition in own:
                    raise lost_error(txn, TxnId(winner))

    return check


_OVERWRITTEN = select(WRITE_SET.c.WS_TXNID, WRITE_SET.c.WS_PARTITION).where(
    WRITE_SET.c.WS_DATABASE == bindparam("of_database"),
    WRITE_SET.c.WS_TABLE == bindparam("of_table"),
    WRITE_SET.c.WS_TXNID != bindparam("of_txn"),
    WRITE_SET.c.WS_COMMIT_ID >= bindparam("of_txn"),
    WRITE_SET.c.WS_OPERATION_TYPE == "u",
)


def must_have_written(conn: Connection, txn: TxnId, written: Mapping[Entity, WriteId]) -> None:
    """Checks that the database records each write ID in ``written`` for ``txn``.

    If the database was restored to an older copy, another transaction may have the same write IDs, and rows of both
    would mix (PROTOCOL 11.2).

    Raises:
        Disagreement: the database does not record one of them.
    """
    if not written:
        return
    components = send(conn, _COMPONENTS, {"of_txn": txn}).rows
    recorded = {(row[0].lower(), row[1].lower(), row[2], row[3]) for row in components}
    own = {(row[0].lower(), row[1].lower(), row[2]) for row in send(conn, _MAPPINGS, {"of_txn": txn}).rows}
    for entity, write_id in written.items():
        database, table = entity.database.lower(), entity.table.lower()
        if (database, table, entity.partition, write_id) not in recorded or (database, table, write_id) not in own:
            raise Disagreement(
                f"{entity}: transaction {txn} got write ID {write_id} there, which the database no longer records: the "
                "metastore was restored to an older copy, or the table was dropped or renamed. Nothing was named; begin "
                "again"
            )


_COMPONENTS = select(
    TXN_COMPONENTS.c.TC_DATABASE,
    TXN_COMPONENTS.c.TC_TABLE,
    TXN_COMPONENTS.c.TC_PARTITION,
    TXN_COMPONENTS.c.TC_WRITEID,
).where(TXN_COMPONENTS.c.TC_TXNID == bindparam("of_txn"))
_MAPPINGS = select(TXN_TO_WRITE_ID.c.T2W_DATABASE, TXN_TO_WRITE_ID.c.T2W_TABLE, TXN_TO_WRITE_ID.c.T2W_WRITEID).where(
    TXN_TO_WRITE_ID.c.T2W_TXNID == bindparam("of_txn")
)


def unmark_statistics(conn: Connection, dialect: Dialect, written: Mapping[Entity, WriteId]) -> None:
    """Removes the marks of exact statistics from written objects.

    Otherwise Hive would answer ``count(*)`` from them.

    As Hive does for a writer that keeps no statistics, with the write ID of that writer (PROTOCOL 12).

    Args:
        written: the write ID by table without partitions, or by partition.
    """
    for entity, write_id in sorted(written.items(), key=lambda item: str(item[0])):  # everybody uses the same order
        table_id = send(conn, _TABLE, {"of_database": entity.database, "of_table": entity.table}).scalar()
        if entity.partition is None:
            _unmark_statistics_of(conn, dialect, TBLS.c.TBL_ID, TABLE_PARAMS.c.TBL_ID, table_id, write_id)
            continue
        part_id = send(conn, _PARTITION, {"of_table": table_id, "of_partition": entity.partition}).scalar()
        _unmark_statistics_of(conn, dialect, PARTITIONS.c.PART_ID, PARTITION_PARAMS.c.PART_ID, part_id, write_id)


def _unmark_statistics_of(
    conn: Connection, dialect: Dialect, id: Column[int], parameter_id: Column[int], owner: int | None, write_id: WriteId
) -> None:
    send(conn, _unmarked(parameter_id), {"of_owner": owner})
    if str(id.table.c.WRITE_ID) not in dialect.missing_columns:
        send(conn, _written(id), {"of_owner": owner, "WRITE_ID": write_id})


@cache
def _unmarked(owner: Column[int]) -> Delete:
    key = owner.table.c.PARAM_KEY == COLUMN_STATS_ACCURATE
    return delete(owner.table).where(owner == bindparam("of_owner"), key)


@cache
def _written(owner: Column[int]) -> Update:
    return update(owner.table).where(owner == bindparam("of_owner"))


_TABLE = (
    select(TBLS.c.TBL_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(
        DBS.c.NAME == bindparam("of_database"),
        TBLS.c.TBL_NAME == bindparam("of_table"),
        DBS.c.CTLG_NAME == CATALOG,
    )
)
_PARTITION = select(PARTITIONS.c.PART_ID).where(
    PARTITIONS.c.TBL_ID == bindparam("of_table"), PARTITIONS.c.PART_NAME == bindparam("of_partition")
)


def complete(
    conn: Connection, dialect: Dialect, txn: TxnId, type: TxnType, commit_id: TxnId, *, everything: bool
) -> None:
    """Writes the rows of Hive's commit: write set, completed components, a compaction's stamps, state.

    Args:
        commit_id: the newest transaction.
        everything: also record inserts in WRITE_SET.
    """
    transaction_rows.write_set(conn, txn, commit_id, everything=everything)
    if type is not TxnType.READ_ONLY and not type.compacts:
        complete_components(conn, txn)
    if type in (TxnType.COMPACTION, TxnType.SOFT_DELETE):
        stamped = update(COMPACTION_QUEUE).where(COMPACTION_QUEUE.c.CQ_TXN_ID == txn)
        conn.execute(stamped.values(CQ_NEXT_TXN_ID=commit_id, CQ_COMMIT_TIME=now_ms(conn)))
    transaction_rows.mark_committed(conn, dialect, [txn])


def complete_components(conn: Connection, txn: TxnId) -> None:
    """Copies TXN_COMPONENTS to COMPLETED_TXN_COMPONENTS; all rows get ``Y`` if one updated or deleted."""
    flag = "Y" if send(conn, _CHANGES, {"of_txn": txn}).scalar() else "N"
    send(conn, _COMPLETED[flag], {"of_txn": txn})


def _completed(flag: str) -> Insert:
    components = TXN_COMPONENTS.c
    written = select(
        components.TC_TXNID,
        components.TC_DATABASE,
        components.TC_TABLE,
        components.TC_PARTITION,
        components.TC_WRITEID,
        literal(flag),
    ).where(components.TC_TXNID == bindparam("of_txn"), components.TC_OPERATION_TYPE != "c")
    columns = ["CTC_TXNID", "CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION", "CTC_WRITEID", "CTC_UPDATE_DELETE"]
    return insert(COMPLETED_TXN_COMPONENTS).from_select(columns, written)


_CHANGES = select(func.count()).where(
    TXN_COMPONENTS.c.TC_TXNID == bindparam("of_txn"), one_of(TXN_COMPONENTS.c.TC_OPERATION_TYPE, "ud")
)
_COMPLETED = {flag: _completed(flag) for flag in "YN"}


def set_property(conn: Connection, key_value: KeyValue) -> None:
    """Sets a table property with the commit.

    Raises:
        Refused: the key lacks the prefix, or the table does not have the property.
    """
    if not key_value.key.startswith(KEY_PREFIX):
        raise Refused(
            f"property {key_value.key!r} cannot be committed with a transaction: it must begin with {KEY_PREFIX}"
        )
    here = (TABLE_PARAMS.c.TBL_ID == key_value.table_id, TABLE_PARAMS.c.PARAM_KEY == key_value.key)
    if conn.execute(select(TABLE_PARAMS.c.PARAM_KEY).where(*here)).first() is None:
        raise Refused(
            f"property {key_value.key!r} of table {key_value.table_id} does not exist; set it once before a transaction "
            "commits it"
        )
    conn.execute(update(TABLE_PARAMS).where(*here).values(PARAM_VALUE=key_value.value))
