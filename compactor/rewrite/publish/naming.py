"""Gives staged directories their final names.

Knows only storage; the caller holds the database transaction around it.

A directory with a final name is complete and right, because readers without visibility (Trino) read it before its
transaction commits. So one rename gives it its final name, and one rename takes the name away. It is emptied only under a
hidden name (PROTOCOL 5, 7.3; ``removal`` does the latter two).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from compactor.acid.names import known_directory
from compactor.base.errors import StorageError
from compactor.base.ids import TxnId
from compactor.base.steps import Step, reach
from compactor.rewrite.publish.stage import Staged, StagedDirectory
from compactor.storage.protocol import Storage

AtOnce: TypeAlias = Callable[[Callable[[Staged], str], Sequence[Staged]], Iterable[str]]


def name_directories(storage: Storage, staged: Staged) -> None:
    """Gives every staged directory its final name, durably.

    Raises:
        StorageError: something else has a final name, or a named directory differs from the staged one. Directories named
            so far stay, and the caller hides them.
    """
    for index, directory in enumerate(staged.directories):
        target = f"{staged.location}/{directory.name}"
        if directory.uploads:
            _complete(storage, target, directory)
        elif not storage.exists(directory.staged):
            _must_match(storage, target, directory)  # an earlier attempt named it, and its answer was lost
            for error in storage.sync_names([target]).values():
                raise error
        else:
            _must_match(storage, directory.staged, directory)
            storage.rename(directory.staged, target)
        if not storage.capabilities(staged.location).renames:
            _must_match(storage, target, directory)  # it was copied file by file
        if index == 0:
            reach(Step.NAMED_FIRST)
    reach(Step.NAMED)


def can_name_together(storage: Storage, staged: Sequence[Staged]) -> bool:
    """Returns true if ``name_together`` can name these outputs: each is one directory, named by a rename."""
    return all(
        len(output.directories) == 1
        and not output.directories[0].uploads
        and storage.capabilities(output.location).renames
        for output in staged
    )


def name_together(storage: Storage, staged: Sequence[Staged], at_once: AtOnce = map) -> Mapping[str, StorageError]:
    """Gives several directories their final names, which become durable together.

    Args:
        at_once: applies a function to several values like ``map``, perhaps side by side.

    Returns:
        The locations whose name could not be made durable, each with the error. These must not be committed, even if
        ``name_directories`` succeeds later.

    Raises:
        StorageError: a directory cannot be renamed, or is not the staged one. Directories named so far stay named until
            ``name_directories`` continues with them or the caller hides them.
    """

    def name(output: Staged) -> str:
        (directory,) = output.directories
        target = f"{output.location}/{directory.name}"
        _must_match(storage, directory.staged, directory)
        storage.rename(directory.staged, target, durable=False)
        reach(Step.NAMED_FIRST)
        return target

    targets = list(at_once(name, staged))
    failed = storage.sync_names(targets)
    if not failed:
        for _ in staged:
            reach(Step.NAMED)
    return {os.path.dirname(target): error for target, error in failed.items()}


def _complete(storage: Storage, target: str, directory: StagedDirectory) -> None:
    deferring = storage.deferring(target)
    assert deferring is not None
    deferring.complete(directory.staged, target, directory.uploads)


def _must_match(storage: Storage, path: str, directory: StagedDirectory) -> None:
    """Checks that the directory at ``path`` still has the names and lengths that were staged."""
    lengths = storage.listing(path).lengths
    for file in directory.files:
        if (length := lengths.get(file.name)) != file.length:
            raise StorageError(
                f"{path}: is not what was staged as {directory.staged}: {file.name} "
                f"{'is not there' if length is None else f'has {length} bytes'}, {file.length} bytes were written; it is "
                "not committed, and nothing is moved over it; find out who wrote or removed it"
            )


def names_of(storage: Storage, location: str, txn: TxnId) -> tuple[str, ...]:
    """Returns the final names in ``location`` whose visibility transaction is ``txn``."""
    named = ((child, known_directory(child)) for child in storage.children(location))
    return tuple(child for child, acid in named if acid is not None and acid.visibility_txn_id == txn)
