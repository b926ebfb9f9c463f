from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from compactor.storage.capabilities import EVERY, HDFS, LOCAL, S3, KnownBytes, TakenRange, ends_of, pieces

FIRST = TakenRange(position=10, length=20, source="a", offset=100, tag="x")
SECOND = TakenRange(position=30, length=5, source="b", offset=0, tag="y")
THIRD = TakenRange(position=40, length=10, source="a", offset=7, tag="x")


def test_a_pair_shows_one_half_before_the_other_wherever_it_lies() -> None:
    """PROTOCOL 5: pairs are named under EXCLUSIVE."""
    assert LOCAL.needs_exclusive(files=2, directories=2)
    assert HDFS.needs_exclusive(files=2, directories=2)
    assert not LOCAL.needs_exclusive(files=9, directories=1)


def test_several_files_are_seen_one_by_one_where_no_directory_is_renamed() -> None:
    """PROTOCOL 5: several files in a store without directory rename are named under EXCLUSIVE."""
    assert S3.needs_exclusive(files=2, directories=1)
    assert not S3.needs_exclusive(files=1, directories=1)


def test_every_store_has_a_name_of_its_own_and_a_json_form() -> None:
    assert len({one.store for one in EVERY}) == len(EVERY)
    assert S3.to_json()["renames"] is False


def test_the_documented_table_equals_the_code() -> None:
    """docs/storage.md lists for each store what ``doctor`` prints and callers decide by."""
    text = (Path(__file__).parents[3] / "docs" / "storage.md").read_text("utf-8")
    for one in EVERY:
        values = [one.renames, one.refuses_taken_names, one.syncs, one.completes_whole, one.defers]
        values += [one.has_owner, one.has_acl, one.bulk_removal, one.knows_free_bytes]
        cells = [one.store, *("yes" if value else "no" for value in values), one.tried]
        assert f"| {' | '.join(cells)} |" in text


def test_a_store_is_described_in_one_sentence() -> None:
    assert str(S3).startswith(
        "S3: no rename: several files are named, and directories removed, under an exclusive lock"
    )
    assert "uploads are named without a copy" in str(S3)
    assert "owner, mode and ACL are kept" in str(HDFS)


def test_a_part_of_a_range_is_at_its_own_offset() -> None:
    assert FIRST.part(15, 18) == TakenRange(position=15, length=3, source="a", offset=105, tag="x")
    assert FIRST.part(10, 30) == FIRST
    ended = replace(FIRST, last=b"abcd")
    assert [ended.part(*span).last for span in ((10, 30), (28, 30), (10, 29))] == [b"abcd", b"cd", b""]


def test_the_last_bytes_of_ranges_are_known() -> None:
    assert ends_of([replace(FIRST, last=b"abcd"), SECOND]) == (KnownBytes(start=26, content=b"abcd"),)


def test_pieces_are_the_ranges_and_what_is_between_them() -> None:
    assert list(pieces([FIRST, SECOND, THIRD], 0, 60)) == [
        (0, 10, None),
        (10, 30, FIRST),
        (30, 35, SECOND),
        (35, 40, None),
        (40, 50, THIRD),
        (50, 60, None),
    ]
    assert list(pieces([FIRST, SECOND, THIRD], 29, 41)) == [
        (29, 30, FIRST.part(29, 30)),
        (30, 35, SECOND),
        (35, 40, None),
        (40, 41, THIRD.part(40, 41)),
    ]
    assert list(pieces([], 3, 5)) == [(3, 5, None)]
    assert list(pieces([FIRST], 12, 12)) == []
