"""Renames that are bound to the directory that was looked at, not to its name (PROTOCOL 11.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from compactor.base.errors import CompactorError, Disagreement, StorageError
from compactor.storage.protocol import Storage


def identities(storage: Storage, location: str, names: Iterable[str]) -> dict[str, str | None]:
    """Returns the identity of each of ``names`` in ``location``, None where there is none; see ``Storage.identity``."""
    return storage.identities(location, list(names))


def must_be_same(storage: Storage, path: str, identity: str | None) -> None:
    """Checks that ``path`` is the directory (or file) of ``identity``, or gone.

    Raises:
        Disagreement: something else has the name now.
    """
    if storage.identity(path) not in (identity, None):
        raise another(path)


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

    What was created there in the same moment is put back. Unless it is ``durable``, the caller makes the new name so.

    Args:
        still: raises once the reason for the rename is gone: the same directory may have become needed again, by an undo
            (PROTOCOL 11.8.3). It is called before the rename and after it, and what was renamed in between is put back.

    Returns:
        False if it is gone: another process has just taken it away.

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
        raise another(source)
    if still is not None:
        try:
            still()
        except CompactorError:
            storage.rename(target, source)
            raise
    return True


def another(source: str) -> Disagreement:
    """Returns the error for something else that has the name ``source`` by now."""
    return Disagreement(
        f"{source}: was created since it was decided to take away what had this name; the table was probably dropped and "
        "created again meanwhile, so nothing is taken away there; the next pass looks again"
    )
