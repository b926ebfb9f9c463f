"""The gate of a group of entries: which transactions have ended for good (PROTOCOL 7.1).

Transactions below ``lowest`` have ended and stay ended. So one gate serves many entries, and may be some seconds old. What
is removed is checked again just before its removal (PROTOCOL 11.8).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import NotFound
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entry
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, Target, Targets

GROUP_SIZE = 128  #: entries that share a gate
_FRESH_S = 10.0  #: age after which a gate is read again: somebody may have forbidden cleaning


class Gate:
    """One instant of the metastore as the cleaning of ``entries`` sees it.

    ``lowest`` is the lowest open transaction, ``txns`` every snapshot from there on, ``now_ms`` the database's clock.
    """

    def __init__(self, site: Site, entries: Sequence[Entry]) -> None:
        self.site = site
        self.entries = entries
        self._read_at = time.monotonic()
        self.lowest = site.lowest_open()
        snapshot = site.metastore.transactions.snapshot()
        watermark = TxnId(self.lowest - 1)
        aborted = frozenset(txn for txn in snapshot.aborted if txn <= watermark)
        self.txns = ValidTxnList(high_watermark=watermark, aborted=aborted)
        self.now_ms = site.metastore.now_ms()
        self._states = site.metastore.commits.txn_states(entries)
        self._targets = Targets(site, [entry.entity for entry in entries])
        self._write_ids: dict[int, ValidWriteIdList] = {}

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self._read_at < _FRESH_S

    def txn_state(self, entry: Entry) -> str | None:
        """Returns TXN_STATE of the entry's compaction transaction; None if TXNS has no row for it."""
        return self._states[entry.id]

    def target(self, entry: Entry) -> Target | None:
        """Returns the entry's table and partition; None if they are gone.

        Raises:
            Refused: a partitioned table without a partition, or the reverse.
        """
        try:
            return self._targets.target(entry.entity)
        except NotFound:
            return None

    def read_write_ids(self, tables: Iterable[Table]) -> None:
        """Reads ``write_ids`` of several tables together."""
        names = {table.id: (table.database.lower(), table.name.lower()) for table in tables}
        lists = self.site.metastore.write_ids.valid_by_table(set(names.values()), self.txns)
        self._write_ids |= {number: lists[name] for number, name in names.items()}

    def write_ids(self, table: Table) -> ValidWriteIdList:
        """Returns the write IDs of a table that every snapshot from ``lowest`` on sees."""
        if table.id not in self._write_ids:
            self.read_write_ids([table])
        return self._write_ids[table.id]
