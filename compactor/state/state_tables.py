"""Our own tables.

Times are epoch ms of the database's clock; JSON is stored as text, which every database has.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    select,
)

from compactor.database.mysql_types import MySQLType

metadata = MetaData()

VERSION_TABLE = "COMPACTOR_VERSION"  #: Alembic's
#: The versions of the steps in ``migrations``, the oldest first.
STATE_VERSIONS = ("0001",)
STATE_VERSION = STATE_VERSIONS[-1]


def _key(name: str) -> Column[int]:
    # INTEGER on SQLite lets the database allocate the number; AUTOINCREMENT below keeps it from reusing one.
    return Column(name, BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


def _entity() -> tuple[Column[str], ...]:
    """Returns the columns that name a table or partition; without PART_NAME it is a whole table."""
    return (
        Column("DB_NAME", String(128), nullable=False),
        Column("TABLE_NAME", String(256), nullable=False),
        Column("PART_NAME", String(767)),
    )


BATCHES = Table(
    "COMPACTOR_BATCHES",
    metadata,
    _key("BATCH_ID"),
    Column("METASTORE", String(128), nullable=False),
    Column("POOL", String(128)),
    Column("QUEUE", String(256)),
    Column("CONF", Text, nullable=False),
    Column("STATE", String(16), nullable=False),
    Column("ATTEMPT", Integer, nullable=False),
    Column("DRIVER", String(256)),
    Column("APPLICATION_ID", String(256)),
    Column("TRACKING_URL", String(512)),
    Column("LOG_URL", String(512)),
    Column("TASK_URL", String(1024)),
    Column("SCHEDULER_RUN", String(640)),
    Column("SCHEDULER_TASK", String(272)),
    Column("ROUTE", String(64)),
    Column("RESIDENT_ID", BigInteger),
    Column("RESERVED_UNTIL", BigInteger, nullable=False),
    Column("PLANNED_AT", BigInteger, nullable=False),
    Column("STARTED_AT", BigInteger),
    Column("ENDED_AT", BigInteger),
    Index("COMPACTOR_BATCHES_STATE_IDX", "METASTORE", "STATE"),
    sqlite_autoincrement=True,
)

BATCH_ENTRIES = Table(
    "COMPACTOR_BATCH_ENTRIES",
    metadata,
    Column("BATCH_ID", BigInteger, ForeignKey("COMPACTOR_BATCHES.BATCH_ID"), primary_key=True, autoincrement=False),
    Column("ENTRY_ID", BigInteger, primary_key=True, autoincrement=False),
)

AWAITED = Table(
    "COMPACTOR_AWAITED",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("RUN_KEY", String(64), primary_key=True),
    Column("ENTRY_ID", BigInteger, primary_key=True, autoincrement=False),
    Column("SINCE", BigInteger, nullable=False),
)

RESIDENTS = Table(
    "COMPACTOR_RESIDENTS",
    metadata,
    _key("RESIDENT_ID"),
    Column("METASTORE", String(128), nullable=False),
    Column("ROUTE", String(64), nullable=False),
    Column("APPLICATION_ID", String(256), nullable=False),
    Column("STARTED_AT", BigInteger, nullable=False),
    Column("ALIVE_UNTIL", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

RUNS = Table(
    "COMPACTOR_RUNS",
    metadata,
    _key("RUN_ID"),
    Column("METASTORE", String(128), nullable=False),
    Column("ENTRY_ID", BigInteger, nullable=False),
    *_entity(),
    Column("TYPE", String(16), nullable=False),
    Column("TXN_ID", BigInteger),
    Column("WORKER_ID", String(128)),
    Column("DIRECTORIES_BEFORE", BigInteger, nullable=False),
    Column("DIRECTORIES_AFTER", BigInteger, nullable=False),
    Column("FILES_BEFORE", BigInteger, nullable=False),
    Column("FILES_AFTER", BigInteger, nullable=False),
    Column("BYTES_BEFORE", BigInteger, nullable=False),
    Column("BYTES_AFTER", BigInteger, nullable=False),
    Column("ROWS_IN", BigInteger, nullable=False),
    Column("ROWS_OUT", BigInteger, nullable=False),
    Column("STRIPES_COPIED", BigInteger, nullable=False),
    Column("STRIPES_REENCODED", BigInteger, nullable=False),
    Column("STRIPES_DROPPED", BigInteger, nullable=False),
    Column("SECONDS", Double, nullable=False),
    Column("ENDED_AT", BigInteger, nullable=False),
    Column("BYTES_COPIED", BigInteger),
    Column("DELTAS_LEFT", BigInteger, nullable=False, server_default="0"),
    Column("BYTES_LEFT", BigInteger, nullable=False, server_default="0"),
    Column("OPENING_BEFORE", Double),
    Column("OPENING_AFTER", Double),
    Column("BYTES_TAKEN_OVER", BigInteger),
    Column("STORE", String(32)),
    Column("TOGETHER", BigInteger, nullable=False, server_default="1"),
    Column("CORE_SECONDS", Double),
    Column("EXPECTED_SECONDS", Double),
    Column("EXPECTED_LOW", Double),
    Column("EXPECTED_HIGH", Double),
    Column("GROUP_KEY", String(32)),
    Index("COMPACTOR_RUNS_ENTRY_IDX", "METASTORE", "ENTRY_ID"),
    Index("COMPACTOR_RUNS_TIME_IDX", "METASTORE", "ENDED_AT"),
    Index("COMPACTOR_RUNS_TABLE_IDX", "METASTORE", "DB_NAME", "TABLE_NAME"),
    # This index alone answers the sums of each day.
    Index(
        "COMPACTOR_RUNS_DAYS_IDX",
        *("METASTORE", "ENDED_AT", "DIRECTORIES_BEFORE", "DIRECTORIES_AFTER", "FILES_BEFORE", "FILES_AFTER"),
        *("BYTES_BEFORE", "BYTES_AFTER", "BYTES_TAKEN_OVER", "SECONDS", "CORE_SECONDS"),
        *("OPENING_BEFORE", "OPENING_AFTER"),
    ),
    sqlite_autoincrement=True,
)

DECISIONS = Table(
    "COMPACTOR_DECISIONS",
    metadata,
    _key("DECISION_ID"),
    Column("METASTORE", String(128), nullable=False),
    Column("ROLE", String(16), nullable=False),
    Column("PASS_AT", BigInteger, nullable=False),
    *_entity(),
    Column("OUTCOME", String(64), nullable=False),
    Column("BECAUSE", Text, nullable=False),
    Column("NUMBERS", Text, nullable=False),
    Index("COMPACTOR_DECISIONS_ENTITY_IDX", "METASTORE", "DB_NAME", "TABLE_NAME"),
    Index("COMPACTOR_DECISIONS_PASS_IDX", "METASTORE", "PASS_AT"),
    sqlite_autoincrement=True,
)

SIGHTINGS = Table(
    "COMPACTOR_SIGHTINGS",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("ENTRY_ID", BigInteger, primary_key=True, autoincrement=False),
    Column("NEWEST_TXN_ID", BigInteger, nullable=False),
    Column("NEWEST_LOCK_ID", BigInteger),
)

ENTRIES = Table(
    "COMPACTOR_ENTRIES",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("ENTRY_ID", BigInteger, primary_key=True, autoincrement=False),
    Column("KEPT", Text, nullable=False),
)

CONDITIONS = Table(
    "COMPACTOR_CONDITIONS",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("ENTITY_KEY", String(64), primary_key=True),
    *_entity(),
    Column("SEEN_AT", BigInteger, nullable=False),
    Column("OUTCOME", String(64), nullable=False),
    Column("BECAUSE", Text, nullable=False),
    Column("FLIPS", Text, nullable=False),
    Column("LAST_COMPACTED", BigInteger),
    Column("BASE_BYTES", BigInteger),
    Column("DELTA_BYTES", BigInteger),
    Column("DELETE_BYTES", BigInteger),
    Column("DELTAS", BigInteger),
    Column("FILES", BigInteger),
    Column("SMALL_FILES", BigInteger),
    Column("OBSOLETE", BigInteger),
    Column("ABORTS", BigInteger),
    Column("HEALTH", BigInteger),
    Column("DIGEST", String(64)),
    Column("OPEN_DIGEST", String(64)),
    Column("NEWEST_TXN_ID", BigInteger),
    Column("LOOK_AT", BigInteger),
    Index("COMPACTOR_CONDITIONS_LOOK_IDX", "METASTORE", "LOOK_AT"),
    # This index alone answers the overview.
    Index(
        "COMPACTOR_CONDITIONS_TABLE_IDX",
        *("METASTORE", "DB_NAME", "TABLE_NAME", "OUTCOME", "HEALTH", "DELTAS", "BASE_BYTES", "DELTA_BYTES"),
    ),
)

TABLE_MEMORIES = Table(
    "COMPACTOR_TABLE_MEMORIES",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("DB_NAME", String(128), primary_key=True),
    Column("TABLE_NAME", String(256), primary_key=True),
    Column("WRITER", String(64), nullable=False),
    Column("INPUTS", String(64)),
    Column("WRITES", Text),
    Column("PLACES", Text),
    Column("ENDED", Text),
    Column("CANDIDATES", BigInteger),
    Column("NEWEST_TXN_ID", BigInteger),
    Column("MADE_AT", BigInteger),
    Column("LOOK_AT", BigInteger),
    Column("ENTITIES", LargeBinary().with_variant(MySQLType("LONGBLOB"), "mysql", "mariadb")),
)

OVERRIDES = Table(
    "COMPACTOR_OVERRIDES",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("DB_NAME", String(128), primary_key=True),
    Column("TABLE_NAME", String(256), primary_key=True),
    Column("NAME", String(128), primary_key=True),
    Column("VALUE", Text, nullable=False),
    Column("SAID_BY", String(256), nullable=False),
    Column("SAID_AT", BigInteger, nullable=False),
)

QUARANTINES = Table(
    "COMPACTOR_QUARANTINES",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("ENTRY_ID", BigInteger, primary_key=True, autoincrement=False),
    *_entity(),
    Column("LOCATION", Text, nullable=False),
    Column("SINCE", BigInteger, nullable=False),
    Column("UNTIL", BigInteger, nullable=False),
    Column("BYTES", BigInteger, nullable=False),
    Column("NAMES", Text().with_variant(MySQLType("MEDIUMTEXT"), "mysql", "mariadb"), nullable=False),
)

REMOVALS = Table(
    "COMPACTOR_REMOVALS",
    metadata,
    _key("REMOVAL_ID"),
    Column("METASTORE", String(128), nullable=False),
    Column("ENTRY_ID", BigInteger),
    *_entity(),
    Column("CAUSE", String(16), nullable=False),
    Column("DIRECTORIES", BigInteger, nullable=False),
    Column("FILES", BigInteger, nullable=False),
    Column("BYTES", BigInteger, nullable=False),
    Column("AT", BigInteger, nullable=False),
    Index("COMPACTOR_REMOVALS_ENTRY_IDX", "METASTORE", "ENTRY_ID"),
    # This index alone answers the sums of each day.
    Index("COMPACTOR_REMOVALS_DAYS_IDX", "METASTORE", "AT", "DIRECTORIES", "FILES", "BYTES"),
    sqlite_autoincrement=True,
)

UNDONE = Table(
    "COMPACTOR_UNDONE",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("ENTRY_ID", BigInteger, primary_key=True, autoincrement=False),
    *_entity(),
    Column("AT", BigInteger, nullable=False),
)

PLACES = Table(
    "COMPACTOR_PLACES",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("LOCATION_KEY", String(64), primary_key=True),
    Column("LOCATION", Text, nullable=False),
    Column("IDENTITY", Text),
    Column("SEEN_AT", BigInteger, nullable=False),
)

ABORTS = Table(
    "COMPACTOR_ABORTS",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("TXN_ID", BigInteger, primary_key=True, autoincrement=False),
    Column("STARTED", BigInteger, nullable=False),
    Column("SEEN_AT", BigInteger, nullable=False),
)

PROGRESS = Table(
    "COMPACTOR_PROGRESS",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("ENTRY_ID", BigInteger, primary_key=True, autoincrement=False),
    Column("UNITS", BigInteger, nullable=False),
    Column("UNITS_DONE", BigInteger, nullable=False),
    Column("BYTES", BigInteger, nullable=False),
    Column("BYTES_DONE", BigInteger, nullable=False),
    Column("SPENT_MS", BigInteger, nullable=False),
    Column("AT", BigInteger, nullable=False),
)

READS = Table(
    "COMPACTOR_READS",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("READ_KEY", String(64), primary_key=True),
    Column("DB_NAME", String(256), nullable=False),
    Column("TABLE_NAME", String(256), nullable=False),
    Column("ENGINE", String(32), nullable=False),
    Column("LIKENESS", String(64), nullable=False),
    Column("ENDED_AT", BigInteger, nullable=False),
    Column("SECONDS", Double, nullable=False),
    Column("FILES", BigInteger),
    Column("BYTES", BigInteger),
    Index("COMPACTOR_READS_TABLE_IDX", "METASTORE", "DB_NAME", "TABLE_NAME", "ENDED_AT"),
    Index("COMPACTOR_READS_TIME_IDX", "METASTORE", "ENDED_AT"),
)

MIRRORS = Table(
    "COMPACTOR_MIRRORS",
    metadata,
    Column("METASTORE", String(128), primary_key=True),
    Column("DB_NAME", String(128), primary_key=True),
    Column("TABLE_NAME", String(256), primary_key=True),
    Column("TABLE_ID", BigInteger, nullable=False),
    Column("CATALOG", String(128), nullable=False),
    Column("IDENTIFIER", String(512), nullable=False),
    Column("TOKEN", String(32), nullable=False),
    Column("TIMESTAMPS", String(16), nullable=False),
    Column("FOR_PYICEBERG", BigInteger, nullable=False, server_default="1"),
    Column("LOCATION", Text, nullable=False),
    Column("UNDER_WAY", BigInteger, nullable=False, server_default="0"),
    Column("ADDED_AT", BigInteger, nullable=False),
    Column("LAST_SNAPSHOT", BigInteger),
    Column("COMMITTED_AT", BigInteger),
    Column("PASSED_AT", BigInteger),
    Column("ERROR", Text),
)

#: Alembic's only row. Transactions that read before they write lock it, so only one of them runs at a time.
VERSION = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32), primary_key=True))


def lock_state(conn: Connection) -> None:
    """Makes other callers wait until this transaction ends; on SQLite a writer is alone anyway."""
    conn.execute(select(VERSION.c.version_num).with_for_update()).all()
