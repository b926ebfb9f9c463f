"""Hive 2.3's schema, as far as it is read before an upgrade: its catalog, transactions and queue.

There a transaction is the write ID of every table; its queue has CQ_HIGHEST_TXN_ID, and there is only one catalog.
"""

from __future__ import annotations

from types import MappingProxyType

from sqlalchemy import CHAR, BigInteger, Column, LargeBinary, MetaData, String, Table
from sqlalchemy.engine.interfaces import Dialect as SqlDialect

from compactor.acid.names import Layout
from compactor.base.errors import NotSupported
from compactor.metastore.schema.compile import folding_preparer, reduced_compiler
from compactor.metastore.schema.dialect import Dialect, MySQL4, Postgres4

metadata = MetaData()

TXNS = Table(
    "TXNS", metadata, Column("TXN_ID", BigInteger, primary_key=True), Column("TXN_STATE", CHAR(1), nullable=False)
)
NEXT_TXN_ID = Table("NEXT_TXN_ID", metadata, Column("NTXN_NEXT", BigInteger, nullable=False))
COMPACTION_QUEUE = Table(
    "COMPACTION_QUEUE",
    metadata,
    Column("CQ_ID", BigInteger, primary_key=True, autoincrement=False),
    Column("CQ_DATABASE", String(128), nullable=False),
    Column("CQ_TABLE", String(128), nullable=False),
    Column("CQ_PARTITION", String(767)),
    Column("CQ_STATE", CHAR(1), nullable=False),
    Column("CQ_TYPE", CHAR(1), nullable=False),
    Column("CQ_TBLPROPERTIES", String(2048)),
    Column("CQ_WORKER_ID", String(128)),
    Column("CQ_START", BigInteger),
    Column("CQ_RUN_AS", String(128)),
    Column("CQ_HIGHEST_TXN_ID", BigInteger),
    Column("CQ_META_INFO", LargeBinary),
    Column("CQ_HADOOP_JOB_ID", String(32)),
)
NEXT_COMPACTION_QUEUE_ID = Table("NEXT_COMPACTION_QUEUE_ID", metadata, Column("NCQ_NEXT", BigInteger, nullable=False))
AUX_TABLE = Table(
    "AUX_TABLE",
    metadata,
    Column("MT_KEY1", String(128), primary_key=True),
    Column("MT_KEY2", BigInteger, primary_key=True, autoincrement=False),
    Column("MT_COMMENT", String(255)),
)

_NAMES = frozenset(name for table in metadata.sorted_tables for name in (table.name, *(c.name for c in table.columns)))
_DATABASE_LACKS = ("CREATE_TIME", "DB_MANAGED_LOCATION_URI", "TYPE", "DATACONNECTOR_NAME", "REMOTE_DBNAME")
_MISSING = frozenset(
    {
        *(f"DBS.{name}" for name in (*_DATABASE_LACKS, "CTLG_NAME")),
        *(f"SERDES.{name}" for name in ("DESCRIPTION", "SERIALIZER_CLASS", "DESERIALIZER_CLASS", "SERDE_TYPE")),
        "TBLS.OWNER_TYPE",
        "TBLS.WRITE_ID",
        "PARTITIONS.WRITE_ID",
    }
)
#: The constant that stands in for CTLG_NAME: all of it is in the catalog that later Hives call by this name.
_INSTEAD = MappingProxyType({"DBS.CTLG_NAME": "'hive'"})


class Hive2Schema(Dialect):
    """The schema's traits on every database."""

    schema_versions = ("2.3.0",)
    layout = Layout.VERSION_1
    missing_columns = _MISSING

    def adapt(self, dialect: SqlDialect) -> None:
        """See ``Dialect``."""
        super().adapt(dialect)
        dialect.statement_compiler = reduced_compiler(dialect.statement_compiler, self.missing_columns, _INSTEAD)


class Postgres23(Hive2Schema, Postgres4):
    """Hive 2.3's schema on PostgreSQL: transaction tables in lower case, the others in quotes."""

    def adapt(self, dialect: SqlDialect) -> None:
        """See ``Dialect``."""
        super().adapt(dialect)
        preparer = folding_preparer(type(dialect.identifier_preparer), _NAMES.__contains__)
        dialect.identifier_preparer = preparer(dialect)


class MySQL23(Hive2Schema, MySQL4):
    """Hive 2.3's schema on MySQL and MariaDB."""


HIVE_2: tuple[Dialect, ...] = (Postgres23(), MySQL23())


def hive_2_dialect(database: str, schema_version: str, url: str) -> Dialect:
    """Returns the dialect for a kind of database and SCHEMA_VERSION; ``url`` is for the message.

    Raises:
        NotSupported: there is no dialect for it.
    """
    for dialect in HIVE_2:
        if dialect.database == database and schema_version in dialect.schema_versions:
            return dialect
    raise NotSupported(
        f"metastore {url}: {database} with schema {schema_version} is not looked at; wanted is schema 2.3.0 on PostgreSQL "
        "or MySQL. Upgrade Hive to 2.3 first, as its own documentation says"
    )
