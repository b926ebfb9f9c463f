"""On the embedded metastore; ``tests/contract`` has the rules over every database."""

from __future__ import annotations

from compactor.base.ids import WriteId
from compactor.compaction.entry import Entity
from compactor.metastore.metastore import Metastore
from tests.support.aborted import aborted_of

T = Entity(database="d", table="t")


def test_the_partitions_of_some_write_ids(metastore: Metastore) -> None:
    for number, name in enumerate(("p=2", "p=1", "p=1", None), 1):
        [txn] = metastore.transactions.open("u", "h")
        part = Entity(database="d", table="t", partition=name)
        assert metastore.write_ids.allocate(txn, "d", "t") == number
        metastore.write_ids.add_component(txn, part, "i", WriteId(number))
        metastore.transactions.commit(txn)
    found = [metastore.candidates.partitions("d", "t", list(map(WriteId, ids))) for ids in ((), (1, 3), (2, 3), (4,))]
    assert found == [[], ["p=1", "p=2"], ["p=1"], []]


def test_aborted_writers_are_counted(metastore: Metastore) -> None:
    for txn in metastore.transactions.open("u", "h", count=2):
        metastore.write_ids.add_component(txn, T, "i", metastore.write_ids.allocate(txn, "d", "t"))
        metastore.transactions.abort(txn, "by a test")
    assert aborted_of(metastore, T).count == 2
    assert metastore.candidates.aborts()[T] == aborted_of(metastore, T)
