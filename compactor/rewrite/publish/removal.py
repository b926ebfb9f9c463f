"""Hides named directories from readers, and removes the leftovers of dead compactions.

One rename takes the final name away, and a directory is emptied only under a hidden name. Otherwise readers without
visibility (Trino) would see it half empty (PROTOCOL 5, 7.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from compactor.acid.names import Hidden, parse_hidden, parse_staging
from compactor.base.errors import CompactorError, Disagreement, StorageError
from compactor.base.ids import TxnId
from compactor.base.steps import Step, reach
from compactor.storage.protocol import Storage

log = logging.getLogger(__name__)


def hide(
    storage: Storage,
    location: str,
    names: Iterable[str],
    until: TxnId,
    expected: Mapping[str, str | None] | None = None,
) -> tuple[str, ...]:
    """Hides directories (or files) from every reader, each by one rename. All are durable at the end.

    Args:
        names: relative to ``location``. Missing names are skipped.
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
    """Hides directories (or files) of one location from every reader.

    ``hidden`` maps each final name to its hidden name. The new names are not durable yet.
    """

    def __init__(self, storage: Storage, location: str) -> None:
        self.hidden: dict[str, str] = {}
        self._storage = storage
        self._location = location

    @property
    def paths(self) -> list[str]:
        """The paths of the hidden directories."""
        return [f"{self._location}/{relative}" for relative in self.hidden.values()]

    def hide(self, names: Iterable[str], until: TxnId, expected: Mapping[str, str | None] | None = None) -> None:
        """Renames each of ``names``. After an error, the names before it stay hidden.

        A store without renames removes them instead, and the caller holds an exclusive lock on the table. Hiding would
        copy every byte there, and readers would still see halves (PROTOCOL 7.2).

        Args:
            names: relative to the location. Missing names are skipped.
            until: they may be removed once every transaction up to this one has ended.
            expected: the identity of each when the decision to hide it was made. A directory of a table that was created
                since is left alone, or put back if it was created in the same moment (PROTOCOL 11.8).

        Raises:
            Disagreement: something else has one of the names now.
            StorageError: one cannot be renamed.
        """
        every = list(names)
        identities = self._storage.identities(self._location, every)
        expected = identities if expected is None else expected
        existing = [name for name in every if self._is_expected(name, identities[name], expected.get(name))]
        if not self._storage.capabilities(self._location).renames:
            self._remove(existing)
            return
        waiting = {final: Hidden(final_name=final.replace("/", "__"), until=until).name for final in existing}
        try:
            while waiting:
                self._rename_each(waiting)
        finally:
            self._put_back_others(expected)

    def _rename_each(self, waiting: dict[str, str]) -> None:
        """Renames directories to their hidden names until one fails; takes them out of ``waiting``."""
        try:
            for final in self._storage.rename_each(self._location, dict(waiting)):
                self.hidden[final] = waiting.pop(final)
                reach(Step.HIDDEN)
        except StorageError as error:
            final = next(iter(waiting))
            relative = waiting.pop(final)
            if self._rename_over(final, relative, error):
                self.hidden[final] = relative
                reach(Step.HIDDEN)

    def _is_expected(self, name: str, identity: str | None, expected: str | None) -> bool:
        if identity is None:  # gone, unless this store knows no identities
            return expected is None and self._storage.exists(f"{self._location}/{name}")
        if identity != expected:
            raise replaced_meanwhile(f"{self._location}/{name}")
        return True

    def _remove(self, names: Sequence[str]) -> None:
        for error in self._storage.remove_all([f"{self._location}/{name}" for name in names]).values():
            raise error
        for _ in names:
            reach(Step.HIDDEN)

    def _rename_over(self, final: str, relative: str, error: StorageError) -> bool:
        """Renames a directory whose rename has failed with ``error``, if something has its hidden name.

        Returns:
            False if it is gone, because another process has just taken it away.
        """
        storage, source, target = self._storage, f"{self._location}/{final}", f"{self._location}/{relative}"
        if not storage.exists(source):
            return False
        if not storage.exists(target):
            raise error
        storage.remove(target)  # from an earlier removal of the same name that died half-way
        storage.rename(source, target, durable=False)
        return True

    def _put_back_others(self, expected: Mapping[str, str | None]) -> None:
        """Puts back directories that somebody created between the check of a name and its rename.

        Raises:
            Disagreement: there was such a directory.
        """
        identities = self._storage.identities(self._location, list(self.hidden.values())) if self.hidden else {}
        others = [final for final, relative in self.hidden.items() if identities[relative] != expected.get(final)]
        self._give_back(others)
        for final in others:
            raise replaced_meanwhile(f"{self._location}/{final}")

    def put_back(self) -> None:
        """Gives all hidden directories their final names back, durably.

        Raises:
            StorageError: one cannot be renamed.
        """
        self._give_back(list(self.hidden))

    def _give_back(self, finals: Sequence[str]) -> None:
        """Gives directories their final names back. Skips those that are gone."""
        for final in finals:
            source = f"{self._location}/{self.hidden.pop(final)}"
            try:
                self._storage.rename(source, f"{self._location}/{final}")
            except StorageError:
                if self._storage.exists(source):
                    raise


def remove_leftovers(
    storage: Storage,
    location: str,
    *,
    is_alive: Callable[[TxnId], bool],
    lowest_open: TxnId,
) -> tuple[str, ...]:
    """Removes staging directories of dead compactions, and hidden directories that readers no longer need.

    Args:
        is_alive: returns true for an open transaction, which keeps its staging directory.
        lowest_open: the lowest open transaction. A directory hidden until transaction ``n`` goes if ``n < lowest_open``.

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
    """Aborts uploads of compactions whose transaction ``is_gone``. Their keys contain the transaction."""
    deferring = storage.deferring(location)
    if deferring is not None:
        deferring.abandon(location, is_gone)


def identities(storage: Storage, location: str, names: Iterable[str]) -> dict[str, str | None]:
    """Returns the identity of each of ``names`` in ``location``, or None; see ``Storage.identity``."""
    return storage.identities(location, list(names))


def must_be_same(storage: Storage, path: str, identity: str | None) -> None:
    """Checks that ``path`` is gone, or still the directory (or file) of ``identity``.

    Raises:
        Disagreement: something else has the name now.
    """
    if storage.identity(path) not in (identity, None):
        raise replaced_meanwhile(path)


def rename_same(
    storage: Storage,
    source: str,
    target: str,
    identity: str | None,
    still: Callable[[], None] | None = None,
    *,
    durable: bool = True,
) -> bool:
    """Renames the directory (or file) ``source`` if it is still the one of ``identity``.

    A directory that was created there in the same moment is put back. Without ``durable``, the caller makes the new name
    durable.

    Args:
        still: raises if the reason for the rename is gone, such as after an undo (PROTOCOL 11.8.3). It is called before and
            after the rename, which is reversed if it raises.

    Returns:
        False if the directory is gone: another process has just taken it away.

    Raises:
        Disagreement: something else has the name now.
        StorageError: it cannot be renamed.
    """
    must_be_same(storage, source, identity)
    if still is not None:
        still()
    try:
        storage.rename(source, target, durable=durable)
    except StorageError:
        if storage.exists(source):
            raise
        return False
    if storage.identity(target) != identity:
        storage.rename(target, source)
        raise replaced_meanwhile(source)
    if still is not None:
        try:
            still()
        except CompactorError:
            storage.rename(target, source)
            raise
    return True


def replaced_meanwhile(source: str) -> Disagreement:
    """Returns the error for a directory that was replaced after the decision to take it away."""
    return Disagreement(
        f"{source}: was created after the decision to take away what had this name; the table was probably dropped and "
        "created again meanwhile, so nothing is taken away there; the next pass looks again"
    )
