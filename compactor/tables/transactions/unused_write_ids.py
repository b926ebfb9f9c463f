"""Write IDs of which a directory must not know anything before their transaction writes there (PROTOCOL 11.12)."""

from __future__ import annotations

from compactor.compaction.forgetting_aborts import reaching
from compactor.errors import StorageError
from compactor.ids import WriteId
from compactor.storage.protocol import Storage


class UnusedWriteIds:
    """Locations in which nothing had the write IDs of one transaction, or of several that were opened together.

    Args:
        last: the last write ID of several; None for that of each check alone.
    """

    def __init__(self, storage: Storage, last: WriteId | None = None) -> None:
        self._storage, self._last = storage, last
        self._entered: set[str] = set()

    def check(self, what: str, location: str, write_id: WriteId) -> None:
        """Looks for ``write_id`` and those after it at ``location``, once. Nothing below the directories there is listed.

        Raises:
            StorageError: a directory there holds one of them, or hides it.
            BadFile: there is no such location.
        """
        if location in self._entered:
            return
        # of nothing only a listing says whether the location is there
        names = self._storage.children(location) or self._storage.listing(location).directories
        name = reaching(names, write_id, self._last)
        if name is not None:
            raise StorageError(
                f"{what}: the metastore allocated write ID {write_id}, and {name} reaches it already; its database is older "
                "than the table's files (restored from a backup?); nothing was written, compare both before anybody writes "
                "again"
            )
        self._entered.add(location)
