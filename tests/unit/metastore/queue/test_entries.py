from __future__ import annotations

import pytest

from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.metastore import Metastore


@pytest.fixture
def ids(metastore: Metastore) -> list[int]:
    """``sales.t`` with three partitions, ``sales.whole`` and ``web.t``; the first of them is worked on."""
    entities = [Entity(database="sales", table="t", partition=f"day={n}") for n in range(3)]
    entities += [Entity(database="sales", table="whole"), Entity(database="web", table="t")]
    asked = [Request(entity=e, type=CompactionType.MAJOR, initiator="compactor-h-manual") for e in entities]
    found = [answer for answer in metastore.requests.request_all(asked) if isinstance(answer, int)]
    assert metastore.claims.claim("compactor-worker-h-1-1", "v", pool_timeout_ms=0) is not None
    return found


def test_the_queue_a_page_at_a_time(metastore: Metastore, ids: list[int]) -> None:
    lists = metastore.entries
    part = lists.queue_page(limit=2, offset=2)
    assert ([e.id for e in part.entries], part.total) == (ids[2:4], 5)
    assert [e.id for e in lists.queue_page(limit=9, states=(State.WORKING,)).entries] == ids[:1]
    assert [e.id for e in lists.queue_page(limit=9, find="SALES.T day").entries] == ids[:3]
    assert [e.id for e in lists.queue_page(limit=9, find="whole").entries] == ids[3:4]
    assert lists.queue_page(limit=9, find="%").total == 0


def test_the_history_a_page_at_a_time_newest_first(metastore: Metastore, ids: list[int]) -> None:
    for entry_id in ids[1:]:
        metastore.claims.abort_request(entry_id)
    part = metastore.entries.history_page(limit=2, offset=1)
    assert ([e.id for e in part.entries], part.total) == ([ids[3], ids[2]], 4)
    assert metastore.entries.history_page(limit=9, states=(State.FAILED,)).total == 0
    assert [e.id for e in metastore.entries.history_page(limit=9, find="web").entries] == [ids[4]]


def test_the_row_about_each(metastore: Metastore, ids: list[int]) -> None:
    asked = [
        Entity(database="sales", table="t", partition="day=1"),
        Entity(database="web", table="t"),
        Entity(database="web", table="u"),
    ]
    found = metastore.entries.queue_of([*asked, Entity(database="sales", table="t")])
    assert {entity: [entry.id for entry in entries] for entity, entries in found.items()} == {
        asked[0]: [ids[1]],
        asked[1]: [ids[4]],
    }
    assert metastore.entries.queue_of([]) == {}
