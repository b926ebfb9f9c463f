from __future__ import annotations

from collections.abc import Callable

import pytest

from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import DirectoryClaim
from compactor.acid.tree import Anchor
from compactor.base.errors import BadFile, StorageError, UnsafeDirectory
from compactor.storage.build_listing import (
    ListedButAbsent,
    ListingLimits,
    build_listing_from,
    build_tree_from,
    consistent_listing,
    data_format,
)

FOUND = Listing(directories=("delta_0000001_0000001_0000",))


def _never(path: str) -> bytes:
    raise AssertionError(path)


def test_directories_are_those_given_and_those_of_files() -> None:
    found = build_listing_from("s3://b/t", [("base_1/f", 2), ("000000_0", 1)], ["empty", "_hidden"], _never)
    assert found.files == (FileStatus(path="000000_0", length=1), FileStatus(path="base_1/f", length=2))
    assert found.directories == ("base_1", "empty")


def test_the_content_of_a_skipped_directory_is_skipped() -> None:
    """PROTOCOL 3.1: at any depth; side files of a base are not skipped."""
    names = ["_SUCCESS", ".compactor_v1/base_1/f", "base_1/.x/f", "base_1/_orc_acid_version"]
    found = build_listing_from("s3://b/t", [(name, 1) for name in names], [], _never)
    assert [f.path for f in found.files] == ["base_1/_orc_acid_version"]


def test_the_metadata_of_a_base_is_read() -> None:
    found = build_listing_from("/t", [("base_1/_metadata_acid", 9)], [], lambda path: b'{"dataFormat": "truncated"}')
    assert dict(found.data_formats) == {"base_1": "truncated"}
    with pytest.raises(BadFile, match="/t/base_1/_metadata_acid: expected JSON with a dataFormat"):
        data_format("/t/base_1/_metadata_acid", b"[]")


def test_the_directories_of_keys() -> None:
    keys = ["p=1/delta_1_1/bucket_00000", "p=1/delta_1_1/_side", "p=1/_tmp/x/_y", "empty/", "000000_0"]
    found = build_tree_from(Anchor(volume="s3://b"), keys)
    assert found.directories == ("empty", "p=1", "p=1/_tmp", "p=1/_tmp/x", "p=1/delta_1_1")
    assert found.files == {"": 1, "p=1/delta_1_1": 1}


def test_claims_are_those_directly_there() -> None:
    """PROTOCOL 11.13: by their whole names; no others than those that readers skip are left out below."""
    claim = DirectoryClaim(token="0" * 32, table_id=7).name
    names = [claim, f"x/{claim}", f".y/{claim}", f"{claim}_8", ".compactor_claim_g_7"]
    found = build_listing_from("s3://b/t", [(name, 1) for name in names], [], _never)
    assert (found.claims, [file.path for file in found.files]) == ((claim,), [f"x/{claim}"])


def test_as_much_as_is_allowed_passes() -> None:
    limits = ListingLimits(entries=3, depth=2)
    limits.check_entries("/w/t", 3)
    limits.check_depth("/w/t/a/b", 2)


def test_more_is_refused_with_the_setting_that_allows_it() -> None:
    limits = ListingLimits(entries=3, depth=2)
    with pytest.raises(UnsafeDirectory, match=r"/w/t: has more than 3 files.*compactor\.listing\.entries"):
        limits.check_entries("/w/t", 4)
    with pytest.raises(
        UnsafeDirectory, match=r"/w/t/a/b/c: is more than 2 directories deep.*compactor\.listing\.depth"
    ):
        limits.check_depth("/w/t/a/b/c", 3)


def test_a_very_deep_place_is_named_in_few_words() -> None:
    with pytest.raises(UnsafeDirectory) as raised:
        ListingLimits(depth=2).check_depth("/w/t" + "/d" * 1500, 1500)
    assert len(str(raised.value)) < 600


def answers(*absent: str) -> Callable[[], Listing]:
    """An attempt that finds each of these names absent, one in each try, and then all names."""
    left = list(absent)

    def attempt() -> Listing:
        if left:
            raise ListedButAbsent(left.pop(0))
        return FOUND

    return attempt


def test_names_that_vanish_one_after_the_other_start_it_again() -> None:
    assert consistent_listing("/t", answers("/t/a", "/t/b", "/t/c")) == FOUND


def test_a_name_that_is_listed_again_and_does_not_answer_ends_it() -> None:
    with pytest.raises(StorageError, match="/t/a: its directory lists it, and it does not answer"):
        consistent_listing("/t", answers("/t/a", "/t/a"))


def test_a_directory_in_which_something_vanishes_each_time_is_given_up() -> None:
    with pytest.raises(StorageError, match="nothing is done in /t"):
        consistent_listing("/t", answers(*(f"/t/{number}" for number in range(100))))
