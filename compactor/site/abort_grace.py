"""The time for which aborted writes are left as they are, counted from when *we* first saw them aborted (PROTOCOL 11.7).

TXNS has no time of abort. It may call an INSERT aborted that had committed: a backup that was taken while it was open has
been restored, and timed it out. Until the time is over, a person can put the newer database back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cached_property

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.forgetting_aborts import holding, past_grace
from compactor.site.site import Site


class AbortGrace:
    """The aborted transactions of one pass, read once, when one of them first matters.

    Without a state of our own nothing is remembered, and the time is never over.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    @classmethod
    def recorded(cls, site: Site) -> AbortGrace:
        """Stores the transactions that are seen aborted for the first time, and returns what holds for all."""
        grace = cls(site)
        if site.state is not None:
            aborted, now = site.metastore.transactions.aborted(), site.metastore.now_ms()
            grace._over = past_grace(site.state.aborts.first(site.name, aborted, now), now, site.settings)
        return grace

    def is_over(self, txn: TxnId) -> bool:
        """Returns true if what ``txn`` wrote may be removed, and ``txn`` be forgotten."""
        return txn in self._over

    def held(self, database: str, table: str, names: Iterable[str], aborted: Collection[WriteId]) -> frozenset[str]:
        """Returns those directories of a table that must stay: they may hold a write whose time is not over yet.

        Args:
            aborted: write IDs of the table that are aborted by now; this pass may not have seen all of them before.
        """
        over = self._write_ids[database, table]
        return holding(names, set(aborted) - over)

    @cached_property
    def _over(self) -> frozenset[TxnId]:
        site = self._site
        if site.state is None:
            return frozenset()
        seen = site.state.aborts.known(site.name, site.metastore.transactions.aborted())
        return past_grace(seen, site.metastore.now_ms(), site.settings)

    @cached_property
    def _write_ids(self) -> defaultdict[tuple[str, str], set[WriteId]]:
        """The write IDs of each table whose time is over."""
        found: defaultdict[tuple[str, str], set[WriteId]] = defaultdict(set)
        for txn, database, table, write_id in self._site.metastore.write_ids.of_aborted():
            if self.is_over(txn):
                found[database, table].add(write_id)
        return found
