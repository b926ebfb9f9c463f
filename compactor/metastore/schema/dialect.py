"""The differences between metastore databases and schema versions, one object for each.

A database that is not in ``_DIALECTS`` is refused when it is opened; no other code asks which database it is. This is
Hive 4's schema on each database; ``hive3`` has the differences of Hive 3.1's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, func, insert, or_, select, text, update
from sqlalchemy.engine.interfaces import Dialect as SqlDialect

from compactor.acid import partition_names, txn_states
from compactor.acid.names import Layout
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.database.clock import now_ms
from compactor.database.prepared import send, send_all
from compactor.metastore.schema.tables import TRANSACTION_TABLES, TXN_COMPONENTS, TXN_LOCK_TBL, TXNS, WRITE_SET

_Rows = TypeVar("_Rows", bound=Select[Any])

# Built once, since every compaction uses it.
_NEWEST = select(func.max(TXNS.c.TXN_ID))
_OPENED = insert(TXNS).returning(TXNS.c.TXN_ID, sort_by_parameter_order=True)
_COMMITTED = update(TXNS).where(TXNS.c.TXN_ID == bindparam("of_txn"))


def one_of(column: ColumnElement[Any], values: str) -> ColumnElement[bool]:
    """Returns the condition that ``column`` is one of the letters; unlike ``in_`` it can be compiled once."""
    return or_(*(column == value for value in values))


def entity_is(table: Table, prefix: str, entity: Entity, *partitions: str | None) -> ColumnElement[bool]:
    """Returns the condition for rows of ``entity``, or of the ``partitions`` of its table."""
    columns = table.c
    names = partitions or (entity.partition,)
    partition = columns[f"{prefix}_PARTITION"]
    here = partition.is_(None) if names == (None,) else partition.in_(names)
    return (columns[f"{prefix}_DATABASE"] == entity.database) & (columns[f"{prefix}_TABLE"] == entity.table) & here


class Dialect:
    """Hive 4's schema on SQLite.

    Its writing transactions exclude one another from their first statement on (``BEGIN IMMEDIATE``), so a row lock
    and the lock on TXN_LOCK_TBL are already held; servers add them.
    """

    database: str = "sqlite"
    schema_versions: tuple[str, ...] = ("4.0.0", "4.1.0", "4.2.0")
    #: How this Hive's readers take the output of a compaction.
    layout: Layout = Layout.VISIBILITY
    #: Codes of CC_STATE written for states that this Hive has no code for. The actual state is kept in our own state.
    substitutes: Mapping[str, str] = MappingProxyType({})
    #: CQ_TYPE of the compactions that may be requested; None for every type.
    request_types: frozenset[str] | None = None
    #: Tables and columns (``TABLE.COLUMN``) of ``tables`` that this schema lacks. Columns read as NULL.
    missing_tables: frozenset[str] = frozenset()
    missing_columns: frozenset[str] = frozenset()
    #: The largest TXN_TYPE that this Hive knows; a transaction of a later type is an ordinary one to it.
    last_type: int = 6
    #: True if an id of TXNS can be drawn while others are being drawn, long before its row is there.
    draws_early: bool = False

    #: True if a Hive may answer queries from statistics of transactional tables; none reads a metastore on SQLite.
    marks_statistics: bool = False

    #: True if those who follow this Hive's notification log know the events that are written here.
    announces: bool = True

    #: True if this Hive's locks, and the writes that they announce, name their partition in lower case.
    lowers_partitions: bool = False

    def adapt(self, dialect: SqlDialect) -> None:
        """Makes an engine write names and columns as this schema has them."""

    def recorded_names(self, partition: str | None) -> tuple[str | None, ...]:
        """Returns every form in which writers record a partition, the stored one first."""
        return partition_names.recorded_names(partition, lowered=self.lowers_partitions)

    # --- locks --------------------------------------------------------------------------------------------------

    def for_update(self, query: _Rows) -> _Rows:
        """Returns ``query`` such that the rows it finds stay locked until the end of the transaction."""
        return query

    def unlocked(self, query: _Rows) -> _Rows:
        """Returns ``query`` as ``for_update`` does, but without rows that another transaction has locked."""
        return query

    def lock_transactions(self, conn: Connection, *, exclusive: bool) -> None:
        """Holds TXN_LOCK_TBL to the end of the transaction: shared to open, exclusive to commit (Hive 4)."""
        if not conn.in_transaction():
            raise AssertionError("TXN_LOCK_TBL is only held within a transaction")

    # --- transactions -------------------------------------------------------------------------------------------

    def open_transactions(self, conn: Connection, rows: Sequence[Mapping[str, object]]) -> list[TxnId]:
        """Inserts rows into TXNS and returns their ids in ascending order. ``lock_transactions`` is held."""
        if conn.dialect.insert_executemany_returning_sort_by_parameter_order:
            return [TxnId(txn) for txn in conn.execute(_OPENED, [dict(row) for row in rows]).scalars()]
        return [TxnId(_inserted_id(conn, row)) for row in rows]  # MySQL reports the id of a single row only

    def newest(self, conn: Connection) -> TxnId:
        """Returns the newest transaction. Read after ``lock_transactions``, no newer one can commit before us."""
        return TxnId(send(conn, _NEWEST, {}).scalar())

    def raise_transactions(self, conn: Connection, newest: TxnId, row: Mapping[str, object]) -> None:
        """Inserts ``row`` into TXNS under ``newest``, an id that was not drawn; the next ids drawn are larger.

        ``lock_transactions`` is held exclusively.
        """
        conn.execute(insert(TXNS).values(TXN_ID=newest, **row))

    def settled(self, conn: Connection, open_txn_timeout_ms: int) -> TxnId:
        """Returns the id up to which every id has its row or never will.

        Above it a drawn id may still get one.
        """
        edge = now_ms(conn) - open_txn_timeout_ms
        return TxnId(conn.execute(select(func.max(TXNS.c.TXN_ID)).where(TXNS.c.TXN_STARTED < edge)).scalar() or 0)

    @property
    def remembers_commits(self) -> bool:
        """True if TXNS keeps the row of a compaction's transaction after its commit."""
        return True

    def forget_committed(self, conn: Connection, txns: Sequence[TxnId]) -> None:
        """Marks the rows of committing transactions committed.

        Where the schema keeps no such rows, deletes them.
        """
        send_all(conn, _COMMITTED, [{"of_txn": txn, "TXN_STATE": txn_states.COMMITTED} for txn in txns])

    def is_remembered(self, conn: Connection, txn: TxnId) -> bool:
        """Returns true if a transaction without a row is known to have committed."""
        return False

    def conflicting(self) -> ColumnElement[bool]:
        """Returns the condition under which operations in TXN_COMPONENTS and WRITE_SET on one object conflict."""
        return one_of(TXN_COMPONENTS.c.TC_OPERATION_TYPE, "ud") & one_of(WRITE_SET.c.WS_OPERATION_TYPE, "ud")

    # --- schema -------------------------------------------------------------------------------------------------

    def has(self, table: Table) -> bool:
        """Returns true if the schema has this table."""
        return table.name not in self.missing_tables

    @property
    def transaction_tables(self) -> list[Table]:
        """Returns the tables that the schema has."""
        return [table for table in TRANSACTION_TABLES if self.has(table)]

    def row(self, table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns ``values`` of a row without the columns that the schema lacks."""
        return {name: value for name, value in values.items() if f"{table.name}.{name}" not in self.missing_columns}

    def lacks(self, table: Table) -> frozenset[str]:
        """Returns the columns of ``table`` that the schema lacks."""
        return frozenset(column.name for column in table.columns if str(column) in self.missing_columns)

    def exactly(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Returns ``column`` for grouping and ordering such that texts that differ in any way stay apart."""
        return column


class Postgres4(Dialect):
    """Hive 4's schema on PostgreSQL: every name in quotes."""

    database = "postgresql"
    draws_early = True
    marks_statistics = True

    def for_update(self, query: _Rows) -> _Rows:
        """See ``Dialect``."""
        return query.with_for_update()

    def unlocked(self, query: _Rows) -> _Rows:
        """See ``Dialect``."""
        return query.with_for_update(skip_locked=True)

    def lock_transactions(self, conn: Connection, *, exclusive: bool) -> None:
        """See ``Dialect``; the lock is one on the table, as Hive takes it."""
        conn.exec_driver_sql(f'LOCK TABLE "TXN_LOCK_TBL" IN {"EXCLUSIVE" if exclusive else "SHARE"} MODE')

    def raise_transactions(self, conn: Connection, newest: TxnId, row: Mapping[str, object]) -> None:
        """See ``Dialect``; the sequence does not follow an id that is given."""
        super().raise_transactions(conn, newest, row)
        conn.execute(text("SELECT setval(pg_get_serial_sequence('\"TXNS\"', 'TXN_ID'), :newest)"), {"newest": newest})


class MySQL4(Dialect):
    """Hive 4's schema on MySQL and MariaDB."""

    database = "mysql"
    draws_early = True
    marks_statistics = True

    def adapt(self, dialect: SqlDialect) -> None:
        """Compares texts exactly: the schema's transaction tables treat upper and lower case as equal."""
        from compactor.metastore.schema.compile import exact_compiler

        dialect.statement_compiler = exact_compiler(dialect.statement_compiler)

    def for_update(self, query: _Rows) -> _Rows:
        """See ``Dialect``."""
        return query.with_for_update()

    def unlocked(self, query: _Rows) -> _Rows:
        """See ``Dialect``."""
        return query.with_for_update(skip_locked=True)

    def lock_transactions(self, conn: Connection, *, exclusive: bool) -> None:
        """See ``Dialect``; the lock is one on the table's only row, as Hive takes it."""
        conn.execute(select(TXN_LOCK_TBL.c.TXN_LOCK).with_for_update(read=not exclusive)).all()

    def exactly(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """See ``Dialect``."""
        return func.convert(column.op("USING")(text("utf8mb4"))).collate("utf8mb4_bin")


def _inserted_id(conn: Connection, row: Mapping[str, object]) -> int:
    key = conn.execute(insert(TXNS).values(**row)).inserted_primary_key
    if key is None:
        raise AssertionError("the database hands out TXN_ID")
    return int(key[0])
