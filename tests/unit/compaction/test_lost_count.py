from __future__ import annotations

import pytest

from compactor.compaction.lost_count import last_message, loss_message, lost_workers
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State


def entry(error: str | None) -> Entry:
    entity = Entity(database="default", table="t")
    return Entry(id=1, entity=entity, type=CompactionType.MAJOR, state=State.INITIATED, error=error)


@pytest.mark.parametrize("number", [1, 2, 999])
def test_a_message_is_read_as_it_was_written(number: int) -> None:
    assert lost_workers(entry(loss_message(number, "its transaction 7 is aborted"))) == number
    assert lost_workers(entry(last_message(number, "its transaction 7 is aborted"))) == number


@pytest.mark.parametrize(
    "error", [None, "", "lost worker", "lost worker 9999999: x", "it lost worker 2: x", "lost worker -1: x"]
)
def test_other_messages_count_none(error: str | None) -> None:
    assert lost_workers(entry(error)) == 0
