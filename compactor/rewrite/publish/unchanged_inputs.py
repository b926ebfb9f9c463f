"""The second listing, just before an output is named: the directory must still hold what was planned from (PROTOCOL 11.9).

A directory that the first listing missed would be hidden by the output's range, and its rows with it.
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
    """Returns the length of each file that ``plan`` reads, by its path.

    What the plan leaves out may go meanwhile: a cleaner removes what is obsolete.

    Raises:
        LockNotGranted: a file that is read is gone, new or of another length, or there is a new directory or original
            in the output's range; the next pass tries again.
    """
    read = frozenset(plan.inputs)  # names of directories, and paths of originals
    found = file_lengths(now, read)
    if (now.files, now.directories) == (before.files, before.directories):  # nearly always
        return found
    if (change := first_change(file_lengths(before, read), found)) is not None:
        raise _changed(plan, " ".join(change))
    for name in sorted(_in_range(plan, now) - _in_range(plan, before)):
        raise _changed(plan, f"{name} was not there")
    return found


def _in_range(plan: Plan, listing: Listing) -> set[str]:
    """Returns the directories and originals that readers no longer look at once the output is named."""
    found = {name for name in listing.directories if _reaches(plan, name)}
    if plan.shape is Shape.MAJOR:
        tops = {file.path.partition("/")[0] for file in listing.files}
        found |= {top for top in tops if _is_none(top)}
    return found


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


def _is_none(name: str) -> bool:
    try:
        return parse_directory(name) is None
    except BadName:
        return False


def _changed(plan: Plan, what: str) -> LockNotGranted:
    return LockNotGranted(
        f"{plan.location}: its files are others than those that the compaction was planned from ({what}); nothing was "
        "named, the next pass tries again"
    )
