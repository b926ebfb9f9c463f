"""Hive 4's metastore tables: names, columns, keys and first rows as in ``hive-schema-4.0.0``.

Names are upper case, so that every dialect quotes them exactly as Hive 4 created them. Types are PostgreSQL's; a variant
is given where MySQL's script has another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy import (
    CHAR,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    func,
)
from sqlalchemy.types import TIMESTAMP, VARBINARY, TypeEngine

from compactor.acid import txn_states
from compactor.database.mysql_types import MySQLBit, MySQLType

CATALOG = "hive"  #: CTLG_NAME of everything that Compactor reads

_T = TypeVar("_T")

SCHEMA_VERSION = "4.0.0"

metadata = MetaData()


#: ``latin1_bin`` in MySQL's catalog tables, so that names there differ by case.
_EXACT = "CHARACTER SET latin1 COLLATE latin1_bin"
_SERVERS = ("mysql", "mariadb")


def _on_mysql(type: TypeEngine[_T], variant: TypeEngine[Any]) -> TypeEngine[_T]:
    return type.with_variant(variant, *_SERVERS)


_LONG_TEXT = _on_mysql(Text(), MySQLType("LONGTEXT"))
_MEDIUM_TEXT = _on_mysql(Text(), MySQLType("MEDIUMTEXT"))
_EXACT_TEXT = _on_mysql(Text(), MySQLType(f"MEDIUMTEXT {_EXACT}"))
_FLAG = _on_mysql(Boolean(), MySQLBit())
_TIMESTAMP = _on_mysql(DateTime(), TIMESTAMP())
_BYTES = _on_mysql(LargeBinary(2048), VARBINARY(2048))


def _id(name: str, target: str | None = None, *, nullable: bool = False) -> Column[int]:
    references = [ForeignKey(target)] if target else []
    return Column(name, BigInteger, *references, nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> Column[int]:
    """Returns the type of a count or a time in seconds, an int in MySQL."""
    return Column(name, _on_mysql(BigInteger(), Integer()), nullable=nullable)


def _text(name: str, length: int, *, nullable: bool = True, **kwargs: Any) -> Column[str]:
    return Column(name, String(length), nullable=nullable, **kwargs)


def _name(name: str, length: int, *arguments: ForeignKey, nullable: bool = True, **kwargs: Any) -> Column[str]:
    """Returns the type of a text in the catalog."""
    type = _on_mysql(String(length), MySQLType(f"VARCHAR({length}) {_EXACT}"))
    return Column(name, type, *arguments, nullable=nullable, **kwargs)


def _code(name: str) -> Column[str]:
    return Column(name, CHAR(1), nullable=False)


# --- transactions -----------------------------------------------------------------------------------------------

TXNS = Table(
    "TXNS",
    metadata,
    # INTEGER PRIMARY KEY AUTOINCREMENT on SQLite: a plain key would reuse the largest id after its deletion.
    Column("TXN_ID", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    _code("TXN_STATE"),
    _id("TXN_STARTED"),
    _id("TXN_LAST_HEARTBEAT"),
    _text("TXN_USER", 128, nullable=False),
    _text("TXN_HOST", 128, nullable=False),
    _text("TXN_AGENT_INFO", 128),
    _text("TXN_META_INFO", 128),
    Column("TXN_HEARTBEAT_COUNT", Integer),
    Column("TXN_TYPE", Integer),
    sqlite_autoincrement=True,
)

TXN_COMPONENTS = Table(
    "TXN_COMPONENTS",
    metadata,
    _id("TC_TXNID", "TXNS.TXN_ID"),
    _text("TC_DATABASE", 128, nullable=False),
    _text("TC_TABLE", 256),
    _text("TC_PARTITION", 767),
    _code("TC_OPERATION_TYPE"),
    _id("TC_WRITEID", nullable=True),
    Index("TC_TXNID_INDEX", "TC_TXNID"),
)

COMPLETED_TXN_COMPONENTS = Table(
    "COMPLETED_TXN_COMPONENTS",
    metadata,
    _id("CTC_TXNID"),
    _text("CTC_DATABASE", 128, nullable=False),
    _text("CTC_TABLE", 256),
    _text("CTC_PARTITION", 767),
    Column(
        "CTC_TIMESTAMP",
        _TIMESTAMP,
        nullable=False,
        server_default=func.current_timestamp(),
    ),
    _id("CTC_WRITEID", nullable=True),
    _code("CTC_UPDATE_DELETE"),
    Index("COMPLETED_TXN_COMPONENTS_INDEX", "CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION"),
)

TXN_LOCK_TBL = Table("TXN_LOCK_TBL", metadata, _id("TXN_LOCK"))

HIVE_LOCKS = Table(
    "HIVE_LOCKS",
    metadata,
    _id("HL_LOCK_EXT_ID"),
    _id("HL_LOCK_INT_ID"),
    _id("HL_TXNID"),
    _text("HL_DB", 128, nullable=False),
    _text("HL_TABLE", 256),
    _text("HL_PARTITION", 767),
    _code("HL_LOCK_STATE"),
    _code("HL_LOCK_TYPE"),
    _id("HL_LAST_HEARTBEAT"),
    _id("HL_ACQUIRED_AT", nullable=True),
    _text("HL_USER", 128, nullable=False),
    _text("HL_HOST", 128, nullable=False),
    Column("HL_HEARTBEAT_COUNT", Integer),
    _text("HL_AGENT_INFO", 128),
    _id("HL_BLOCKEDBY_EXT_ID", nullable=True),
    _id("HL_BLOCKEDBY_INT_ID", nullable=True),
    PrimaryKeyConstraint("HL_LOCK_EXT_ID", "HL_LOCK_INT_ID"),
    Index("HL_TXNID_INDEX", "HL_TXNID"),
)

NEXT_LOCK_ID = Table("NEXT_LOCK_ID", metadata, _id("NL_NEXT"))

# --- compaction -------------------------------------------------------------------------------------------------

COMPACTION_QUEUE = Table(
    "COMPACTION_QUEUE",
    metadata,
    Column("CQ_ID", BigInteger, primary_key=True, autoincrement=False),
    _text("CQ_DATABASE", 128, nullable=False),
    _text("CQ_TABLE", 256, nullable=False),
    _text("CQ_PARTITION", 767),
    _code("CQ_STATE"),
    _code("CQ_TYPE"),
    _text("CQ_TBLPROPERTIES", 2048),
    _text("CQ_WORKER_ID", 128),
    _id("CQ_ENQUEUE_TIME", nullable=True),
    _id("CQ_START", nullable=True),
    _text("CQ_RUN_AS", 128),
    _id("CQ_HIGHEST_WRITE_ID", nullable=True),
    Column("CQ_META_INFO", _BYTES),
    _text("CQ_HADOOP_JOB_ID", 32),
    Column("CQ_ERROR_MESSAGE", _MEDIUM_TEXT),
    _id("CQ_NEXT_TXN_ID", nullable=True),
    _id("CQ_TXN_ID", nullable=True),
    _id("CQ_COMMIT_TIME", nullable=True),
    _text("CQ_INITIATOR_ID", 128),
    _text("CQ_INITIATOR_VERSION", 128),
    _text("CQ_WORKER_VERSION", 128),
    _id("CQ_CLEANER_START", nullable=True),
    Column("CQ_RETRY_RETENTION", BigInteger, nullable=False, server_default="0"),
    _text("CQ_POOL_NAME", 128),
    Column("CQ_NUMBER_OF_BUCKETS", Integer),
    _text("CQ_ORDER_BY", 4000),
)

NEXT_COMPACTION_QUEUE_ID = Table("NEXT_COMPACTION_QUEUE_ID", metadata, _id("NCQ_NEXT"))

COMPLETED_COMPACTIONS = Table(
    "COMPLETED_COMPACTIONS",
    metadata,
    Column("CC_ID", BigInteger, primary_key=True, autoincrement=False),
    _text("CC_DATABASE", 128, nullable=False),
    _text("CC_TABLE", 256, nullable=False),
    _text("CC_PARTITION", 767),
    _code("CC_STATE"),
    _code("CC_TYPE"),
    _text("CC_TBLPROPERTIES", 2048),
    _text("CC_WORKER_ID", 128),
    _id("CC_ENQUEUE_TIME", nullable=True),
    _id("CC_START", nullable=True),
    _id("CC_END", nullable=True),
    _text("CC_RUN_AS", 128),
    _id("CC_HIGHEST_WRITE_ID", nullable=True),
    Column("CC_META_INFO", _BYTES),
    _text("CC_HADOOP_JOB_ID", 32),
    Column("CC_ERROR_MESSAGE", _MEDIUM_TEXT),
    _id("CC_NEXT_TXN_ID", nullable=True),
    _id("CC_TXN_ID", nullable=True),
    _id("CC_COMMIT_TIME", nullable=True),
    _text("CC_INITIATOR_ID", 128),
    _text("CC_INITIATOR_VERSION", 128),
    _text("CC_WORKER_VERSION", 128),
    _text("CC_POOL_NAME", 128),
    Column("CC_NUMBER_OF_BUCKETS", Integer),
    _text("CC_ORDER_BY", 4000),
    Index("COMPLETED_COMPACTIONS_RES", "CC_DATABASE", "CC_TABLE", "CC_PARTITION"),
)

COMPACTION_METRICS_CACHE = Table(
    "COMPACTION_METRICS_CACHE",
    metadata,
    _text("CMC_DATABASE", 128, nullable=False),
    _text("CMC_TABLE", 256, nullable=False),
    _text("CMC_PARTITION", 767),
    _text("CMC_METRIC_TYPE", 128, nullable=False),
    Column("CMC_METRIC_VALUE", Integer, nullable=False),
    Column("CMC_VERSION", Integer, nullable=False),
)

AUX_TABLE = Table(
    "AUX_TABLE",
    metadata,
    _text("MT_KEY1", 128, nullable=False),
    _id("MT_KEY2"),
    _text("MT_COMMENT", 255),
    PrimaryKeyConstraint("MT_KEY1", "MT_KEY2"),
)

# --- write IDs and history --------------------------------------------------------------------------------------

WRITE_SET = Table(
    "WRITE_SET",
    metadata,
    _text("WS_DATABASE", 128, nullable=False),
    _text("WS_TABLE", 256, nullable=False),
    _text("WS_PARTITION", 767),
    _id("WS_TXNID"),
    _id("WS_COMMIT_ID"),
    _code("WS_OPERATION_TYPE"),
)

TXN_TO_WRITE_ID = Table(
    "TXN_TO_WRITE_ID",
    metadata,
    _id("T2W_TXNID"),
    _text("T2W_DATABASE", 128, nullable=False),
    _text("T2W_TABLE", 256, nullable=False),
    _id("T2W_WRITEID"),
    Index("TBL_TO_TXN_ID_IDX", "T2W_DATABASE", "T2W_TABLE", "T2W_TXNID", unique=True),
    Index("TBL_TO_WRITE_ID_IDX", "T2W_DATABASE", "T2W_TABLE", "T2W_WRITEID", unique=True),
)

NEXT_WRITE_ID = Table(
    "NEXT_WRITE_ID",
    metadata,
    _text("NWI_DATABASE", 128, nullable=False),
    _text("NWI_TABLE", 256, nullable=False),
    _id("NWI_NEXT"),
    Index("NEXT_WRITE_ID_IDX", "NWI_DATABASE", "NWI_TABLE", unique=True),
)

MIN_HISTORY_WRITE_ID = Table(
    "MIN_HISTORY_WRITE_ID",
    metadata,
    _id("MH_TXNID", "TXNS.TXN_ID"),
    _text("MH_DATABASE", 128, nullable=False),
    _text("MH_TABLE", 256, nullable=False),
    _id("MH_WRITEID"),
)

MIN_HISTORY_LEVEL = Table(
    "MIN_HISTORY_LEVEL",
    metadata,
    Column("MHL_TXNID", BigInteger, primary_key=True, autoincrement=False),
    _id("MHL_MIN_OPEN_TXNID"),
    Index("MIN_HISTORY_LEVEL_IDX", "MHL_MIN_OPEN_TXNID"),
)

MATERIALIZATION_REBUILD_LOCKS = Table(
    "MATERIALIZATION_REBUILD_LOCKS",
    metadata,
    Column("MRL_TXN_ID", BigInteger, primary_key=True, autoincrement=False),
    _text("MRL_DB_NAME", 128, nullable=False),
    _text("MRL_TBL_NAME", 256, nullable=False),
    _id("MRL_LAST_HEARTBEAT"),
)

REPL_TXN_MAP = Table(
    "REPL_TXN_MAP",
    metadata,
    _text("RTM_REPL_POLICY", 256, nullable=False),
    _id("RTM_SRC_TXN_ID"),
    _id("RTM_TARGET_TXN_ID"),
    PrimaryKeyConstraint("RTM_REPL_POLICY", "RTM_SRC_TXN_ID"),
)

TXN_WRITE_NOTIFICATION_LOG = Table(
    "TXN_WRITE_NOTIFICATION_LOG",
    metadata,
    _id("WNL_ID"),
    _id("WNL_TXNID"),
    _id("WNL_WRITEID"),
    _text("WNL_DATABASE", 128, nullable=False),
    _text("WNL_TABLE", 256, nullable=False),
    _text("WNL_PARTITION", 767, nullable=False),
    Column("WNL_TABLE_OBJ", _LONG_TEXT, nullable=False),
    Column("WNL_PARTITION_OBJ", _LONG_TEXT),
    Column("WNL_FILES", _LONG_TEXT),
    Column("WNL_EVENT_TIME", Integer, nullable=False),
    PrimaryKeyConstraint("WNL_TXNID", "WNL_DATABASE", "WNL_TABLE", "WNL_PARTITION"),
)

#: The tables of the transaction store. Hive 3.1 created them without quotes.
TRANSACTION_TABLES: tuple[Table, ...] = tuple(metadata.tables.values())

# --- catalog ----------------------------------------------------------------------------------------------------

CTLGS = Table(
    "CTLGS",
    metadata,
    Column("CTLG_ID", BigInteger, primary_key=True, autoincrement=False),
    _text("NAME", 256, unique=True),
    _text("DESC", 4000),
    _text("LOCATION_URI", 4000, nullable=False),
    _number("CREATE_TIME", nullable=True),
)

DBS = Table(
    "DBS",
    metadata,
    Column("DB_ID", BigInteger, primary_key=True, autoincrement=False),
    _name("DESC", 4000),
    _name("DB_LOCATION_URI", 4000, nullable=False),
    _name("NAME", 128),
    _name("OWNER_NAME", 128),
    _name("OWNER_TYPE", 10),
    Column("CTLG_NAME", String(256), ForeignKey("CTLGS.NAME"), nullable=False, server_default="hive"),
    _number("CREATE_TIME", nullable=True),
    _name("DB_MANAGED_LOCATION_URI", 4000),
    _text("TYPE", 32, nullable=False, server_default="NATIVE"),
    _text("DATACONNECTOR_NAME", 128),
    _text("REMOTE_DBNAME", 128),
    UniqueConstraint("NAME", "CTLG_NAME", name="UNIQUE_DATABASE"),
)

DATABASE_PARAMS = Table(
    "DATABASE_PARAMS",
    metadata,
    _id("DB_ID", "DBS.DB_ID"),
    _name("PARAM_KEY", 180, nullable=False),
    _name("PARAM_VALUE", 4000),
    PrimaryKeyConstraint("DB_ID", "PARAM_KEY"),
)

CDS = Table("CDS", metadata, Column("CD_ID", BigInteger, primary_key=True, autoincrement=False))

COLUMNS_V2 = Table(
    "COLUMNS_V2",
    metadata,
    _id("CD_ID", "CDS.CD_ID"),
    _name("COMMENT", 4000),
    _name("COLUMN_NAME", 767, nullable=False),
    Column("TYPE_NAME", _MEDIUM_TEXT),
    Column("INTEGER_IDX", Integer, nullable=False),
    PrimaryKeyConstraint("CD_ID", "COLUMN_NAME"),
)

SERDES = Table(
    "SERDES",
    metadata,
    Column("SERDE_ID", BigInteger, primary_key=True, autoincrement=False),
    _name("NAME", 128),
    _name("SLIB", 4000),
    _name("DESCRIPTION", 4000),
    _name("SERIALIZER_CLASS", 4000),
    _name("DESERIALIZER_CLASS", 4000),
    Column("SERDE_TYPE", Integer),
)

SERDE_PARAMS = Table(
    "SERDE_PARAMS",
    metadata,
    _id("SERDE_ID", "SERDES.SERDE_ID"),
    _name("PARAM_KEY", 256, nullable=False),
    Column("PARAM_VALUE", _EXACT_TEXT),
    PrimaryKeyConstraint("SERDE_ID", "PARAM_KEY"),
)

SDS = Table(
    "SDS",
    metadata,
    Column("SD_ID", BigInteger, primary_key=True, autoincrement=False),
    _name("INPUT_FORMAT", 4000),
    Column("IS_COMPRESSED", _FLAG, nullable=False),
    _name("LOCATION", 4000),
    _number("NUM_BUCKETS"),
    _name("OUTPUT_FORMAT", 4000),
    _id("SERDE_ID", "SERDES.SERDE_ID", nullable=True),
    _id("CD_ID", "CDS.CD_ID", nullable=True),
    Column("IS_STOREDASSUBDIRECTORIES", _FLAG, nullable=False),
    Index("SDS_N49", "SERDE_ID"),
    Index("SDS_N50", "CD_ID"),
)

BUCKETING_COLS = Table(
    "BUCKETING_COLS",
    metadata,
    _id("SD_ID", "SDS.SD_ID"),
    _name("BUCKET_COL_NAME", 256),
    _number("INTEGER_IDX"),
    PrimaryKeyConstraint("SD_ID", "INTEGER_IDX"),
)

SORT_COLS = Table(
    "SORT_COLS",
    metadata,
    _id("SD_ID", "SDS.SD_ID"),
    _name("COLUMN_NAME", 767),
    _number("ORDER"),
    _number("INTEGER_IDX"),
    PrimaryKeyConstraint("SD_ID", "INTEGER_IDX"),
)

TBLS = Table(
    "TBLS",
    metadata,
    Column("TBL_ID", BigInteger, primary_key=True, autoincrement=False),
    _number("CREATE_TIME"),
    _id("DB_ID", "DBS.DB_ID", nullable=True),
    _number("LAST_ACCESS_TIME"),
    _name("OWNER", 767),
    _name("OWNER_TYPE", 10),
    _number("RETENTION"),
    _id("SD_ID", "SDS.SD_ID", nullable=True),
    _name("TBL_NAME", 256),
    _name("TBL_TYPE", 128),
    Column("VIEW_EXPANDED_TEXT", _MEDIUM_TEXT),
    Column("VIEW_ORIGINAL_TEXT", _MEDIUM_TEXT),
    Column("IS_REWRITE_ENABLED", _FLAG, nullable=False, server_default=false()),
    Column("WRITE_ID", BigInteger, server_default="0"),
    UniqueConstraint("TBL_NAME", "DB_ID", name="UNIQUETABLE"),
    Index("TBLS_N50", "SD_ID"),
)

#: The parameter in which Hive notes which statistics are true (its ``StatsSetupConst``).
COLUMN_STATS_ACCURATE = "COLUMN_STATS_ACCURATE"

TABLE_PARAMS = Table(
    "TABLE_PARAMS",
    metadata,
    _id("TBL_ID", "TBLS.TBL_ID"),
    _name("PARAM_KEY", 256, nullable=False),
    Column("PARAM_VALUE", _EXACT_TEXT),
    PrimaryKeyConstraint("TBL_ID", "PARAM_KEY"),
)

PARTITIONS = Table(
    "PARTITIONS",
    metadata,
    Column("PART_ID", BigInteger, primary_key=True, autoincrement=False),
    _number("CREATE_TIME"),
    _number("LAST_ACCESS_TIME"),
    _name("PART_NAME", 767),
    _id("SD_ID", "SDS.SD_ID", nullable=True),
    _id("TBL_ID", "TBLS.TBL_ID", nullable=True),
    Column("WRITE_ID", BigInteger, server_default="0"),
    UniqueConstraint("TBL_ID", "PART_NAME", name="UNIQUEPARTITION"),
    Index("PARTITIONS_N50", "SD_ID"),
)

PARTITION_PARAMS = Table(
    "PARTITION_PARAMS",
    metadata,
    _id("PART_ID", "PARTITIONS.PART_ID"),
    _name("PARAM_KEY", 256, nullable=False),
    Column("PARAM_VALUE", _EXACT_TEXT),
    PrimaryKeyConstraint("PART_ID", "PARAM_KEY"),
)

PARTITION_KEYS = Table(
    "PARTITION_KEYS",
    metadata,
    _id("TBL_ID", "TBLS.TBL_ID"),
    _name("PKEY_COMMENT", 4000),
    _name("PKEY_NAME", 128, nullable=False),
    _name("PKEY_TYPE", 767, nullable=False),
    _number("INTEGER_IDX"),
    PrimaryKeyConstraint("TBL_ID", "PKEY_NAME"),
)

PARTITION_KEY_VALS = Table(
    "PARTITION_KEY_VALS",
    metadata,
    _id("PART_ID", "PARTITIONS.PART_ID"),
    _name("PART_KEY_VAL", 256),
    _number("INTEGER_IDX"),
    PrimaryKeyConstraint("PART_ID", "INTEGER_IDX"),
)

VERSION = Table(
    "VERSION",
    metadata,
    Column("VER_ID", BigInteger, primary_key=True, autoincrement=False),
    _text("SCHEMA_VERSION", 127, nullable=False),
    _text("VERSION_COMMENT", 255, nullable=False),
)

SEQUENCE_TABLE = Table(
    "SEQUENCE_TABLE",
    metadata,
    _name("SEQUENCE_NAME", 255, nullable=False),
    _id("NEXT_VAL"),
    PrimaryKeyConstraint("SEQUENCE_NAME"),
)

_MODEL = "org.apache.hadoop.hive.metastore.model."

#: The first rows of a fresh schema, in the order in which they are written.
SEEDS: tuple[tuple[Table, Mapping[str, Any]], ...] = (
    # MAX(TXN_ID) must never be NULL.
    (
        TXNS,
        {
            "TXN_ID": 0,
            "TXN_STATE": txn_states.COMMITTED,
            "TXN_STARTED": 0,
            "TXN_LAST_HEARTBEAT": 0,
            "TXN_USER": "",
            "TXN_HOST": "",
        },
    ),
    (TXN_LOCK_TBL, {"TXN_LOCK": 1}),
    (NEXT_LOCK_ID, {"NL_NEXT": 1}),
    (NEXT_COMPACTION_QUEUE_ID, {"NCQ_NEXT": 1}),
    (CTLGS, {"CTLG_ID": 1, "NAME": "hive", "DESC": "Default catalog for Hive", "LOCATION_URI": "TBD"}),
    (SEQUENCE_TABLE, {"SEQUENCE_NAME": f"{_MODEL}MNotificationLog", "NEXT_VAL": 1}),
    (SEQUENCE_TABLE, {"SEQUENCE_NAME": f"{_MODEL}MTxnWriteNotificationLog", "NEXT_VAL": 1}),
    # Last: a schema without this row is not complete.
    (VERSION, {"VER_ID": 1, "SCHEMA_VERSION": SCHEMA_VERSION, "VERSION_COMMENT": "Hive release version 4.0.0"}),
)
