"""On the embedded metastore; ``tests/contract`` has the rules over every database."""

from __future__ import annotations

import pytest

from compactor.base.errors import NotFound, Refused, TransactionAborted
from compactor.base.ids import TxnId
from compactor.metastore.metastore import Metastore


def test_numbers_ascend_and_never_come_again(metastore: Metastore) -> None:
    first = metastore.transactions.open("u", "h", count=3)
    metastore.transactions.abort(first[-1], "by a test")
    assert first == sorted(set(first))
    assert metastore.transactions.open("u", "h")[0] > first[-1]
    assert metastore.transactions.newest() == first[-1] + 1


@pytest.mark.parametrize("count", [0, -1])
def test_a_batch_has_bounds(metastore: Metastore, count: int) -> None:
    with pytest.raises(Refused, match="at once"):
        metastore.transactions.open("u", "h", count=count)


def test_what_has_ended_cannot_end_again(metastore: Metastore) -> None:
    done, gone = metastore.transactions.open("u", "h", count=2)
    metastore.transactions.commit(done)
    assert metastore.transactions.abort(gone, "by a test")
    assert not metastore.transactions.abort(gone, "again")
    assert not metastore.transactions.abort(done, "late")
    with pytest.raises(TransactionAborted):
        metastore.transactions.commit(gone)
    with pytest.raises(TransactionAborted):
        metastore.transactions.heartbeat(gone)
    with pytest.raises(NotFound):
        metastore.transactions.heartbeat(TxnId(99))
    assert metastore.transactions.states([done, gone, TxnId(99)]) == {done: "c", gone: "a"}


def test_a_snapshot_sees_what_is_committed_and_its_own(metastore: Metastore) -> None:
    done, gone, opened, own = metastore.transactions.open("u", "h", count=4)
    metastore.transactions.commit(done)
    metastore.transactions.abort(gone, "by a test")
    seen = metastore.transactions.snapshot(own)
    assert [seen.is_valid(txn) for txn in (done, gone, opened)] == [True, False, False]
    assert (seen.is_aborted(gone), seen.is_aborted(opened)) == (True, False)
    assert [txn.id for txn in metastore.transactions.open_transactions()] == [opened, own]


def test_a_silent_transaction_is_aborted(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    assert metastore.transactions.time_out(60_000) == []
    assert metastore.transactions.time_out(-1) == [txn]
    assert metastore.transactions.state(txn) == "a"


def test_rows_of_more_transactions_than_a_statement_names(metastore: Metastore) -> None:
    """PROTOCOL 10: names of directories have their numbers, and may be any."""
    txns = metastore.transactions.open("u", "h", count=2)
    metastore.transactions.abort(txns[0], "by a test")
    found = metastore.transactions.rows([TxnId(number) for number in range(300_000)])
    assert {txn: row.state for txn, row in found.items() if txn in txns} == {txns[0]: "a", txns[1]: "o"}
