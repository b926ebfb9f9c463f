"""Hive's notification log is told of compactions by the database transaction that commits them, where Hive keeps it."""

from __future__ import annotations

from functools import partial

import pytest
from sqlalchemy.exc import OperationalError

from compactor.compaction.states import CompactionType
from compactor.metastore.metastore import Metastore
from compactor.metastore.transactions.transaction_rows import TxnType
from tests.contract.test_fences import ENTITY, WORKER, claim, create, request
from tests.contract.test_statistics import Subject
from tests.support.committing import committing
from tests.support.followed import NEXT, ROW, follow, log, message, next_numbers, set_next, types


@pytest.fixture
def followed(metastore: Metastore) -> Metastore:
    """Returns a metastore whose Hive has written events."""
    return follow(metastore)


@pytest.mark.usefixtures("hive4")
@pytest.mark.parametrize("kind", ["a table", "a partition"])
def test_a_compaction_is_told_with_its_commit(followed: Metastore, kind: str) -> None:
    subject = Subject(followed, kind)
    before = len(log(followed))
    subject.commit(sets_flags=False)
    [event] = log(followed)[before:]
    fields = message(event)
    assert fields.pop("timestamp") == event.pop("EVENT_TIME")
    assert event.pop("MESSAGE")
    assert event == {
        "NL_ID": ROW + before,
        "EVENT_ID": NEXT + before,
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
    assert next_numbers(followed) == (NEXT + before + 1, ROW + before + 1)


@pytest.mark.usefixtures("hive4")
def test_a_write_id_that_statistics_get_is_told_of_with_the_commit(followed: Metastore) -> None:
    """A transaction not told of is open for ever to Impala, and replication loses the table's mappings at the gap."""
    subject = Subject(followed, "a table")
    subject.set_write_id(1)
    before = len(log(followed))
    subject.commit()
    told = log(followed)[before:]
    assert types(told) == ["OPEN_TXN", "ALLOC_WRITE_ID_EVENT", "COMMIT_TXN", "COMMIT_COMPACTION_EVENT"]
    assert [message(told[1])[key] for key in ("txnIdList", "writeIdList")] == [[subject.txn], [2]]
    assert [message(told[2])[key] for key in ("txnid", "writeIds")] == [subject.txn, [2]]


@pytest.mark.usefixtures("hive4")
@pytest.mark.parametrize("ends", ["COMMIT_TXN", "ABORT_TXN"])
def test_a_rebalance_is_told_of_as_the_write_that_it_is(followed: Metastore, ends: str) -> None:
    """It has a write ID from its start, and may be stopped by an operator."""
    table = create(followed)
    request(followed, type=CompactionType.REBALANCE)
    entry = claim(followed)
    [txn] = followed.transactions.open("u", "h", type=TxnType.REBALANCE_COMPACTION)
    own = followed.write_ids.allocate(txn, "default", "t")
    followed.write_ids.add_component(txn, ENTITY, "u", own)
    entry = followed.claims.record(entry, WORKER, txn, None, own)
    if ends == "ABORT_TXN":
        followed.claims.abort_running(entry.id)
    else:
        with committing(followed, entry, WORKER, txn, table_id=table.id, partition_id=None, location=table.location):
            pass
    told = types(log(followed))
    assert told[:3] == ["OPEN_TXN", "ALLOC_WRITE_ID_EVENT", ends]
    assert told[3:] == (["COMMIT_COMPACTION_EVENT"] if ends == "COMMIT_TXN" else [])


def test_a_commit_that_fails_tells_nothing(followed: Metastore) -> None:
    def fails() -> None:
        raise RuntimeError

    subject = Subject(followed, "a table")
    before, numbers = log(followed), next_numbers(followed)
    with pytest.raises(RuntimeError):
        subject.commit(fails)
    assert log(followed) == before
    assert next_numbers(followed) == numbers


@pytest.mark.usefixtures("hive4")
def test_a_hive_that_writes_no_events_gets_none(followed: Metastore) -> None:
    set_next(followed, 1)
    Subject(followed, "a table").commit()
    assert log(followed) == []


@pytest.mark.usefixtures("hive3")
def test_hive_3_knows_no_such_event(followed: Metastore) -> None:
    """A follower of its log fails at a type of event that it does not know."""
    Subject(followed, "a table").commit()
    assert log(followed) == []


@pytest.mark.usefixtures("hive4")
def test_a_log_that_cannot_be_written_keeps_nothing_from_being_committed(
    followed: Metastore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number that was drawn goes back with the rest, so that followers meet no gap."""
    monkeypatch.setattr("compactor.metastore.notifications.notification_log.insert", partial(denied, "of a worker"))
    subject = Subject(followed, "a table")
    subject.commit()
    assert followed.transactions.snapshot().is_valid(subject.txn)
    assert log(followed) == []
    assert next_numbers(followed) == (NEXT, ROW)
    assert "notification log is left as it is: OperationalError: no right: of a worker" in caplog.text


def denied(what: str, *_: object) -> None:
    """Fails as a database does; a metastore says each error once."""
    raise OperationalError("INSERT", {}, Exception(f"no right: {what}"))
