from __future__ import annotations

from compactor.storage.capabilities import EVERY, HDFS, LOCAL, S3


def test_a_pair_shows_one_half_before_the_other_wherever_it_lies() -> None:
    """PROTOCOL 5: pairs are named under EXCLUSIVE."""
    assert LOCAL.needs_exclusive(files=2, directories=2)
    assert HDFS.needs_exclusive(files=2, directories=2)
    assert not LOCAL.needs_exclusive(files=9, directories=1)


def test_several_files_are_seen_one_by_one_where_no_directory_is_renamed() -> None:
    """PROTOCOL 5: several files on a store without directory rename are named under EXCLUSIVE."""
    assert S3.needs_exclusive(files=2, directories=1)
    assert not S3.needs_exclusive(files=1, directories=1)


def test_every_store_is_told_apart_and_as_json() -> None:
    assert len({one.store for one in EVERY}) == len(EVERY)
    assert S3.to_json()["renames"] is False
