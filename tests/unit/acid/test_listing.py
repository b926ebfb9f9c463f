"""Files and directories of a listing, sorted by their names."""

from __future__ import annotations

from compactor.acid.directory import acid_directory
from compactor.acid.listing import FileStatus, Listing, SortedListing, describe_unparsable
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList

ALL_TXNS = ValidTxnList.parse("")
ALL = ValidWriteIdList.parse("")


def test_data_files_of_a_delta() -> None:
    """Hidden files count neither as data nor as bytes, a flush length marks its file, LOAD DATA makes a delta raw."""
    listing = Listing(
        files=(
            FileStatus(path="delta_1_5/bucket_00001", length=100),
            FileStatus(path="delta_1_5/bucket_00001_flush_length", length=8),
            FileStatus(path="delta_1_5/bucket_00000_3", length=50),
            FileStatus(path="delta_1_5/_orc_acid_version", length=1),
            FileStatus(path="delta_1_5/.bucket_00001.crc", length=12),
            FileStatus(path="delta_6_6_0/HIVE_UNION_SUBDIR_1/000003_0_copy_2", length=7),
        ),
        directories=("delta_1_5", "delta_6_6_0"),
    )
    streaming, loaded = acid_directory(listing, ALL, ALL_TXNS).deltas
    assert [(f.path, f.number, f.has_flush_length) for f in streaming.files] == [
        ("delta_1_5/bucket_00000_3", 0, False),
        ("delta_1_5/bucket_00001", 1, True),
    ]
    assert (streaming.total_bytes, streaming.raw) == (158, False)
    assert [(f.number, f.raw) for f in loaded.files] == [(3, True)]
    assert loaded.raw


def test_empty_directory_is_listed() -> None:
    """A directory without a file is known from the listing of directories; Hive's cleaner sees it too."""
    listing = Listing(files=(FileStatus(path="delta_1_1/bucket_0", length=1),), directories=("delta_1_1", "base_2_v5"))
    directory = acid_directory(listing, ALL, ALL_TXNS)
    assert directory.base is not None
    assert directory.base.files == ()
    assert directory.obsolete == ("delta_1_1",)


def test_unnumbered_and_unparsable_names() -> None:
    """A file without a file number is listed apart; a name that only begins like a delta is reported."""
    paths = ("delta_1_1_0/bucket_0", "delta_1_1_0/part-00000.orc", "delta_x/bucket_0", "_staging/bucket_0")
    listing = Listing(files=tuple(FileStatus(path=path, length=1) for path in paths))
    found = SortedListing.from_listing(listing, frozenset())
    (delta,) = found.deltas
    directory = found.acid_dir(delta.name, delta.delta)
    assert [f.path for f in directory.files] == ["delta_1_1_0/bucket_0"]
    assert [(f.path, f.number) for f in directory.unnumbered] == [("delta_1_1_0/part-00000.orc", -1)]
    assert found.unparsable == ("delta_x",)
    assert found.originals == ()


def test_a_base_or_delta_inside_another_is_reported_with_both_paths() -> None:
    """PROTOCOL 11.13: a copy that ran twice; each of its rows was there twice, for us alone."""
    paths = (
        "base_5/bucket_00000",
        "base_5/base_5/bucket_00000",
        "delta_6_6_0/HIVE_UNION_SUBDIR_1/delta_6_6_0/000000_0",
        "delta_7_7_0/HIVE_UNION_SUBDIR_1/000000_0",
        "delta_8_8_0/_tmp/delta_8_8_0/bucket_00000",
        "delta_9_9_0/p=1/delta_x/bucket_00000",
        "delta_10_10_0/Delta_10_10_0/bucket_00000",
        "plain/BASE_5/000000_0",
        "plain/Database_5/000000_0",
    )
    parsed = SortedListing.from_listing(
        Listing(files=tuple(FileStatus(path=path, length=1) for path in paths)), frozenset()
    )
    assert parsed.unparsable == (
        "base_5/base_5",
        "delta_10_10_0/Delta_10_10_0",
        "delta_6_6_0/HIVE_UNION_SUBDIR_1/delta_6_6_0",
        "delta_9_9_0/p=1/delta_x",
        "plain/BASE_5",
    )
    assert describe_unparsable(parsed.unparsable) == "'base_5/base_5' is a base or delta inside 'base_5' (and 4 more)"
    assert [file.path for file in parsed.originals] == ["plain/Database_5/000000_0"]


def test_empty_raw_files_hold_no_rows_and_an_empty_bucket_is_read() -> None:
    """LOAD DATA brings empty buckets as Hive writes them, with 0 bytes; an ACID file is never empty."""
    paths = ("delta_1_1_0/000000_0", "delta_1_1_0/bucket_00001")
    listing = Listing(files=tuple(FileStatus(path=path, length=0) for path in paths))
    (delta,) = (parsed := SortedListing.from_listing(listing, frozenset())).deltas
    assert [file.path for file in parsed.acid_dir(delta.name, delta.delta).files] == ["delta_1_1_0/bucket_00001"]


def test_a_table_inside_anothers_directory_is_no_original() -> None:
    """PROTOCOL 11.13: its rows were merged into the table around it, or removed as obsolete originals."""
    paths = (
        "child/delta_0000001_0000001_0000/bucket_00000",
        "child/delta_0000001_0000001_0000/bucket_00001",
        "backup/old/base_0000004/bucket_00000",
        "copy/delta_x/bucket_00000",
        "HIVE_UNION_SUBDIR_1/000000_0",
        "sub/deep/000001_0",
    )
    found = SortedListing.from_listing(
        Listing(files=tuple(FileStatus(path=path, length=1) for path in paths)), frozenset()
    )
    assert found.unparsable == ("backup/old/base_0000004", "child/delta_0000001_0000001_0000", "copy/delta_x")
    assert [f.path for f in found.originals] == ["HIVE_UNION_SUBDIR_1/000000_0", "sub/deep/000001_0"]
    assert acid_directory(Listing(files=(FileStatus(path=paths[0], length=1),)), ALL, ALL_TXNS).originals == ()
