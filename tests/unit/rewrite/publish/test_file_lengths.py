"""Two listings compared below some names."""

from __future__ import annotations

import pytest

from compactor.acid.listing import FileStatus, Listing
from compactor.rewrite.publish.file_lengths import file_lengths, first_change


def test_a_name_stands_for_itself_and_for_what_is_below_it() -> None:
    paths = ("000000_0", "base_0000001/bucket_00000", "base_0000001/sub/x", "base_00000010/bucket_00000")
    listing = Listing(files=tuple(FileStatus(path=path, length=3) for path in paths), directories=())
    assert set(file_lengths(listing, {"000000_0", "base_0000001"})) == set(paths[:3])


@pytest.mark.parametrize(
    ("now", "change"),
    [
        ({"a": 1, "b": 2}, None),
        ({"a": 1}, ("b", "had 2 bytes and has no file")),
        ({"a": 1, "b": 2, "c": 3}, ("c", "had no file and has 3 bytes")),
        ({"a": 0, "b": 0}, ("a", "had 1 bytes and has 0 bytes")),
    ],
)
def test_the_first_change_is_told(now: dict[str, int], change: tuple[str, str] | None) -> None:
    assert first_change({"a": 1, "b": 2}, now) == change
