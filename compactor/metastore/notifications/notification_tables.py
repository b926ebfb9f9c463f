"""Hive's tables of the notification log; our own schema has none.

They are no part of ``schema.tables``: only a metastore with ``DbNotificationListener`` has rows in them.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text

from compactor.metastore.schema.tables import SEQUENCE_TABLE, TXN_WRITE_NOTIFICATION_LOG

metadata = MetaData()

NOTIFICATION_LOG = Table(
    "NOTIFICATION_LOG",
    metadata,
    Column("NL_ID", BigInteger, primary_key=True, autoincrement=False),
    Column("EVENT_ID", BigInteger, nullable=False),
    Column("EVENT_TIME", Integer, nullable=False),  # in seconds since 1970
    Column("EVENT_TYPE", String(32), nullable=False),
    Column("CAT_NAME", String(256)),
    Column("DB_NAME", String(128)),
    Column("TBL_NAME", String(256)),
    Column("MESSAGE", Text),
    Column("MESSAGE_FORMAT", String(16)),
)

NOTIFICATION_SEQUENCE = Table(
    "NOTIFICATION_SEQUENCE",
    metadata,
    Column("NNI_ID", BigInteger, primary_key=True, autoincrement=False),
    Column("NEXT_EVENT_ID", BigInteger, nullable=False),
)

SD_PARAMS = Table(
    "SD_PARAMS",
    metadata,
    Column("SD_ID", BigInteger, primary_key=True, autoincrement=False),
    Column("PARAM_KEY", String(256), primary_key=True),
    Column("PARAM_VALUE", Text),
)

#: What writing an event takes, as pairs of tables and verbs.
WRITTEN = (
    ((NOTIFICATION_LOG, TXN_WRITE_NOTIFICATION_LOG), ("INSERT",)),
    ((NOTIFICATION_SEQUENCE, SEQUENCE_TABLE), ("UPDATE",)),
)
