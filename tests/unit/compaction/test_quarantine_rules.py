"""Directories kept in quarantine, their records, and when it is erased (PROTOCOL 11.15)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.acid.listing import FileStatus, Listing
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import BadFile
from compactor.base.ids import WriteId
from compactor.compaction.quarantine_rules import Quarantined, Record, choose_due, list_names, sort_obsolete
from compactor.compaction.queue_entry import Entity

ALL_VALID = ValidWriteIdList(table="default.t", high_watermark=WriteId(99))
SEVEN_ABORTED = replace(ALL_VALID, aborted=frozenset({WriteId(7)}))


def test_what_is_obsolete_is_kept() -> None:
    names = ("000000_0", "base_0000003", "delete_delta_0000004_0000004_0000", "delta_0000004_0000004_0000")
    assert sort_obsolete(names, ALL_VALID, None).keep == names


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        ("delta_0000005_0000009", False),  # streaming, or merged by Hive 3.1: nobody can tell
        ("delete_delta_0000005_0000009", False),
        ("delta_0000005_0000009_v0000031", True),  # the compaction left the aborted rows out
        ("delta_0000008_0000009", True),
        ("base_0000009", True),
    ],
)
def test_what_may_hold_an_aborted_write_id_is_removed(name: str, is_kept: bool) -> None:
    """PROTOCOL 11.15: once its transaction is forgotten, the rows would commit."""
    found = sort_obsolete([name], SEVEN_ABORTED, None)
    assert found.keep == ((name,) if is_kept else ())
    assert [name for name, why in found.removed.items() if "aborted" in why] == ([] if is_kept else [name])


def test_nothing_from_before_a_rebalance_is_kept() -> None:
    """PROTOCOL 11.15: others may have deleted by the ROW__IDs that it gave."""
    before = ("000000_0", "base_0000003_v0000009", "delta_0000004_0000004_0000")
    after = ("base_0000005_v0000012", "delta_0000006_0000006_0000")
    found = sort_obsolete((*before, *after), ALL_VALID, WriteId(5))
    assert (found.keep, tuple(found.removed)) == (after, before)
    assert "rebalance with write ID 5" in found.removed["000000_0"]


def test_what_was_moved_one_by_one_is_named_so() -> None:
    """A base or delta as a whole, also an empty one, which hides older rows; original files each by itself."""
    paths = ("000000_0", "base_0000001/bucket_00000", "sub/000001_0")
    content = Listing(
        files=tuple(FileStatus(path=path, length=1) for path in paths),
        directories=("base_0000001", "base_0000002", "sub"),
    )
    assert list_names(content) == ("000000_0", "base_0000001", "base_0000002", "sub/000001_0")


RECORD = Record(
    entry_id=12,
    txn=31,
    table_id=4,
    partition_id=None,
    columns="struct<a:int>",
    since=1000,
    until=5000,
    names=("delta_0000001_0000001_0000",),
    kept={"delta_0000001_0000001_0000/bucket_00000": 7},
    stays={"base_0000001_v0000031/bucket_00000": 9},
    removed={"delta_0000002_0000002_0000": "may hold rows of an aborted write ID"},
    inputs={"delta_0000001_0000001_0000/bucket_00000": 7},
    outputs=("base_0000001_v0000031",),
)


@pytest.mark.parametrize("record", [RECORD, replace(RECORD, txn=None, partition_id=3, inputs=None, outputs=())])
def test_a_record_comes_back(record: Record) -> None:
    assert Record.parse(record.to_bytes(), "p") == record


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"{}", b"\xff", b"[" * 100_000, RECORD.to_bytes()[:-9]),
        *(RECORD.to_bytes().replace(b": 7", b': "x"'), RECORD.to_bytes().replace(b": 7", b": Infinity")),
    ],
)
def test_anything_else_is_no_record(content: bytes) -> None:
    with pytest.raises(BadFile, match=r"^/p/_record.json: expected the record of a quarantine, found something else"):
        Record.parse(content, "/p/_record.json")


def one(entry_id: int, *, since: int = 0, until: int = 100, size: int = 10) -> Quarantined:
    entity = Entity(database="default", table="t")
    return Quarantined(entry_id=entry_id, entity=entity, location="/t", since=since, until=until, bytes=size)


def test_what_is_over_is_due() -> None:
    kept = [one(1, until=100), one(2, until=101)]
    assert [q.entry_id for q in choose_due(kept, 100, 0)] == [1]
    assert [q.entry_id for q in choose_due(kept, 99, 0)] == []


def test_beyond_the_limit_the_oldest_goes_first() -> None:
    kept = [one(3, since=30), one(1, since=10), one(2, since=20)]
    assert [q.entry_id for q in choose_due(kept, 0, 30)] == []
    assert [q.entry_id for q in choose_due(kept, 0, 29)] == [1]
    assert [q.entry_id for q in choose_due(kept, 0, 1)] == [1, 2, 3]


def test_what_is_over_makes_room_first() -> None:
    kept = [one(1, since=10, until=200), one(2, since=20, until=50)]
    assert [q.entry_id for q in choose_due(kept, 60, 10)] == [2]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)), max_size=8),
    st.integers(0, 50),
    st.integers(0, 200),
)
def test_what_stays_is_in_time_and_within_the_limit(rows: list[tuple[int, int, int]], now: int, limit: int) -> None:
    kept = [one(number, since=since, until=until, size=size) for number, (since, until, size) in enumerate(rows)]
    gone = {q.entry_id for q in choose_due(kept, now, limit)}
    stays = [q for q in kept if q.entry_id not in gone]
    assert all(q.until > now for q in stays)
    assert not limit or sum(q.bytes for q in stays) <= limit
