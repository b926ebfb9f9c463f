"""Limits of a listing."""

from __future__ import annotations

import pytest

from compactor.base.errors import UnsafeDirectory
from compactor.storage.listing_limits import ListingLimits


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
