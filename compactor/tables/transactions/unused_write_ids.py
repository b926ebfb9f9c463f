"""Write IDs of which a directory must not know anything before their transaction writes there (PROTOCOL 11.12)."""

from __future__ import annotations

from compactor.compaction.forgetting_aborts import reaching
from compactor.errors import StorageError
from compactor.ids import WriteId
from compactor.metastore.catalog.values import Table
from compactor.service.site import Site, claims_of


class UnusedWriteIds:
    """Locations in which nothing had the write IDs of one transaction, or of several that were opened together.

    Args:
        last: the last write ID of several; None for that of each check alone.
    """

    def __init__(self, site: Site, last: WriteId | None = None) -> None:
        self._storage, self._last = site.storage, last
        self._claims = claims_of(site)
        self._entered: set[str] = set()

    def check(self, what: str, table: Table, location: str, write_id: WriteId) -> None:
        """Looks for ``write_id`` and those after it at ``location``, a directory of ``table``, once; also whether another
        table claims it (PROTOCOL 11.13). Nothing below the directories there is listed.

        Raises:
            StorageError: a directory there holds one of them, or hides it.
            BadFile: there is no such location.
            Disagreement: another table claims it.
        """
        if location in self._entered:
            return
        # of nothing only a listing says whether the location is there
        names = self._storage.children(location) or self._storage.listing(location).directories
        self._claims.must_be_free_by_names(table, location, names)
        name = reaching(names, write_id, self._last)
        if name is not None:
            raise StorageError(
                f"{what}: the metastore allocated write ID {write_id}, and {name} reaches it already; its database is older "
                "than the table's files (restored from a backup?); nothing was written, compare both before anybody writes "
                "again"
            )
        self._entered.add(location)
