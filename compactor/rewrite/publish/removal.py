"""Takes named directories out of readers' sight, and removes what dead compactions left behind.

A directory loses its final name by one rename and is emptied only under a hidden name, since readers without visibility
(Trino) would otherwise see it half empty (PROTOCOL 5, 7.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from compactor.acid.names import Hidden, parse_hidden, parse_staging
from compactor.ids import TxnId
from compactor.rewrite.publish.same_directory import must_be_same, rename_same
from compactor.steps import Step, reach
from compactor.storage.protocol import Storage

log = logging.getLogger(__name__)


def hide(
    storage: Storage,
    location: str,
    names: Iterable[str],
    until: TxnId,
    expected: Mapping[str, str | None] | None = None,
) -> tuple[str, ...]:
    """Takes directories (or files) out of every reader's sight, each by one rename, durable for all of them at the end.

    Args:
        names: relative to ``location``; names that are already gone are skipped.
        until: they may be removed once every transaction up to this one has ended.
        expected: see ``Hiding.hide``.

    Returns:
        The hidden names.

    Raises:
        Disagreement: something else has one of the names now.
        StorageError: one cannot be renamed, or the new names cannot be made durable.
    """
    hiding = Hiding(storage, location)
    hiding.hide(names, until, expected)
    for error in storage.sync_names(hiding.paths).values():
        raise error
    return tuple(hiding.hidden.values())


class Hiding:
    """Directories (or files) of one location that are taken out of every reader's sight together: ``hidden`` has the hidden
    name of each by its final one. Their new names are not durable yet."""

    def __init__(self, storage: Storage, location: str) -> None:
        self.hidden: dict[str, str] = {}
        self._storage = storage
        self._location = location

    @property
    def paths(self) -> list[str]:
        """The paths of what is hidden."""
        return [f"{self._location}/{relative}" for relative in self.hidden.values()]

    def hide(self, names: Iterable[str], until: TxnId, expected: Mapping[str, str | None] | None = None) -> None:
        """Renames each of ``names``; an error leaves those before it hidden.

        Where the store has no rename they are removed instead, and the caller holds an exclusive lock on the table: hiding
        would copy every byte, and readers would still see halves (PROTOCOL 7.2).

        Args:
            names: relative to the location; names that are already gone are skipped.
            until: they may be removed once every transaction up to this one has ended.
            expected: what each was when the decision to hide it was made. Another one, of a table that was created there
                since, is left alone, or put back if it was created in the same moment (PROTOCOL 11.8).

        Raises:
            Disagreement: something else has one of the names now.
            StorageError: one cannot be renamed.
        """
        for final in names:
            relative = self._hide_one(final, until, expected)
            if relative is not None:
                self.hidden[final] = relative
                reach(Step.HIDDEN)

    def put_back(self) -> None:
        """Gives everything its final name back, durably.

        Raises:
            StorageError: one cannot be renamed.
        """
        for final, relative in self.hidden.items():
            self._storage.rename(f"{self._location}/{relative}", f"{self._location}/{final}")
        self.hidden.clear()

    def _hide_one(self, final: str, until: TxnId, expected: Mapping[str, str | None] | None) -> str | None:
        """Hides ``final`` and returns its hidden name; None if it was gone, or had to be removed instead."""
        storage, source = self._storage, f"{self._location}/{final}"
        if not storage.exists(source):
            return None
        identity = storage.identity(source) if expected is None else expected.get(final)
        if not storage.capabilities(source).renames:
            must_be_same(storage, source, identity)
            storage.remove(source)
            reach(Step.HIDDEN)
            return None
        relative = Hidden(final_name=final.replace("/", "__"), until=until).name
        target = f"{self._location}/{relative}"
        if storage.exists(target):
            storage.remove(target)  # left by an earlier removal of the same name that died half-way
        return relative if rename_same(storage, source, target, identity, durable=False) else None


def remove_leftovers(
    storage: Storage,
    location: str,
    *,
    is_alive: Callable[[TxnId], bool],
    lowest_open: TxnId,
) -> tuple[str, ...]:
    """Removes the leftovers of dead compactions in ``location``: their staging directories, and hidden directories that no
    reader can need any longer.

    Args:
        is_alive: returns true for a transaction that is still open, which keeps its staging directory.
        lowest_open: the cleaner's gate; a directory hidden at transaction ``n`` goes when ``n < lowest_open``.

    Returns:
        The names that were removed.
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


def remove_staging(storage: Storage, location: str, txn: TxnId) -> None:
    """Removes the staging directories of the compaction of transaction ``txn``."""
    for child in storage.children(location):
        if parse_staging(child) == txn:
            storage.remove(f"{location}/{child}")


def abort_uploads(storage: Storage, location: str, is_gone: Callable[[TxnId], bool]) -> None:
    """Aborts uploads that only a compaction for which ``is_gone`` returns true could complete. Their keys contain its
    transaction."""
    deferring = storage.deferring(location)
    if deferring is not None:
        deferring.abandon(location, is_gone)
