"""On the embedded metastore; ``tests/contract`` has the rules over every database."""

from __future__ import annotations

import pytest

from compactor.base.errors import Refused, TransactionAborted
from compactor.compaction.queue_entry import Entity
from compactor.metastore.metastore import Metastore
from compactor.metastore.transactions.transaction_rows import TxnType

T = Entity(database="d", table="t")


def test_each_table_counts_for_itself_and_a_writer_has_one(metastore: Metastore) -> None:
    first, second = metastore.transactions.open("u", "h", count=2)
    ids = metastore.write_ids
    assert ids.next("d", "t") == 1
    assert [ids.allocate(first, "D", "T"), ids.allocate(first, "d", "t"), ids.allocate(first, "d", "u")] == [1, 1, 1]
    assert ids.allocate(second, "d", "t") == 2
    assert ids.next("d", "t") == 3
    assert ids.allocated_to(first) == [("d", "t", 1), ("d", "u", 1)]
    assert ids.transactions("d", "t") == {1: first, 2: second}


def test_what_a_snapshot_sees(metastore: Metastore) -> None:
    done, gone, opened = metastore.transactions.open("u", "h", count=3)
    for txn in (done, gone, opened):
        metastore.write_ids.allocate(txn, "d", "t")
    metastore.transactions.commit(done)
    metastore.transactions.abort(gone, "by a test")
    valid = metastore.write_ids.valid("D", "T", metastore.transactions.snapshot())
    assert (valid.table, valid.high_watermark) == ("d.t", 3)
    assert (set(valid.open), set(valid.aborted)) == ({3}, {2})


def test_a_rebalance_has_a_number_that_is_no_writers(metastore: Metastore) -> None:
    [writer] = metastore.transactions.open("u", "h")
    [rebalance] = metastore.transactions.open("u", "h", type=TxnType.REBALANCE_COMPACTION)
    for txn in (writer, rebalance):
        metastore.write_ids.allocate(txn, "d", "t")
    assert metastore.write_ids.of_compactions("D", "T") == {2}


def test_a_transaction_that_cannot_write_gets_no_number(metastore: Metastore) -> None:
    [reader] = metastore.transactions.open("u", "h", type=TxnType.READ_ONLY)
    with pytest.raises(Refused, match="read-only"):
        metastore.write_ids.allocate(reader, "d", "t")
    [gone] = metastore.transactions.open("u", "h")
    metastore.transactions.abort(gone, "by a test")
    with pytest.raises(TransactionAborted):
        metastore.write_ids.allocate(gone, "d", "t")
    assert metastore.write_ids.next("d", "t") == 1


@pytest.mark.parametrize("operation", ["", "s", "I", "compact"])
def test_an_operation_that_hive_does_not_know_is_refused(metastore: Metastore, operation: str) -> None:
    [txn] = metastore.transactions.open("u", "h")
    with pytest.raises(Refused, match="none of i, u, d"):
        metastore.write_ids.add_component(txn, T, operation, None)
