"""The critical section of a single compaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from compactor.compaction.entry import Entry
from compactor.errors import LostClaim
from compactor.ids import TxnId
from compactor.metastore.compactions import Commit, Committing
from compactor.metastore.store import Metastore


@contextmanager
def committing(
    metastore: Metastore,
    entry: Entry,
    worker_id: str,
    txn: TxnId,
    *,
    table_id: int,
    partition_id: int | None,
    location: str,
) -> Iterator[Committing]:
    """``committing_all`` of one entry.

    Raises:
        LostClaim: it may not be committed; nothing is changed.
    """
    commit = Commit(
        entry=entry, worker_id=worker_id, txn=txn, table_id=table_id, partition_id=partition_id, location=location
    )
    with metastore.compactions.committing_all([commit]) as found:
        held = found[entry.id]
        if isinstance(held, LostClaim):
            raise held
        yield held
