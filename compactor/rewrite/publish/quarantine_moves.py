"""Moves obsolete directories into quarantine and back, and erases quarantines (PROTOCOL 11.15).

Knows only storage.

A quarantine is one hidden directory in the location of its content. It goes when the table is dropped; a re-created table
starts without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from compactor.acid.listing import Listing
from compactor.acid.names import Quarantine
from compactor.base.errors import BadFile, StorageError
from compactor.base.steps import CommandStep, Step, reach
from compactor.compaction.quarantine_rules import Record
from compactor.rewrite.publish.removal import rename_same
from compactor.rewrite.publish.stage import MOST_BYTES
from compactor.storage.protocol import Storage

RECORD = "_record.json"
MANIFEST = "_manifest.json"  #: that of the compaction, until the record is written
_UNFINISHED = "_record.new"


def quarantine_path(location: str, entry_id: int) -> str:
    """Returns the path of an entry's quarantine."""
    return f"{location}/{Quarantine(entry_id=entry_id).name}"


def make(storage: Storage, location: str, entry_id: int) -> None:
    """Creates the entry's quarantine if it does not exist."""
    storage.make_directories(quarantine_path(location, entry_id), like=location)


def keep_manifest(storage: Storage, manifest: str, location: str, entry_id: int) -> None:
    """Moves the manifest of a committed compaction into the entry's quarantine, which it creates.

    Raises:
        StorageError: it cannot be moved, or the quarantine already has a manifest.
    """
    make(storage, location, entry_id)
    storage.rename(manifest, f"{quarantine_path(location, entry_id)}/{MANIFEST}", durable=False)


def take(
    storage: Storage,
    location: str,
    entry_id: int,
    names: Iterable[str],
    expected: Mapping[str, str | None],
    still: Callable[[], None] | None = None,
) -> tuple[str, ...]:
    """Moves directories (or original files) into the entry's existing quarantine, each by one rename.

    Args:
        names: relative to ``location``. Missing names are skipped.
        expected: the identity of each when the decision was made. Anything else is left alone, or put back (PROTOCOL
            11.8).
        still: see ``rename_same``.

    Returns:
        The names that were moved.

    Raises:
        Disagreement: something else has one of the names now.
        StorageError: a name cannot be moved, or the quarantine itself is gone with its table.
    """
    place = quarantine_path(location, entry_id)
    taken: list[str] = []
    for name in names:
        source, target = f"{location}/{name}", f"{place}/{name}"
        if not storage.exists(source):
            continue
        _make_parent(storage, place, name)
        if rename_same(storage, source, target, expected.get(name), still):
            taken.append(name)
            reach(Step.QUARANTINED)
    return tuple(taken)


def _make_parent(storage: Storage, place: str, name: str) -> None:
    """Creates the subdirectory of an original file, but never ``place`` itself."""
    parent = name.rpartition("/")[0]
    if parent:
        storage.make_directories(f"{place}/{parent}", like=place)


def put_back(
    storage: Storage, location: str, entry_id: int, names: Iterable[str], still: Callable[[], None] | None = None
) -> None:
    """Moves ``names`` out of the entry's quarantine to their final names, which become durable together.

    Args:
        still: raises if they must no longer be moved; see ``rename_same``.

    Raises:
        StorageError: one cannot be moved, or its name is not durable. The others may be back.
    """
    place = quarantine_path(location, entry_id)
    moved: list[str] = []
    for name in names:
        parent = name.rpartition("/")[0]
        if parent:
            storage.make_directories(f"{location}/{parent}", like=location)
        source = f"{place}/{name}"
        if not rename_same(storage, source, f"{location}/{name}", storage.identity(source), still):
            raise StorageError(f"{source}: is gone from the quarantine, which was erased meanwhile")
        moved.append(f"{location}/{name}")
        reach(CommandStep.PUT_BACK)
    for error in storage.sync_names(moved).values():
        raise error


def listing(storage: Storage, location: str, entry_id: int) -> Listing:
    """Lists the entry's quarantine, under the final names of its content; empty if it does not exist."""
    return _list_if_exists(storage, quarantine_path(location, entry_id))


def _list_if_exists(storage: Storage, place: str) -> Listing:
    try:
        return storage.listing(place)
    except BadFile as error:
        if storage.exists(place):
            raise StorageError(
                f"{place}: exists and cannot be listed; check its disk or mount, then try again"
            ) from error
        return Listing()


def write_record(storage: Storage, location: str, record: Record) -> None:
    """Writes the record of a quarantine durably, in place of an earlier one."""
    place = quarantine_path(location, record.entry_id)
    path, unfinished = f"{place}/{RECORD}", f"{place}/{_UNFINISHED}"
    storage.remove(unfinished, durable=False)
    storage.write(unfinished, record.to_bytes())
    for error in storage.sync([unfinished]).values():
        raise error
    storage.remove(path)
    storage.rename(unfinished, path)
    reach(Step.QUARANTINE_RECORDED)


def read_record(storage: Storage, location: str, entry_id: int) -> Record | None:
    """Returns the record of the entry's quarantine; None if it does not exist.

    Raises:
        BadFile: the file is not a record.
    """
    path = f"{quarantine_path(location, entry_id)}/{RECORD}"
    if not storage.exists(path):
        return None
    if (length := storage.length(path)) > MOST_BYTES:
        raise BadFile(
            f"{path}: has {length} bytes, no record has more than {MOST_BYTES}; find out who wrote it, remove it"
        )
    return Record.parse(storage.read_range(path, 0, length), path)  # never more than was checked


def erase(storage: Storage, location: str, entry_id: int) -> None:
    """Erases the entry's quarantine: renames it, and empties it under its other name (PROTOCOL 7.3).

    Raises:
        Disagreement: another directory has the name now.
    """
    place = quarantine_path(location, entry_id)
    doomed = f"{location}/{Quarantine(entry_id=entry_id, is_erased=True).name}"
    storage.remove(doomed)  # from an earlier removal that died half-way
    if not storage.exists(place):
        return
    if not rename_same(storage, place, doomed, storage.identity(place)):
        return
    reach(Step.QUARANTINE_GIVEN_UP)
    storage.remove(doomed)
