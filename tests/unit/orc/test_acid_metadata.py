"""The texts that Hive's readers parse."""

from __future__ import annotations

from compactor.acid.row_id import RowId
from compactor.ids import WriteId
from compactor.orc.acid_metadata import acid_stats, key_index, user_metadata


def test_one_entry_per_stripe() -> None:
    keys = [RowId(WriteId(1), 536870912, 99), RowId(WriteId(3), 536870913, 0)]
    assert key_index(keys) == b"1,536870912,99;3,536870913,0;"
    assert key_index([]) == b""


def test_all_three_entries() -> None:
    assert user_metadata([RowId(WriteId(1), 2, 3)], inserts=4, deletes=5) == {
        "hive.acid.key.index": b"1,2,3;",
        "hive.acid.stats": b"4,0,5",
        "hive.acid.version": b"2",
    }
    assert acid_stats(1, 2, 3) == b"1,2,3"
