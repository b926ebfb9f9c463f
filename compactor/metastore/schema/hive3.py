"""Hive 3.1's schema.

NEXT_TXN_ID instead of TXN_LOCK_TBL, no rows of committed transactions, a narrower queue.

Its transactions, write IDs, locks and queue are kept as Hive 3.1 keeps them; values that its queue has no column for are
in our own state (``ExtraColumns``). Its readers fail on a directory ``…_v<txn>``, so outputs are named without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Table,
    delete,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.engine.interfaces import Dialect as SqlDialect

from compactor.acid.names import Layout
from compactor.base.ids import TxnId
from compactor.metastore.schema.compile import folding_preparer, reduced_compiler
from compactor.metastore.schema.dialect import Dialect, MySQL4, Postgres4
from compactor.metastore.schema.tables import (
    COMPLETED_TXN_COMPONENTS,
    TRANSACTION_TABLES,
    TXN_COMPONENTS,
    TXNS,
    WRITE_SET,
)

metadata = MetaData()

NEXT_TXN_ID = Table("NEXT_TXN_ID", metadata, Column("NTXN_NEXT", BigInteger, nullable=False))

_QUEUE_LACKS = (
    "ENQUEUE_TIME",
    "ERROR_MESSAGE",
    "NEXT_TXN_ID",
    "TXN_ID",
    "COMMIT_TIME",
    "INITIATOR_ID",
    "INITIATOR_VERSION",
    "WORKER_VERSION",
    "POOL_NAME",
    "NUMBER_OF_BUCKETS",
    "ORDER_BY",
)
_DATABASE_LACKS = ("CREATE_TIME", "DB_MANAGED_LOCATION_URI", "TYPE", "DATACONNECTOR_NAME", "REMOTE_DBNAME")
_NAMES = frozenset(
    name for table in (*TRANSACTION_TABLES, NEXT_TXN_ID) for name in (table.name, *(c.name for c in table.columns))
)


class _Hive3(Dialect):
    """The schema's traits on every database."""

    schema_versions = ("3.1.0",)
    layout = Layout.PLAIN
    # It shows and purges only the states that it knows. Only "attempted" is not counted as a failure.
    substitutes = MappingProxyType({"c": "a", "x": "a"})
    request_types = frozenset({"a", "i"})
    announces = False  # followers of its log fail at an event that they do not know
    missing_tables = frozenset(
        {"TXN_LOCK_TBL", "MIN_HISTORY_WRITE_ID", "COMPACTION_METRICS_CACHE", "TXN_WRITE_NOTIFICATION_LOG"}
    )
    missing_columns = frozenset(
        {
            *(f"COMPACTION_QUEUE.CQ_{name}" for name in (*_QUEUE_LACKS, "CLEANER_START", "RETRY_RETENTION")),
            *(f"COMPLETED_COMPACTIONS.CC_{name}" for name in _QUEUE_LACKS),
            *(f"DBS.{name}" for name in _DATABASE_LACKS),
            "CTLGS.CREATE_TIME",
            "TBLS.WRITE_ID",
            "PARTITIONS.WRITE_ID",
            "TAB_COL_STATS.ENGINE",
            "PART_COL_STATS.ENGINE",
        }
    )
    last_type = 2
    draws_early = False
    marks_statistics = False
    lowers_partitions = True

    def lock_transactions(self, conn: Connection, *, exclusive: bool) -> None:
        """Locks the counter's row, which takes the place of TXN_LOCK_TBL; see ``Dialect``.

        The row has a single holder at a time.
        """
        conn.execute(self.for_update(select(NEXT_TXN_ID.c.NTXN_NEXT))).all()

    def open_transactions(self, conn: Connection, rows: Sequence[Mapping[str, object]]) -> list[TxnId]:
        """See ``Dialect``; the ids come from the counter, in the same database transaction as their rows."""
        first = conn.execute(select(NEXT_TXN_ID.c.NTXN_NEXT)).scalar_one()
        conn.execute(update(NEXT_TXN_ID).values(NTXN_NEXT=first + len(rows)))
        ids = [TxnId(first + number) for number in range(len(rows))]
        conn.execute(insert(TXNS), [dict(row) | {"TXN_ID": txn} for row, txn in zip(rows, ids, strict=True)])
        return ids

    def newest(self, conn: Connection) -> TxnId:
        """See ``Dialect``; the row of the newest may be gone."""
        return TxnId(conn.execute(select(NEXT_TXN_ID.c.NTXN_NEXT)).scalar_one() - 1)

    def raise_transactions(self, conn: Connection, newest: TxnId, row: Mapping[str, object]) -> None:
        """See ``Dialect``; a committed transaction has no row."""
        conn.execute(update(NEXT_TXN_ID).values(NTXN_NEXT=newest + 1))

    def settled(self, conn: Connection, open_txn_timeout_ms: int) -> TxnId:
        """See ``Dialect``; ids and their rows appear together."""
        return self.newest(conn)

    @property
    def remembers_commits(self) -> bool:
        """See ``Dialect``; instead, the same commit makes the queue row ready for cleaning."""
        return False

    def forget_committed(self, conn: Connection, txns: Sequence[TxnId]) -> None:
        """See ``Dialect``; a committed transaction has no row."""
        conn.execute(delete(TXNS).where(TXNS.c.TXN_ID.in_(txns)))

    def is_remembered(self, conn: Connection, txn: TxnId) -> bool:
        """See ``Dialect``; its components are kept until they are compacted (Hive 3.1's ``commitTxn``)."""
        written = select(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID).where(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID == txn)
        return conn.execute(written.limit(1)).first() is not None

    def conflicting(self) -> ColumnElement[bool]:
        """See ``Dialect``; two deletes do not conflict there."""
        one_updates = or_(TXN_COMPONENTS.c.TC_OPERATION_TYPE == "u", WRITE_SET.c.WS_OPERATION_TYPE == "u")
        return super().conflicting() & one_updates


class Postgres31(_Hive3, Postgres4):
    """Hive 3.1's schema on PostgreSQL: transaction tables in lower case, the others in quotes."""

    def adapt(self, dialect: SqlDialect) -> None:
        """See ``Dialect``."""
        super().adapt(dialect)
        dialect.statement_compiler = reduced_compiler(dialect.statement_compiler, self.missing_columns)
        preparer = folding_preparer(type(dialect.identifier_preparer), _NAMES.__contains__)
        dialect.identifier_preparer = preparer(dialect)


class MySQL31(_Hive3, MySQL4):
    """Hive 3.1's schema on MySQL and MariaDB."""

    def adapt(self, dialect: SqlDialect) -> None:
        """See ``Dialect``."""
        super().adapt(dialect)
        dialect.statement_compiler = reduced_compiler(dialect.statement_compiler, self.missing_columns)
