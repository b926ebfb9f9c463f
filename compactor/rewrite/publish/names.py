"""Naming, hiding and sweeping directories. Knows storage only; the caller holds the database transaction around it.

What has a final name is complete and right: readers without visibility (Trino) look at it whether its transaction is
committed or not. So a directory gets its final name by one rename, loses it by one rename, and is emptied only under a
hidden name (PROTOCOL 5, 7.3).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from compactor.acid.names import Hidden, parse_directory, parse_hidden, parse_staging
from compactor.errors import BadName, StorageError
from compactor.ids import TxnId
from compactor.rewrite.publish.stage import Staged, StagedDirectory
from compactor.steps import Step, reach
from compactor.storage.protocol import Storage

log = logging.getLogger(__name__)


def name(storage: Storage, staged: Staged) -> None:
    """Gives every staged directory its final name, durably.

    Raises:
        StorageError: a final name is taken by something else; what was named before stays and the caller hides it.
    """
    for index, directory in enumerate(staged.directories):
        target = f"{staged.location}/{directory.name}"
        if directory.uploads:
            _complete(storage, target, directory)
        elif not storage.exists(directory.staged):
            _must_match(storage, target, directory)  # named already, before an answer was lost
            for error in storage.sync_names([target]).values():
                raise error
        else:
            storage.rename(directory.staged, target)
        if index == 0:
            reach(Step.NAMED_FIRST)
    reach(Step.NAMED)


def together(storage: Storage, staged: Sequence[Staged]) -> bool:
    """Whether ``name_all`` takes these: each is one directory, which gets its name by a rename."""
    return all(
        len(one.directories) == 1 and not one.directories[0].uploads and storage.capabilities(one.location).renames
        for one in staged
    )


def name_all(storage: Storage, staged: Sequence[Staged]) -> Mapping[str, StorageError]:
    """``name`` of several, whose names become durable together.

    Returns:
        by location, whose name could not be made durable: it must not be committed, whatever ``name`` would say of it.

    Raises:
        StorageError: one cannot be renamed; what was named before stays, ``name`` goes on with it or the caller hides it.
    """
    targets: list[str] = []
    for one in staged:
        (directory,) = one.directories
        targets.append(f"{one.location}/{directory.name}")
        storage.rename(directory.staged, targets[-1], durable=False)
        reach(Step.NAMED_FIRST)
    failed = storage.sync_names(targets)
    if not failed:
        for _ in staged:
            reach(Step.NAMED)
    return {os.path.dirname(target): error for target, error in failed.items()}


def _complete(storage: Storage, target: str, directory: StagedDirectory) -> None:
    deferring = storage.deferring(target)
    assert deferring is not None
    deferring.complete(directory.staged, target, directory.uploads)


def _must_match(storage: Storage, target: str, directory: StagedDirectory) -> None:
    lengths = {f.path: f.length for f in storage.listing(target).files}
    if any(lengths.get(f.name) != f.length for f in directory.files):
        raise StorageError(
            f"{target}: is there and not what {directory.staged} held; nothing is moved over it; find out who wrote it"
        )


def hide(storage: Storage, location: str, names: Iterable[str], until: TxnId) -> tuple[str, ...]:
    """Takes directories (or files) out of every reader's sight, each by one rename.

    Where the store has no rename they are removed instead, and the caller holds the table alone: hiding would copy every
    byte, and show no less of a half (PROTOCOL 7.2).

    Args:
        names: relative to ``location``; those that are gone already are passed over.
        until: they may be removed once every transaction up to this one has ended.

    Returns:
        the hidden names.
    """
    hidden: list[str] = []
    for final in names:
        source = f"{location}/{final}"
        if not storage.exists(source):
            continue
        if not storage.capabilities(source).renames:
            storage.remove(source)
            reach(Step.HIDDEN)
            continue
        relative = Hidden(final_name=final.replace("/", "__"), until=until).name
        if storage.exists(f"{location}/{relative}"):
            storage.remove(f"{location}/{relative}")  # an earlier removal of the same name that died half-way
        try:
            storage.rename(source, f"{location}/{relative}")
        except StorageError:
            if storage.exists(source):
                raise
            continue  # another cleaner took it away just now
        hidden.append(relative)
        reach(Step.HIDDEN)
    return tuple(hidden)


def named_by(storage: Storage, location: str, txn: TxnId) -> tuple[str, ...]:
    """Final names in ``location`` whose visibility transaction is ``txn``."""
    found: list[str] = []
    for child in storage.children(location):
        try:
            acid = parse_directory(child)
        except BadName:
            continue
        if acid is not None and acid.visibility_txn_id == txn:
            found.append(child)
    return tuple(found)


def sweep(
    storage: Storage,
    location: str,
    *,
    is_alive: Callable[[TxnId], bool],
    lowest_open: TxnId,
) -> tuple[str, ...]:
    """Removes what dead compactions left in ``location``: their staging directories, and hidden directories whose time
    has come.

    Args:
        is_alive: whether a transaction is still open; its staging directory is its own affair.
        lowest_open: the cleaner's gate; a directory hidden at transaction ``n`` goes when ``n < lowest_open``.

    Returns:
        the names that were removed.
    """
    removed: list[str] = []
    for child in storage.children(location):
        owner, hidden = parse_staging(child), parse_hidden(child)
        if (owner is not None and not is_alive(owner)) or (hidden is not None and hidden.until < lowest_open):
            storage.remove(f"{location}/{child}")
            removed.append(child)
    if removed:
        log.info("%s: removed %s", location, ", ".join(removed))
    return tuple(removed)


def abandon_uploads(storage: Storage, location: str, is_gone: Callable[[TxnId], bool]) -> None:
    """Aborts uploads that only a compaction which ``is_gone`` could complete. Its transaction stands in their keys."""
    deferring = storage.deferring(location)
    if deferring is not None:
        deferring.abandon(location, is_gone)
