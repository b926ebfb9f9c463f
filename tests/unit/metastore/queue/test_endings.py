"""On the embedded metastore; ``tests/contract`` has the rules over every database."""

from __future__ import annotations

import pytest

from compactor.base.errors import NotFound, Refused
from compactor.compaction.entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.metastore import Metastore

T = Entity(database="d", table="t")


def ask(metastore: Metastore, entity: Entity = T, **properties: str) -> int:
    return metastore.requests.request(
        Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-x", properties=properties)
    )


def test_what_was_not_begun_can_be_taken_back(metastore: Metastore) -> None:
    entry = ask(metastore)
    metastore.endings.abort_request(entry)
    assert metastore.entries.queue() == []
    (ended,) = metastore.entries.history(T)
    assert (ended.id, ended.state) == (entry, State.ABORTED)
    with pytest.raises((NotFound, Refused)):
        metastore.endings.abort_request(entry)
