"""Hive's notification log is told of compactions by the database transaction that commits them, where Hive keeps it."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.exc import OperationalError

from compactor.metastore.notifications import tables as n
from compactor.metastore.schema import tables as t
from compactor.metastore.store import Metastore
from tests.contract.test_statistics import Subject

NEXT = 7  #: number of the next event of a Hive that has written some
SEQUENCE = "org.apache.hadoop.hive.metastore.model.MNotificationLog"


@pytest.fixture
def followed(metastore: Metastore, store: str) -> Metastore:
    """Returns a metastore whose Hive has written events."""
    if store == "sqlite":
        with metastore.database.write() as conn:
            n.metadata.create_all(conn)
            conn.execute(insert(n.NOTIFICATION_SEQUENCE).values(NNI_ID=1, NEXT_EVENT_ID=1))
    set_next(metastore, NEXT)
    return metastore


def set_next(metastore: Metastore, number: int) -> None:
    with metastore.database.write() as conn:
        conn.execute(update(n.NOTIFICATION_SEQUENCE).values(NEXT_EVENT_ID=number))
        here = t.SEQUENCE_TABLE.c.SEQUENCE_NAME == SEQUENCE
        conn.execute(update(t.SEQUENCE_TABLE).where(here).values(NEXT_VAL=40))


def log(metastore: Metastore) -> list[dict[str, Any]]:
    with metastore.database.read() as conn:
        rows = conn.execute(select(n.NOTIFICATION_LOG).order_by(n.NOTIFICATION_LOG.c.EVENT_ID))
        return [dict(row) for row in rows.mappings()]


def next_numbers(metastore: Metastore) -> tuple[int, int]:
    with metastore.database.read() as conn:
        event = conn.execute(select(n.NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID)).scalar_one()
        row = select(t.SEQUENCE_TABLE.c.NEXT_VAL).where(t.SEQUENCE_TABLE.c.SEQUENCE_NAME == SEQUENCE)
        return event, conn.execute(row).scalar_one()


@pytest.mark.usefixtures("hive4")
@pytest.mark.parametrize("kind", ["a table", "a partition"])
def test_a_compaction_is_told_with_its_commit(followed: Metastore, kind: str) -> None:
    subject = Subject(followed, kind)
    subject.commit()
    [event] = log(followed)
    fields = json.loads(gzip.decompress(base64.b64decode(event.pop("MESSAGE"))))
    assert fields.pop("timestamp") == event.pop("EVENT_TIME")
    assert event == {
        "NL_ID": 40,
        "EVENT_ID": NEXT,
        "EVENT_TYPE": "COMMIT_COMPACTION_EVENT",
        "CAT_NAME": "hive",
        "DB_NAME": "default",
        "TBL_NAME": "t",
        "MESSAGE_FORMAT": "gzip(json-2.0)",
    }
    assert fields == {
        "server": "",
        "servicePrincipal": "",
        "txnid": subject.txn,
        "compactionId": subject.entry.id,
        "type": "MAJOR",
        "dbname": "default",
        "tableName": "t",
        "partName": subject.entity.partition,
    }
    assert next_numbers(followed) == (NEXT + 1, 41)


def test_a_commit_that_fails_tells_nothing(followed: Metastore) -> None:
    def fails() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        Subject(followed, "a table").commit(fails)
    assert log(followed) == []
    assert next_numbers(followed) == (NEXT, 40)


@pytest.mark.usefixtures("hive4")
def test_a_hive_that_writes_no_events_gets_none(followed: Metastore) -> None:
    set_next(followed, 1)
    Subject(followed, "a table").commit()
    assert log(followed) == []


@pytest.mark.usefixtures("hive3")
def test_hive_3_knows_no_such_event(followed: Metastore) -> None:
    """Who follows its log fails at a type of event that it does not know."""
    Subject(followed, "a table").commit()
    assert log(followed) == []


@pytest.mark.usefixtures("hive4")
def test_a_log_that_cannot_be_written_keeps_nothing_from_being_committed(
    followed: Metastore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number that was drawn goes back with the rest, so that followers meet no gap."""
    monkeypatch.setattr("compactor.metastore.notifications.log.insert", denied)
    subject = Subject(followed, "a table")
    subject.commit()
    assert followed.transactions.snapshot().is_valid(subject.txn)
    assert log(followed) == []
    assert next_numbers(followed) == (NEXT, 40)
    assert "notification log is left as it is: OperationalError: permission denied" in caplog.text


def denied(_: object) -> None:
    raise OperationalError("INSERT", {}, Exception("permission denied"))
