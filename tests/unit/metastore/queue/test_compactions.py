"""On the embedded metastore; ``tests/contract`` has the rules over every database."""

from __future__ import annotations

import pytest

from compactor.compaction.entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.errors import NotFound, Refused
from compactor.ids import WriteId
from compactor.metastore.store import Metastore
from compactor.metastore.transactions.transactions import TxnType

T = Entity(database="d", table="t")


def ask(metastore: Metastore, entity: Entity = T, **properties: str) -> int:
    return metastore.compactions.request(
        Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-x", properties=properties)
    )


def test_one_request_an_entity(metastore: Metastore) -> None:
    first = ask(metastore)
    with pytest.raises(Refused, match=f"state='initiated' and id={first}"):
        ask(metastore)
    assert ask(metastore, Entity(database="d", table="t", partition="p=1")) > first
    assert [entry.id for entry in metastore.compactions.queue()] == [first, first + 1]


def test_properties_come_back_as_long_as_they_fit(metastore: Metastore) -> None:
    entry = metastore.compactions.entry(ask(metastore, a="é=;", b=""))
    assert dict(entry.properties) == {"a": "é=;", "b": ""}
    with pytest.raises(Refused, match="2048 fit"):
        ask(metastore, Entity(database="d", table="u"), a="x" * 2048)


def test_what_was_not_begun_can_be_taken_back(metastore: Metastore) -> None:
    entry = ask(metastore)
    metastore.compactions.abort_request(entry)
    assert metastore.compactions.queue() == []
    (ended,) = metastore.compactions.history(T)
    assert (ended.id, ended.state) == (entry, State.ABORTED)
    with pytest.raises((NotFound, Refused)):
        metastore.compactions.abort_request(entry)


def test_a_reason_not_to_begin_is_history_at_once(metastore: Metastore) -> None:
    entry = metastore.compactions.did_not_initiate(T, "too many failures")
    assert metastore.compactions.queue() == []
    assert [(e.id, e.state, e.error) for e in metastore.compactions.history(limit=1)] == [
        (entry, State.DID_NOT_INITIATE, "too many failures")
    ]


def test_aborted_writers_are_counted(metastore: Metastore) -> None:
    for txn in metastore.transactions.open("u", "h", count=2):
        metastore.write_ids.add_component(txn, T, "i", metastore.write_ids.allocate(txn, "d", "t"))
        metastore.transactions.abort(txn, "by a test")
    assert metastore.compactions.aborted(T).count == 2
    assert metastore.compactions.aborts()[T] == metastore.compactions.aborted(T)


def test_what_is_recorded_of_a_compaction_is_recorded_at_once(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 3.2: transaction, user, number and component in one transaction: where one fails none is there."""
    ask(metastore)
    entry = metastore.compactions.claim("compactor-1", "test", pool_timeout_ms=0)
    assert entry is not None
    (txn,) = metastore.transactions.open("u", "h", type=TxnType.COMPACTION)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("compactor.metastore.queue.compactions.insert_components", fail)
        with pytest.raises(ZeroDivisionError):
            metastore.compactions.record(entry, "compactor-1", txn, "ann", WriteId(3))
    assert metastore.compactions.entry(entry.id) == entry
    recorded = metastore.compactions.record(entry, "compactor-1", txn, "ann", WriteId(3))
    assert (recorded.txn_id, recorded.run_as, recorded.highest_write_id) == (txn, "ann", 3)
