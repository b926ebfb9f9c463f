from __future__ import annotations

from typing import Any, cast

import pytest
from sqlalchemy import RowMapping

from compactor.compaction.entry import Entity
from compactor.compaction.states import CompactionType, State
from compactor.errors import NotSupported
from compactor.metastore.entries import MOVED, ended, entity_is, history_row, queued
from compactor.metastore.tables import COMPACTION_QUEUE, COMPLETED_COMPACTIONS

#: A row as Hive 4 writes it.
ROW: dict[str, Any] = dict.fromkeys(column.name for column in COMPACTION_QUEUE.columns) | {
    "CQ_ID": 7,
    "CQ_DATABASE": "default",
    "CQ_TABLE": "t",
    "CQ_PARTITION": "p=1",
    "CQ_STATE": "r",
    "CQ_TYPE": "a",
    "CQ_ENQUEUE_TIME": 1_700_000_000_000,
    "CQ_CLEANER_START": -1,
    "CQ_TXN_ID": 0,
    "CQ_HIGHEST_WRITE_ID": 5,
    "CQ_ERROR_MESSAGE": "of the queue",
}


def row(**changed: object) -> RowMapping:
    return cast(RowMapping, ROW | changed)


def test_what_was_never_set_is_none() -> None:
    entry = queued(row())
    assert (entry.id, entry.state, entry.type) == (7, State(ROW["CQ_STATE"]), CompactionType.MAJOR)
    assert entry.entity == Entity(database="default", table="t", partition="p=1")
    assert (entry.txn_id, entry.cleaner_start, entry.retry_retention, entry.start) == (None, None, 0, None)
    assert (entry.highest_write_id, entry.enqueue_time, dict(entry.properties)) == (5, 1_700_000_000_000, {})


def test_a_row_of_the_history_is_the_same_entry_ended() -> None:
    moved = history_row(row(CQ_TXN_ID=9, CQ_WORKER_ID="compactor-1"), State.FAILED, 1_700_000_000_001, None)
    assert set(moved) == {column.name for column in COMPLETED_COMPACTIONS.columns} & set(moved)
    assert moved["CC_START"] == 0
    entry = ended(cast(RowMapping, dict.fromkeys(c.name for c in COMPLETED_COMPACTIONS.columns) | moved))
    assert (entry.state, entry.end, entry.error) == (State.FAILED, 1_700_000_000_001, "of the queue")
    assert (entry.txn_id, entry.worker_id, entry.start) == (9, "compactor-1", None)
    assert history_row(row(), State.FAILED, 1, "ours")["CC_ERROR_MESSAGE"] == "ours"


@pytest.mark.parametrize("name", MOVED)
def test_what_is_moved_is_in_both_tables(name: str) -> None:
    assert f"CQ_{name}" in COMPACTION_QUEUE.columns
    assert f"CC_{name}" in COMPLETED_COMPACTIONS.columns


def test_a_type_of_another_table_format_is_named() -> None:
    with pytest.raises(NotSupported, match="compaction 7 has type 's'"):
        queued(row(CQ_TYPE="s"))


@pytest.mark.parametrize(
    ("entity", "partitions", "sql"),
    [
        (Entity(database="d", table="t"), (), "IS NULL"),
        (Entity(database="d", table="t", partition="p=1"), (), "IN ('p=1')"),
        (Entity(database="d", table="t", partition="p=1"), ("p=1", "p=2"), "IN ('p=1', 'p=2')"),
    ],
)
def test_which_rows_are_about_an_entity(entity: Entity, partitions: tuple[str, ...], sql: str) -> None:
    found = entity_is(COMPACTION_QUEUE, "CQ", entity, *partitions).compile(compile_kwargs={"literal_binds": True})
    assert str(found).endswith(f'"CQ_PARTITION" {sql}')
