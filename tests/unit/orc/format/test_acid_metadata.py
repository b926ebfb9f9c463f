"""The metadata texts that Hive's readers parse."""

from __future__ import annotations

import pytest

from compactor.acid.bucket import RowId
from compactor.base.errors import BadFile
from compactor.base.ids import WriteId
from compactor.orc.format.acid_metadata import acid_stats, key_index, parse_key_index, user_metadata


def test_one_entry_per_stripe() -> None:
    keys = [RowId(WriteId(1), 536870912, 99), RowId(WriteId(3), 536870913, 0)]
    assert key_index(keys) == b"1,536870912,99;3,536870913,0;"
    assert key_index([]) == b""
    assert parse_key_index("f", key_index(keys)) == keys
    assert parse_key_index("f", b"") == []


@pytest.mark.parametrize("index", [b"1,2;", b"1,2,x;", b"1,2,3,4;", b"\xff;"])
def test_text_that_is_not_a_key_index_is_refused(index: bytes) -> None:
    with pytest.raises(BadFile, match=r"file f: its hive\.acid\.key\.index is b"):
        parse_key_index("f", index)


def test_all_three_entries() -> None:
    assert user_metadata([RowId(WriteId(1), 2, 3)], inserts=4, deletes=5) == {
        "hive.acid.key.index": b"1,2,3;",
        "hive.acid.stats": b"4,0,5",
        "hive.acid.version": b"2",
    }
    assert acid_stats(1, 2, 3) == b"1,2,3"
