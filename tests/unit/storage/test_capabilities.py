from __future__ import annotations

from pathlib import Path

from compactor.storage.capabilities import EVERY, HDFS, LOCAL, S3


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
