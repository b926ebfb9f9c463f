"""On the embedded metastore; ``tests/contract`` has the rules over every database."""

from __future__ import annotations

import pytest

from compactor.base.errors import NotFound, Refused
from compactor.base.ids import WriteId
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.metastore import Metastore
from compactor.metastore.transactions.transaction_rows import TxnType

T = Entity(database="d", table="t")


def ask(metastore: Metastore, entity: Entity = T, **properties: str) -> int:
    return metastore.requests.request(
        Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-x", properties=properties)
    )


def test_what_is_recorded_of_a_compaction_is_recorded_at_once(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 3.2: transaction, user, number and component in one transaction: where one fails none is there."""
    ask(metastore)
    entry = metastore.claims.claim("compactor-1", "test", pool_timeout_ms=0)
    assert entry is not None
    (txn,) = metastore.transactions.open("u", "h", type=TxnType.COMPACTION)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("compactor.metastore.queue.worker_claims.insert_components", fail)
        with pytest.raises(ZeroDivisionError):
            metastore.claims.record(entry, "compactor-1", txn, "ann", WriteId(3))
    assert metastore.entries.get(entry.id) == entry
    recorded = metastore.claims.record(entry, "compactor-1", txn, "ann", WriteId(3))
    assert (recorded.txn_id, recorded.run_as, recorded.highest_write_id) == (txn, "ann", 3)


def test_what_was_not_begun_can_be_taken_back(metastore: Metastore) -> None:
    entry = ask(metastore)
    metastore.claims.abort_request(entry)
    assert metastore.entries.queue() == []
    (ended,) = metastore.entries.history(T)
    assert (ended.id, ended.state) == (entry, State.ABORTED)
    with pytest.raises((NotFound, Refused)):
        metastore.claims.abort_request(entry)
