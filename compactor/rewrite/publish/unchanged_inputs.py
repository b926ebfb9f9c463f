"""Checks just before naming that the directory still holds the planned inputs (PROTOCOL 11.9).

The output's range would hide a directory that the first listing missed, together with its rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from compactor.acid.listing import Listing
from compactor.acid.names import Base, parse_directory
from compactor.base.errors import BadName, LockNotGranted
from compactor.base.ids import ORIGINALS_ONLY
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish.file_lengths import file_lengths, first_change


def unchanged_inputs(plan: Plan, before: Listing, now: Listing) -> Mapping[str, int]:
    """Returns the length of each file that ``plan`` reads, by path.

    Other files may go meanwhile, because a cleaner removes obsolete directories.

    Raises:
        LockNotGranted: an input is gone, new or of another length, or there is a new directory or original in the output's
            range. The next pass tries again.
    """
    read = frozenset(plan.inputs)  # names of directories, and paths of originals
    lengths = file_lengths(now, read)
    if (now.files, now.directories) == (before.files, before.directories):  # nearly always
        return lengths
    if (change := first_change(file_lengths(before, read), lengths)) is not None:
        raise _files_changed(plan, " ".join(change))
    for name in sorted(_in_range(plan, now) - _in_range(plan, before)):
        raise _files_changed(plan, f"{name} was not there")
    return lengths


def _in_range(plan: Plan, listing: Listing) -> set[str]:
    """Returns the directories and originals that the named output hides from readers."""
    names = {name for name in listing.directories if _reaches(plan, name)}
    if plan.shape is Shape.MAJOR:
        tops = {file.path.partition("/")[0] for file in listing.files}
        names |= {top for top in tops if _is_original(top)}
    return names


def _reaches(plan: Plan, name: str) -> bool:
    try:
        acid = parse_directory(name)
    except BadName:
        return True  # nobody knows which rows it holds
    if acid is None:
        return False
    if isinstance(acid, Base):
        return plan.shape is Shape.MAJOR and ORIGINALS_ONLY < acid.write_id <= plan.highest_write_id
    if plan.shape is Shape.MAJOR:
        return acid.min_write_id <= plan.highest_write_id
    return acid.min_write_id <= plan.highest_write_id and acid.max_write_id >= plan.lowest_write_id


def _is_original(name: str) -> bool:
    try:
        return parse_directory(name) is None
    except BadName:
        return False


def _files_changed(plan: Plan, what: str) -> LockNotGranted:
    return LockNotGranted(
        f"{plan.location}: its files have changed since the compaction was planned ({what}); nothing was named, the next "
        "pass tries again"
    )
