"""Renames a directory only if it is still the one that was checked, whatever its name (PROTOCOL 11.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from compactor.base.errors import CompactorError, Disagreement, StorageError
from compactor.storage.protocol import Storage


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
