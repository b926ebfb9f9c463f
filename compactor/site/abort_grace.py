"""The grace time of aborted writes, counted from when *we* first saw them aborted (PROTOCOL 11.7).

TXNS does not record when a transaction aborted. It may show a committed INSERT as aborted: after the restore of a
backup from while the INSERT was open, its transaction times out. During the grace time, a person can put the newer database
back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cached_property

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.forgetting_aborts import filter_holding, filter_past_grace
from compactor.site.site import Site


class AbortGrace:
    """The aborted transactions of one pass, read once when first needed.

    Without a state of our own nothing is remembered, and the grace time never ends.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    @classmethod
    def recorded(cls, site: Site) -> AbortGrace:
        """Stores transactions that are seen aborted for the first time, and returns the grace times of all."""
        grace = cls(site)
        if site.state is not None:
            aborted, now = site.metastore.transactions.aborted(), site.metastore.now_ms()
            grace._over = filter_past_grace(
                site.state.sightings.record_aborts(site.name, aborted, now), now, site.settings
            )
        return grace

    def is_over(self, txn: TxnId) -> bool:
        """Returns true if the writes of ``txn`` may be removed, and ``txn`` may be forgotten."""
        return txn in self._over

    def names_in_grace(
        self, database: str, table: str, names: Iterable[str], aborted: Collection[WriteId]
    ) -> frozenset[str]:
        """Returns the directories of a table that may hold a write within its grace time, and must stay.

        Args:
            aborted: the aborted write IDs of the table, of which this pass may not have seen all.
        """
        over = self._write_ids[database, table]
        return filter_holding(names, set(aborted) - over)

    @cached_property
    def _over(self) -> frozenset[TxnId]:
        site = self._site
        if site.state is None:
            return frozenset()
        seen = site.state.sightings.aborts(site.name, site.metastore.transactions.aborted())
        return filter_past_grace(seen, site.metastore.now_ms(), site.settings)

    @cached_property
    def _write_ids(self) -> defaultdict[tuple[str, str], set[WriteId]]:
        """The write IDs of each table whose grace time is over."""
        write_ids: defaultdict[tuple[str, str], set[WriteId]] = defaultdict(set)
        for txn, database, table, write_id in self._site.metastore.write_ids.allocated_to_aborted():
            if self.is_over(txn):
                write_ids[database, table].add(write_id)
        return write_ids
