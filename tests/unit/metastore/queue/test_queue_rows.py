from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import RowMapping

from compactor.base.errors import BadName, NotSupported
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType, State
from compactor.metastore.queue.queue_rows import (
    MOVED,
    QueueRows,
    decode_properties,
    encode_properties,
    ended,
    history_row,
    queued,
)
from compactor.metastore.schema.dialect import Dialect, entity_is
from compactor.metastore.schema.hive3 import Postgres31
from compactor.metastore.schema.tables import COMPACTION_QUEUE, COMPLETED_COMPACTIONS

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
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def row(**changed: object) -> RowMapping:
    return cast(RowMapping, ROW | changed)


class Kept(dict[int, dict[str, Any]]):
    """Values that are kept elsewhere, in a dictionary."""

    def get(self, ids: Collection[int]) -> Mapping[int, Mapping[str, Any]]:  # type: ignore[override]
        return {i: self[i] for i in ids if i in self}

    def put(self, rows: Mapping[int, Mapping[str, Any]], *, replace: bool = False) -> None:
        for i, values in rows.items():
            self[i] = ({} if replace else self.setdefault(i, {})) | dict(values)

    def forget(self, ids: Collection[int]) -> None:
        for i in ids:
            self.pop(i, None)


@pytest.fixture
def hive3() -> tuple[QueueRows, Kept]:
    rows, kept = QueueRows(Postgres31()), Kept()
    rows.extra_columns = kept
    return rows, kept


def test_what_a_schema_lacks_goes_elsewhere_and_comes_back(hive3: tuple[QueueRows, Kept]) -> None:
    rows, kept = hive3
    values = {"CQ_ID": 7, "CQ_STATE": "i", "CQ_POOL_NAME": "p", "CQ_TXN_ID": 5}
    assert rows.stored(COMPACTION_QUEUE, values) == {"CQ_ID": 7, "CQ_STATE": "i"}
    rows.keep({7: values})
    assert kept == {7: {"POOL_NAME": "p", "TXN_ID": 5}}
    [entry] = rows.queued([row(CQ_POOL_NAME=None)])
    assert (entry.pool, entry.txn_id) == ("p", 5)
    rows.forget([7])
    assert kept == {}


def test_a_state_that_hive_3_cannot_show_is_known_elsewhere_only(hive3: tuple[QueueRows, Kept]) -> None:
    rows, kept = hive3
    past = history_row(row(), State.ABORTED, 5, "why")
    rows.keep({7: {name: value for name, value in past.items() if value is not None}})
    stored = rows.stored(COMPLETED_COMPACTIONS, past)
    assert stored["CC_STATE"] == "a"
    lacking = dict.fromkeys(column.name for column in COMPLETED_COMPACTIONS.columns)
    [entry] = rows.ended([cast(RowMapping, lacking | stored)])
    assert (entry.state, entry.error) == (State.ABORTED, "why")
    # Hive's own row of a number whose state we know otherwise keeps its state
    [hives] = rows.ended([cast(RowMapping, lacking | stored | {"CC_STATE": "f"})])
    assert hives.state is State.FAILED
    assert kept[7]["ENDED_AS"] == "x"


def test_a_schema_with_every_column_keeps_nothing_elsewhere() -> None:
    rows, kept = QueueRows(Dialect()), Kept({7: {"POOL_NAME": "elsewhere"}})
    rows.extra_columns = kept
    values = {"CQ_ID": 7, "CQ_POOL_NAME": "p"}
    rows.keep({7: values}, replace=True)
    assert rows.is_whole
    assert rows.stored(COMPACTION_QUEUE, values) == values
    assert [entry.pool for entry in rows.queued([row(CQ_POOL_NAME="p")])] == ["p"]
    rows.forget([7])
    assert kept == {7: {"POOL_NAME": "elsewhere"}}


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


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(NotSupported, match="compaction 7 has type 'z'"):
        queued(row(CQ_TYPE="z"))


def test_rows_that_are_left_to_hive() -> None:
    """A request's own property does not make it one; a row of Hive's soft delete was never in another state."""
    location = "1:8:location4:/w/t"
    assert queued(row(CQ_STATE="i", CQ_TBLPROPERTIES=location)).left_to is None
    assert queued(row(CQ_STATE="r", CQ_TBLPROPERTIES="1:1:k8:location")).left_to is None
    assert "soft-deleted" in (queued(row(CQ_STATE="r", CQ_TBLPROPERTIES=location)).left_to or "")
    assert "Iceberg" in (queued({**row(), "IS_ICEBERG": 1}).left_to or "")
    assert "Iceberg" in (queued(row(CQ_TYPE="s")).left_to or "")


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


def test_rows_that_cannot_be_understood_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL 10: a stranger's row ends no pass."""
    rows = [row(CQ_ID=1, CQ_TBLPROPERTIES="9:"), row(CQ_ID=2), row(CQ_ID=3, CQ_STATE="z")]
    readable = QueueRows(Dialect()).readable_queued(rows)
    assert [entry.id for entry in readable] == [2]
    for number in (1, 3):
        assert f"compaction {number} of default.t: its row cannot be understood" in caplog.text


def test_as_hive_writes_it() -> None:
    """CQ_TBLPROPERTIES of a real Hive 4.1."""
    text = "1:33:compactor.mapreduce.map.memory.mb3:512"
    assert encode_properties({"compactor.mapreduce.map.memory.mb": "512"}) == text
    assert decode_properties(text) == {"compactor.mapreduce.map.memory.mb": "512"}


def test_lengths_count_as_javas() -> None:
    assert encode_properties({"a": "\N{GRINNING FACE}"}) == "1:1:a2:\N{GRINNING FACE}"


def test_null_and_nothing() -> None:
    assert decode_properties(None) == decode_properties("") == decode_properties("0:") == {}
    assert decode_properties("1:1:a-1:") == {"a": ""}


@given(st.dictionaries(texts, texts, max_size=4))
def test_round_trip(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


@pytest.mark.parametrize("text", ["x", "1:", "1:3:ab", "2:1:a1:b", "1:x:a1:b"])
def test_what_is_cut_off_is_named(text: str) -> None:
    with pytest.raises(BadName, match="CQ_TBLPROPERTIES"):
        decode_properties(text)
