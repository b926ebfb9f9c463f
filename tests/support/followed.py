"""The notification log of a metastore, as those who follow it read it."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import insert, inspect, select, update

from compactor.metastore.metastore import Metastore
from compactor.metastore.notifications import notification_tables as n
from compactor.metastore.schema import tables as t

NEXT, ROW = 7, 40  #: numbers of the next event, and of its row, of a Hive that has written some
_MODEL = "org.apache.hadoop.hive.metastore.model."
_SEQUENCE = f"{_MODEL}MNotificationLog"


def follow(metastore: Metastore) -> Metastore:
    """Makes a metastore one whose Hive has written events."""
    if not inspect(metastore.database.engine).has_table(n.NOTIFICATION_LOG.name):  # on SQLite, where no Hive is
        with metastore.database.write() as conn:
            n.metadata.create_all(conn)
            conn.execute(insert(n.NOTIFICATION_SEQUENCE).values(NNI_ID=1, NEXT_EVENT_ID=1))
    set_next(metastore, NEXT)
    return metastore


def set_next(metastore: Metastore, number: int) -> None:
    """Sets the number of the next event."""
    with metastore.database.write() as conn:
        conn.execute(update(n.NOTIFICATION_SEQUENCE).values(NEXT_EVENT_ID=number))
        here = t.SEQUENCE_TABLE.c.SEQUENCE_NAME == _SEQUENCE
        conn.execute(update(t.SEQUENCE_TABLE).where(here).values(NEXT_VAL=ROW))


def log_writes(metastore: Metastore) -> None:
    """Makes a metastore one whose Hive has written rows of TXN_WRITE_NOTIFICATION_LOG (``hive.metastore.dml.events``)."""
    with metastore.database.write() as conn:
        here = f"{_MODEL}MTxnWriteNotificationLog" == t.SEQUENCE_TABLE.c.SEQUENCE_NAME
        conn.execute(update(t.SEQUENCE_TABLE).where(here).values(NEXT_VAL=5))


def log(metastore: Metastore) -> list[dict[str, Any]]:
    """Returns the notification log, oldest first."""
    with metastore.database.read() as conn:
        rows = conn.execute(select(n.NOTIFICATION_LOG).order_by(n.NOTIFICATION_LOG.c.EVENT_ID))
        return [dict(row) for row in rows.mappings()]


def written(metastore: Metastore) -> list[dict[str, Any]]:
    """Returns the rows of TXN_WRITE_NOTIFICATION_LOG, oldest first."""
    table = t.TXN_WRITE_NOTIFICATION_LOG
    with metastore.database.read() as conn:
        return [dict(row) for row in conn.execute(select(table).order_by(table.c.WNL_ID)).mappings()]


def next_numbers(metastore: Metastore) -> tuple[int, int]:
    """Returns the numbers of the next event and of its row."""
    with metastore.database.read() as conn:
        event = conn.execute(select(n.NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID)).scalar_one()
        row = select(t.SEQUENCE_TABLE.c.NEXT_VAL).where(t.SEQUENCE_TABLE.c.SEQUENCE_NAME == _SEQUENCE)
        return event, conn.execute(row).scalar_one()


def message(event: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of an event's message."""
    fields: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(event["MESSAGE"])))
    return fields


def types(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the types of events."""
    return [event["EVENT_TYPE"] for event in events]
