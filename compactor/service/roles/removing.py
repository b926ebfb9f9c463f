"""The removal of directories by a cleaner, each of which vanishes in one step."""

from __future__ import annotations

from collections.abc import Collection

from compactor.ids import TxnId
from compactor.rewrite.publish import removal
from compactor.service.agreement import must_be_the_same_table
from compactor.service.exclusive import while_removing
from compactor.service.site import Site, Target
from compactor.steps import Step, reach


def remove_directories(site: Site, target: Target, names: Collection[str]) -> int:
    """Hides, then removes, each of ``names``, and returns the bytes that were freed.

    Bound to the directories that are there now, and to the table that they belong to (PROTOCOL 11.8).

    Raises:
        LockNotGranted: the store has no rename, and the table is in use.
        Disagreement: the table, or one of the directories, is another one by now.
    """
    reach(Step.CLEANING)
    sizes = {f.path: f.length for f in site.storage.listing(target.location).files}
    freed = sum(size for path, size in sizes.items() if path in names or path.partition("/")[0] in names)
    if not names:
        return 0
    expected = removal.identities(site.storage, target.location, names)
    must_be_the_same_table(site, target)  # so all of these are its directories
    with while_removing(site, target):
        for name in names:
            for hidden in removal.hide(site.storage, target.location, [name], TxnId(0), expected):
                site.storage.remove(f"{target.location}/{hidden}")
    return freed
