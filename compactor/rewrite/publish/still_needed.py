"""Checks that the directories that replace obsolete ones still exist (PROTOCOL 11.8.4).

Something else may be at the location by now, such as a copy of the table from before the compaction. In such a copy the
obsolete directories hold the only rows.
"""

from __future__ import annotations

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import Listing
from compactor.base.errors import LockNotGranted
from compactor.rewrite.publish.file_lengths import file_lengths, first_change


def must_still_be_needed(location: str, directory: AcidDirectory, before: Listing, now: Listing) -> None:
    """Checks that everything that readers need in ``directory`` has its files and lengths of ``before``.

    Anything else may change: others write, and remove obsolete directories.

    Raises:
        LockNotGranted: a needed file is gone, new or of another length. The next pass looks again.
    """
    if now.files == before.files:  # nearly always
        return
    needed = frozenset(_names_needed(directory))
    change = first_change(file_lengths(before, needed), file_lengths(now, needed))
    if change is not None:
        path, sizes = change
        raise LockNotGranted(
            f"{location}: {path} is needed in place of what was to be removed; it {sizes}; nothing was removed, the next "
            "pass looks again"
        )


def _names_needed(directory: AcidDirectory) -> list[str]:
    base = [] if directory.base is None else [directory.base]
    return [
        *(acid.directory for acid in (*base, *directory.deltas)),
        *(original.path for original in directory.originals),
    ]
