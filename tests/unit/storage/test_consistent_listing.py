"""A listing in which every name that was listed also answered (PROTOCOL 11.10)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compactor.acid.listing import Listing
from compactor.base.errors import StorageError
from compactor.storage.consistent_listing import ListedButAbsent, consistent_listing

FOUND = Listing(directories=("delta_0000001_0000001_0000",))


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
