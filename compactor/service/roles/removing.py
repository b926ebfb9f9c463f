"""The removal of directories by a cleaner, each of which vanishes in one step."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache

from compactor.acid.listing import Listing
from compactor.ids import TxnId
from compactor.rewrite.publish import removal
from compactor.rewrite.publish.same_directory import identities
from compactor.service.agreement import must_be_the_same_table
from compactor.service.exclusive import while_removing
from compactor.service.memory import must_be_newest
from compactor.service.site import Site, Target
from compactor.steps import Step, reach
from compactor.storage.protocol import Storage

_AT_ONCE = 8  #: removals under way at once: each waits for a disk or a server most of its time


def remove_directories(
    site: Site, target: Target, listing: Listing, names: Collection[str], still: Callable[[], None] | None = None
) -> int:
    """Hides all of ``names``, then removes them, and returns the bytes of their files in ``listing``.

    Bound to the directories that are there now, and to the table that they belong to (PROTOCOL 11.8).

    Args:
        still: raises once ``names`` are no longer to be removed; see ``removal.hide``.

    Raises:
        LockNotGranted: the store has no rename, and the table is in use.
        Disagreement: the table, or one of the directories, is another one by now; or the metastore's database is an
            older copy.
    """
    reach(Step.CLEANING)
    if not names:
        return 0
    expected = identities(site.storage, target.location, names)
    must_be_the_same_table(site, target)  # so all of these are its directories
    must_be_newest(site, polling=True)  # a pass may have been suspended since it looked
    with while_removing(site, target):
        hidden = removal.hide(site.storage, target.location, names, TxnId(0), expected, still)
        _remove_all(site.storage, [f"{target.location}/{name}" for name in hidden])
    return sum(f.length for f in listing.files if f.path in names or f.path.partition("/")[0] in names)


def _remove_all(storage: Storage, paths: Sequence[str]) -> None:
    """Removes hidden directories, durably.

    Raises:
        StorageError: one cannot be removed; the others are.
    """
    removals = [_threads().submit(storage.remove, path, durable=False) for path in paths]
    wait(removals)
    for done in removals:
        done.result()
    for error in storage.sync_names(paths).values():
        raise error


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    """Returns the threads that remove. They stay, for the next entry."""
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="remove")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a forked process has none of them
