"""The listing before directories are taken away: what readers need in their place must still be there (PROTOCOL 11.8.4).

Something else may be at the location by now, such as a copy of the table from before the compaction: what is obsolete beside
the compaction's output holds the only rows there.
"""

from __future__ import annotations

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import Listing
from compactor.errors import LockNotGranted


def must_still_be_needed(location: str, directory: AcidDirectory, before: Listing, now: Listing) -> None:
    """Checks that everything that readers need in ``directory`` has the files and lengths that it had ``before``.

    What is there besides may change: others write, and take away what is obsolete.

    Raises:
        LockNotGranted: a file of it is gone, new or of another length; the next pass looks again.
    """
    if now.files == before.files:  # nearly always
        return
    needed = frozenset(_needed(directory))
    planned, found = _lengths(before, needed), _lengths(now, needed)
    for path in sorted({*planned, *found}):
        if planned.get(path) != found.get(path):
            raise LockNotGranted(
                f"{location}: {path} is needed in place of what was to be removed; it had {_size(planned.get(path))} and "
                f"has {_size(found.get(path))}; nothing was removed, the next pass looks again"
            )


def _needed(directory: AcidDirectory) -> list[str]:
    base = [] if directory.base is None else [directory.base]
    return [
        *(acid.directory for acid in (*base, *directory.deltas)),
        *(original.path for original in directory.originals),
    ]


def _lengths(listing: Listing, needed: frozenset[str]) -> dict[str, int]:
    return {
        file.path: file.length for file in listing.files if file.path in needed or file.path.partition("/")[0] in needed
    }


def _size(length: int | None) -> str:
    return "no file" if length is None else f"{length} bytes"
