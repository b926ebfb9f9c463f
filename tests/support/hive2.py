"""A metastore of Hive 2.3 with what such a Hive wrote, and what its own cleaner would do.

The schema is made from the names and types in Hive 2.3.0's own scripts, as far as any code here reads it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sqlalchemy import Connection, Table, insert, text

from compactor.acid.bucket import RowId
from compactor.acid.directory import acid_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity
from compactor.database.engine import Database
from compactor.hive2.last_majors import compact_before_hive_3
from compactor.metastore.queue.hive2_queue import Hive2
from compactor.metastore.schema import tables
from compactor.metastore.schema.hive2 import Hive2Schema
from compactor.rewrite.run.runner import InProcessRunner
from compactor.settings.precedence import Layer, Settings
from compactor.site.finding import Finding
from compactor.site.old_site import OldSite
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores
from demo.fixtures import FixtureStep, read_step
from demo.metastore_dumps import Row
from tests.support.expected import read_expected, render_line
from tests.support.oracle import read_directory

ORC_INPUT = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
#: Columns by table: those of the catalog, in upper case and quotes, then those of transactions, without quotes.
CATALOG = {
    "DBS": "DB_ID bigint NOT NULL, DESC varchar(4000), DB_LOCATION_URI varchar(4000) NOT NULL, NAME varchar(128), "
    "OWNER_NAME varchar(128), OWNER_TYPE varchar(10)",
    "DATABASE_PARAMS": "DB_ID bigint NOT NULL, PARAM_KEY varchar(180) NOT NULL, PARAM_VALUE varchar(4000)",
    "TBLS": "TBL_ID bigint NOT NULL, CREATE_TIME bigint NOT NULL, DB_ID bigint, LAST_ACCESS_TIME bigint NOT NULL, "
    "OWNER varchar(767), RETENTION bigint NOT NULL, SD_ID bigint, TBL_NAME varchar(256), TBL_TYPE varchar(128), "
    "VIEW_EXPANDED_TEXT text, VIEW_ORIGINAL_TEXT text, IS_REWRITE_ENABLED boolean NOT NULL",
    "TABLE_PARAMS": "TBL_ID bigint NOT NULL, PARAM_KEY varchar(256) NOT NULL, PARAM_VALUE text",
    "CDS": "CD_ID bigint NOT NULL",
    "COLUMNS_V2": "CD_ID bigint NOT NULL, COMMENT varchar(256), COLUMN_NAME varchar(767) NOT NULL, TYPE_NAME text, "
    "INTEGER_IDX integer NOT NULL",
    "SERDES": "SERDE_ID bigint NOT NULL, NAME varchar(128), SLIB varchar(4000)",
    "SERDE_PARAMS": "SERDE_ID bigint NOT NULL, PARAM_KEY varchar(256) NOT NULL, PARAM_VALUE text",
    "SDS": "SD_ID bigint NOT NULL, INPUT_FORMAT varchar(4000), IS_COMPRESSED boolean NOT NULL, LOCATION varchar(4000), "
    "NUM_BUCKETS bigint NOT NULL, OUTPUT_FORMAT varchar(4000), SERDE_ID bigint, CD_ID bigint, "
    "IS_STOREDASSUBDIRECTORIES boolean NOT NULL",
    "BUCKETING_COLS": "SD_ID bigint NOT NULL, BUCKET_COL_NAME varchar(256), INTEGER_IDX bigint NOT NULL",
    "SORT_COLS": "SD_ID bigint NOT NULL, COLUMN_NAME varchar(767), ORDER bigint NOT NULL, INTEGER_IDX bigint NOT NULL",
    "PARTITIONS": "PART_ID bigint NOT NULL, CREATE_TIME bigint NOT NULL, LAST_ACCESS_TIME bigint NOT NULL, "
    "PART_NAME varchar(767), SD_ID bigint, TBL_ID bigint",
    "PARTITION_PARAMS": "PART_ID bigint NOT NULL, PARAM_KEY varchar(256) NOT NULL, PARAM_VALUE varchar(4000)",
    "PARTITION_KEYS": "TBL_ID bigint NOT NULL, PKEY_COMMENT varchar(4000), PKEY_NAME varchar(128) NOT NULL, "
    "PKEY_TYPE varchar(767) NOT NULL, INTEGER_IDX bigint NOT NULL",
    "PARTITION_KEY_VALS": "PART_ID bigint NOT NULL, PART_KEY_VAL varchar(256), INTEGER_IDX bigint NOT NULL",
    "VERSION": "VER_ID bigint, SCHEMA_VERSION varchar(127) NOT NULL, VERSION_COMMENT varchar(255) NOT NULL",
}
_REQUEST = (
    "{0}_ID bigint PRIMARY KEY, {0}_DATABASE varchar(128) NOT NULL, {0}_TABLE varchar(128) NOT NULL, "
    "{0}_PARTITION varchar(767), {0}_STATE char(1) NOT NULL, {0}_TYPE char(1) NOT NULL, {0}_TBLPROPERTIES varchar(2048), "
    "{0}_WORKER_ID varchar(128), {0}_START bigint, {1}{0}_RUN_AS varchar(128), {0}_HIGHEST_TXN_ID bigint, "
    "{0}_META_INFO BYTES, {0}_HADOOP_JOB_ID varchar(32)"
)
TRANSACTIONS = {
    "TXNS": "TXN_ID bigint PRIMARY KEY, TXN_STATE char(1) NOT NULL, TXN_STARTED bigint NOT NULL, "
    "TXN_LAST_HEARTBEAT bigint NOT NULL, TXN_USER varchar(128) NOT NULL, TXN_HOST varchar(128) NOT NULL, "
    "TXN_AGENT_INFO varchar(128), TXN_META_INFO varchar(128), TXN_HEARTBEAT_COUNT integer",
    "TXN_COMPONENTS": "TC_TXNID bigint, TC_DATABASE varchar(128) NOT NULL, TC_TABLE varchar(128), "
    "TC_PARTITION varchar(767), TC_OPERATION_TYPE char(1) NOT NULL",
    "COMPLETED_TXN_COMPONENTS": "CTC_TXNID bigint, CTC_DATABASE varchar(128) NOT NULL, CTC_TABLE varchar(256), "
    "CTC_PARTITION varchar(767)",
    "NEXT_TXN_ID": "NTXN_NEXT bigint NOT NULL",
    "COMPACTION_QUEUE": _REQUEST.format("CQ", ""),
    "NEXT_COMPACTION_QUEUE_ID": "NCQ_NEXT bigint NOT NULL",
    "COMPLETED_COMPACTIONS": _REQUEST.format("CC", "CC_END bigint, "),
    "AUX_TABLE": "MT_KEY1 varchar(128) NOT NULL, MT_KEY2 bigint NOT NULL, MT_COMMENT varchar(255), "
    "PRIMARY KEY (MT_KEY1, MT_KEY2)",
}
_BYTES = {"sqlite": "blob", "postgresql": "bytea", "mysql": "varbinary(2048)"}


def schema_sql(kind: str) -> list[str]:
    """Returns the statements that create the schema in an empty database of one kind."""
    quote = "`" if kind == "mysql" else '"'
    made = []
    for name, columns in CATALOG.items():
        quoted = ", ".join(_quoted(column.strip(), quote) for column in columns.split(", "))
        quoted = quoted.replace("boolean", "bit(1)") if kind == "mysql" else quoted
        made.append(f"CREATE TABLE {quote}{name}{quote} ({quoted})")
    for name, columns in TRANSACTIONS.items():
        made.append(f"CREATE TABLE {name} ({columns.replace('BYTES', _BYTES[kind])})")
    version = f"INSERT INTO {quote}VERSION{quote} VALUES (1, '2.3.0', 'Hive release version 2.3.0')"
    return [*made, version, "INSERT INTO NEXT_TXN_ID VALUES (1)", "INSERT INTO NEXT_COMPACTION_QUEUE_ID VALUES (1)"]


def _quoted(column: str, quote: str) -> str:
    name, _, rest = column.partition(" ")
    return f"{quote}{name}{quote} {rest}"


def site_of(database: Database, dialect: Hive2Schema | None = None, *, mode: str = "compact") -> OldSite:
    """Returns a site over such a metastore, whose schema exists already."""
    return OldSite(
        name="default",
        metastore=Hive2(database, dialect or Hive2Schema()),
        storage=Stores(StoreOptions()),
        settings=Settings.of([Layer(name="flag", values={"compactor.mode": mode})]),
        user="us",
        host="here",
    )


def register(database: Database, path: Path, warehouse: Path, **parameters: str) -> FixtureStep:
    """Registers a step of a fixture as Hive 2 had it: its table in the catalog, and every row of its transaction tables."""
    step = read_step(path)
    assert step.directory is not None
    shutil.copytree(step.directory, warehouse / step.table)
    with database.write() as conn:
        add_table(conn, step, warehouse / step.table, parameters)
        for name in TRANSACTIONS:
            if name in step.dump.tables:
                _fill(conn, name, step.dump.rows(name))
    return step


def _fill(conn: Connection, name: str, rows: tuple[Row, ...]) -> None:
    conn.execute(text(f"DELETE FROM {name}"))
    for row in rows:
        values = dict(row) | ({"TXN_AGENT_INFO": None} if name == "TXNS" else {})
        names = ", ".join(values)
        conn.execute(text(f"INSERT INTO {name} ({names}) VALUES ({', '.join(f':{key}' for key in values)})"), values)


def add_table(conn: Connection, step: FixtureStep, location: Path, parameters: dict[str, str]) -> None:
    """Adds a table without partitions, and the database ``default``."""
    description = step.description
    _row(conn, tables.DBS, DB_ID=1, DB_LOCATION_URI=str(location.parent), NAME="default")
    _row(conn, tables.CDS, CD_ID=1)
    for place, (name, kind) in enumerate(description.columns):
        _row(conn, tables.COLUMNS_V2, CD_ID=1, COLUMN_NAME=name, TYPE_NAME=kind, INTEGER_IDX=place)
    _row(conn, tables.SERDES, SERDE_ID=1)
    flags = {"IS_COMPRESSED": False, "IS_STOREDASSUBDIRECTORIES": False}
    storage = {"SD_ID": 1, "INPUT_FORMAT": ORC_INPUT, "LOCATION": str(location), "NUM_BUCKETS": 2}
    _row(conn, tables.SDS, **storage, **flags, SERDE_ID=1, CD_ID=1)
    times = {"CREATE_TIME": 0, "LAST_ACCESS_TIME": 0, "RETENTION": 0, "IS_REWRITE_ENABLED": False}
    table = {"TBL_ID": 1, "DB_ID": 1, "OWNER": "alice", "SD_ID": 1, "TBL_NAME": step.table, "TBL_TYPE": "MANAGED_TABLE"}
    _row(conn, tables.TBLS, **times, **table)
    for key, value in ({"transactional": "true"} | parameters).items():
        _row(conn, tables.TABLE_PARAMS, TBL_ID=1, PARAM_KEY=key, PARAM_VALUE=value)


def _row(conn: Connection, table: Table, **values: object) -> None:
    conn.execute(insert(table).inline().values(**values))


def compact(site: OldSite) -> list[Finding]:
    return list(compact_before_hive_3(site, InProcessRunner()))


def entity(step: FixtureStep) -> Entity:
    return Entity(database="default", table=step.table)


def show_rows(site: OldSite, step: FixtureStep, location: Path) -> list[tuple[RowId, str]]:
    """Returns what Hive 2 shows of the table now: for each key the newest event that a new reader sees."""
    txns = site.metastore.snapshot()
    expected = read_expected(step.path)
    return sorted((row_id, render_line(expected, row)) for row_id, row in read_directory(location, _reader(txns), txns))


def _reader(txns: ValidTxnList) -> ValidWriteIdList:
    return ValidWriteIdList(
        table="default.t",
        high_watermark=WriteId(txns.high_watermark),
        open=frozenset(map(WriteId, txns.open)),
        aborted=frozenset(map(WriteId, txns.aborted)),
    )


def clean(site: OldSite, database: Database, location: Path) -> list[str]:
    """Removes what Hive 2's cleaner removes for the rows that are ready: everything obsolete up to CQ_HIGHEST_TXN_ID. Then
    it forgets what was aborted up to there.
    """
    removed = []
    with database.write() as conn:
        for row in conn.execute(text("SELECT * FROM COMPACTION_QUEUE WHERE CQ_STATE = 'r'")).mappings().all():
            highest = {key.upper(): value for key, value in row.items()}["CQ_HIGHEST_TXN_ID"]
            assert highest
            txns = ValidTxnList(high_watermark=TxnId(highest))
            found = acid_directory(site.storage.listing(str(location)), _reader(txns), txns)
            for name in found.obsolete:
                shutil.rmtree(location / name)
                removed.append(name)
            conn.execute(text(f"DELETE FROM TXNS WHERE TXN_STATE = 'a' AND TXN_ID <= {highest}"))
        conn.execute(text("DELETE FROM COMPACTION_QUEUE WHERE CQ_STATE = 'r'"))
    return removed
