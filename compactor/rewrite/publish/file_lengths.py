"""Compares the files below some names in two listings of one location."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from compactor.acid.listing import Listing


def file_lengths(listing: Listing, names: Collection[str]) -> dict[str, int]:
    """Returns the length of each file at or below ``names``, by path.

    Names are top-level directories, such as ``base_0000005``, and paths of originals, such as ``000000_0``.
    """
    return {
        file.path: file.length for file in listing.files if file.path in names or file.path.partition("/")[0] in names
    }


def first_change(before: Mapping[str, int], now: Mapping[str, int]) -> tuple[str, str] | None:
    """Returns the path of the first file that is gone, new or of another length, with its sizes.

    Returns None without a change.
    """
    for path in sorted({*before, *now}):
        if before.get(path) != now.get(path):
            return path, f"had {_size(before.get(path))} and has {_size(now.get(path))}"
    return None


def _size(length: int | None) -> str:
    return "no file" if length is None else f"{length} bytes"
