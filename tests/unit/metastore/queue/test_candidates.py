"""On the embedded metastore; ``tests/contract`` has the rules over every database."""

from __future__ import annotations

from compactor.compaction.entry import Entity
from compactor.metastore.store import Metastore
from tests.support.aborted import aborted_of

T = Entity(database="d", table="t")


def test_aborted_writers_are_counted(metastore: Metastore) -> None:
    for txn in metastore.transactions.open("u", "h", count=2):
        metastore.write_ids.add_component(txn, T, "i", metastore.write_ids.allocate(txn, "d", "t"))
        metastore.transactions.abort(txn, "by a test")
    assert aborted_of(metastore, T).count == 2
    assert metastore.candidates.aborts()[T] == aborted_of(metastore, T)
