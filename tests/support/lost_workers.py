"""A worker that was lost in the middle of a compaction."""

from __future__ import annotations

from pathlib import Path

from compactor.acid.names import staging_name
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entry
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.request import request_compaction
from compactor.site.site import Site

WORKER = "compactor-worker-gone"


def claimed(site: Site, worker: str = WORKER, table: str = "default.t") -> Entry:
    (asked,) = request_compaction(site, table=table)
    assert asked.entry_id is not None
    entry = site.metastore.claims.claim(worker, "1", pool_timeout_ms=0, ids=[asked.entry_id])
    assert entry is not None
    return entry


def begun(site: Site, table: Table) -> tuple[Entry, TxnId]:
    """A worker that has opened its transaction, and staged and named something."""
    entry = claimed(site, table=str(table))
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION, agent=WORKER)
    site.metastore.claims.record(entry, WORKER, txn, "w", WriteId(2))
    (Path(table.location) / staging_name(txn) / "out").mkdir(parents=True)
    (Path(table.location) / f"base_0000002_v{txn:07d}").mkdir()
    return entry, txn
