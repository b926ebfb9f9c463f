"""Checks that a directory knows nothing of a write ID before its transaction writes there (PROTOCOL 11.12)."""

from __future__ import annotations

from collections.abc import Collection

from compactor.base.errors import StorageError
from compactor.base.ids import WriteId
from compactor.compaction.forgetting_aborts import find_reaching_directory
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, claims_of


class UnusedWriteIds:
    """Locations that were checked for the write IDs of a transaction, or of several that were opened together."""

    def __init__(self, site: Site) -> None:
        self._storage = site.storage
        self._claims = claims_of(site)
        self._names: dict[str, Collection[str]] = {}

    def look(self, table: Table, location: str) -> None:
        """Lists ``location``, a directory of ``table``, once, before a write ID is allocated.

        Also checks that no other table claims it (PROTOCOL 11.13). Subdirectories are not listed.

        Raises:
            BadFile: the location does not exist.
            Disagreement: another table claims it.
        """
        if location not in self._names:
            # if there are no children, only a listing shows whether the location exists
            names = self._storage.children(location) or self._storage.listing(location).directories
            self._claims.must_be_free_in_and_around(table, location, names)
            self._names[location] = names

    def check(self, what: str, table: Table, location: str, write_id: WriteId, last: WriteId | None = None) -> None:
        """Checks that nothing at ``location`` had ``write_id`` (or a write ID up to ``last``) when it was first listed.

        Raises:
            StorageError: a directory there holds one of them, or hides it.
            BadFile, Disagreement: as for ``look``.
        """
        self.look(table, location)
        name = find_reaching_directory(self._names[location], write_id, last)
        if name is not None:
            raise StorageError(
                f"{what}: the metastore allocated write ID {write_id}, but {name} reaches it already; its database is older "
                "than the table's files (restored from a backup?); nothing was written, compare both before anybody writes "
                "again"
            )
