"""On the embedded metastore; ``tests/contract`` has the rules over every database."""

from __future__ import annotations

import pytest

from compactor.base.errors import Refused
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.metastore import Metastore

T = Entity(database="d", table="t")


def ask(metastore: Metastore, entity: Entity = T, **properties: str) -> int:
    return metastore.requests.request(
        Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-x", properties=properties)
    )


def test_one_request_an_entity(metastore: Metastore) -> None:
    first = ask(metastore)
    with pytest.raises(Refused, match=f"state='initiated' and id={first}"):
        ask(metastore)
    assert ask(metastore, Entity(database="d", table="t", partition="p=1")) > first
    assert [entry.id for entry in metastore.entries.queue()] == [first, first + 1]


def test_properties_come_back_as_long_as_they_fit(metastore: Metastore) -> None:
    entry = metastore.entries.get(ask(metastore, a="é=;", b=""))
    assert dict(entry.properties) == {"a": "é=;", "b": ""}
    with pytest.raises(Refused, match="2048 fit"):
        ask(metastore, Entity(database="d", table="u"), a="x" * 2048)


def test_a_reason_not_to_begin_is_history_at_once(metastore: Metastore) -> None:
    entry = metastore.requests.did_not_initiate(T, "too many failures")
    assert metastore.entries.queue() == []
    assert [(e.id, e.state, e.error) for e in metastore.entries.history(limit=1)] == [
        (entry, State.DID_NOT_INITIATE, "too many failures")
    ]
