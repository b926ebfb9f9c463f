"""Removes directories for a cleaner so that each vanishes in one step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from compactor.base.errors import CompactorError, failing_alone
from compactor.base.ids import TxnId
from compactor.base.steps import Step, reach
from compactor.rewrite.publish import removal
from compactor.rewrite.publish.removal import identities
from compactor.site.exclusive import while_removing
from compactor.site.files_and_metastore import must_be_the_same_table
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site, Target
from compactor.site.threads import SideBySide
from compactor.storage.protocol import Storage


def remove_directories(
    site: Site,
    target: Target,
    names: Collection[str],
    threads: SideBySide,
    must_still_be_removable: Callable[[], None] | None = None,
) -> None:
    """Hides all of ``names``, then removes them.

    Only the directories that are there now are removed, and only while the table is the same (PROTOCOL 11.8).

    Args:
        must_still_be_removable: raises if ``names`` must not be removed any longer; called once nobody can use them.

    Raises:
        LockNotGranted: the store has no rename, and the table is in use.
        Disagreement: the table or one of the directories was replaced meanwhile; or the metastore's database is an older
            copy.
    """
    reach(Step.CLEANING)
    if not names:
        return
    expected = identities(site.storage, target.location, names)
    must_be_the_same_table(site, target)  # so the identities belong to its directories
    must_be_newest(site, polling=True)  # a pass may have been suspended since it looked
    with while_removing(site, target):
        if must_still_be_removable is not None:
            must_still_be_removable()
        hidden = removal.hide(site.storage, target.location, names, TxnId(0), expected)
        for error in remove_all(site.storage, [[f"{target.location}/{name}" for name in hidden]], threads).values():
            raise error


def remove_all(storage: Storage, locations: Sequence[Sequence[str]], threads: SideBySide) -> dict[str, CompactorError]:
    """Removes hidden directories durably. Returns the error of each directory that cannot be removed.

    Args:
        locations: the paths to remove in each location.
    """

    def remove(paths: Sequence[str]) -> Mapping[str, CompactorError]:
        try:
            with failing_alone(paths[0]):
                return storage.remove_all(paths, durable=False)
        except CompactorError as error:
            return dict.fromkeys(paths, error)

    every = [path for paths in locations for path in paths]
    size = max(1, -(-len(every) // threads.count))  # so that each thread has something to remove
    parts = [paths[start : start + size] for paths in locations for start in range(0, len(paths), size)]
    failed = {path: error for errors in threads.map(remove, parts) for path, error in errors.items()}
    return failed | dict(storage.sync_names([path for path in every if path not in failed]))
