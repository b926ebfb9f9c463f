"""Checks just before naming or removal that a location still holds the planned directories.

See PROTOCOL 11.8.4, 11.9.

The output's range would hide a directory that the first listing missed, together with its rows.

Something else may be at the location by now, such as a copy of the table from before the compaction. In such a copy the
obsolete directories hold the only rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import Listing
from compactor.acid.names import Base, parse_directory
from compactor.base.errors import BadName, LockNotGranted
from compactor.base.ids import ORIGINALS_ONLY
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Shape


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
