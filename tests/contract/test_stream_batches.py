"""Batches of streams, over every kind of database (PROTOCOL 14.21): each is committed once, with its transaction."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select, update

from compactor.acid import txn_states
from compactor.base.errors import CompactorError, Refused, TransactionAborted
from compactor.base.ids import TxnId
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import REPL_TXN_MAP
from compactor.metastore.transactions.stream_batches import StreamBatch


def batch(number: int, stream: str = "arrivals", table_id: int = 7, query: str = "") -> StreamBatch:
    return StreamBatch(table_id=table_id, stream=stream, number=number, query=query)


def commit(metastore: Metastore, one: StreamBatch) -> TxnId:
    (txn,) = metastore.transactions.open("ann", "h")
    with metastore.transactions.committing(txn, first=[metastore.stream_batches.record(txn, one)]):
        pass
    return txn


def test_a_batch_is_known_once_it_is_committed(metastore: Metastore) -> None:
    known = metastore.stream_batches.is_committed
    assert not known(batch(0))
    commit(metastore, batch(0))
    assert known(batch(0))
    assert not known(batch(1))
    assert not known(batch(0, stream="others"))
    assert not known(batch(0, table_id=8))
    commit(metastore, batch(5))
    with pytest.raises(Refused, match="batch 0 of stream 'arrivals' comes after batch 5"):
        known(batch(0))
    with metastore.database.read() as conn:
        assert conn.execute(select(func.count()).select_from(REPL_TXN_MAP)).scalar() == 1


def test_a_stream_belongs_to_one_query_until_it_is_forgotten(metastore: Metastore) -> None:
    """PROTOCOL 14.21: also a query whose first batch has the number of the other one's last."""
    batches = metastore.stream_batches
    commit(metastore, batch(0, query="one"))
    commit(metastore, batch(0, query="two", stream="arrivals_2"))
    commit(metastore, batch(0, query="two", stream="arrivalsX2"))
    for number, query in ((0, "two"), (1, "two"), (0, ""), (7, "")):
        with pytest.raises(Refused, match=r"the name belongs to query one; .*forget_stream"):
            batches.is_committed(batch(number, query=query))
        with pytest.raises(Refused, match="the name belongs to query one"):
            commit(metastore, batch(number, query=query))
    assert batches.is_committed(batch(0, query="one"))
    commit(metastore, batch(1, query="one"))
    assert batches.forget(7, "arrivals")
    assert not batches.forget(7, "arrivals")
    commit(metastore, batch(0, query="two"))
    assert batches.is_committed(batch(0, query="two"))
    assert batches.is_committed(batch(0, query="two", stream="arrivals_2"))
    commit(metastore, batch(3, stream="own"))
    with pytest.raises(Refused, match="the name belongs to a program without a query"):
        batches.is_committed(batch(4, stream="own", query="one"))
    commit(metastore, batch(4, stream="own"))


def test_a_commit_of_a_known_batch_commits_nothing(metastore: Metastore) -> None:
    commit(metastore, batch(3))
    for number, error in ((3, TransactionAborted), (2, Refused)):
        (txn,) = metastore.transactions.open("ann", "h")
        with (
            pytest.raises(error),
            metastore.transactions.committing(txn, first=[metastore.stream_batches.record(txn, batch(number))]),
        ):
            pytest.fail("nothing may be named")
        metastore.transactions.abort(txn, "by the test")
        assert metastore.transactions.state(txn) in (txn_states.ABORTED, None)
    assert metastore.stream_batches.is_committed(batch(3))


def test_a_commit_that_fails_records_no_batch(metastore: Metastore) -> None:
    (txn,) = metastore.transactions.open("ann", "h")
    with (
        pytest.raises(OSError, match="by the test"),
        metastore.transactions.committing(txn, first=[metastore.stream_batches.record(txn, batch(3))]),
    ):
        raise OSError("by the test")
    assert not metastore.stream_batches.is_committed(batch(3))


@pytest.mark.parametrize("newest", [None, 3])
def test_of_two_that_commit_one_batch_at_once_one_does(metastore: Metastore, newest: int | None) -> None:
    if newest is not None:
        commit(metastore, batch(newest))

    def attempt(_: int) -> TxnId | CompactorError:
        try:
            return commit(metastore, batch(4))
        except CompactorError as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(attempt, range(4)))
    assert [isinstance(one, TransactionAborted) for one in ends].count(False) == 1
    assert metastore.stream_batches.is_committed(batch(4))


def test_a_paused_commit_of_a_batch_that_came_again_since_commits_nothing(metastore: Metastore) -> None:
    """Its driver was replaced; the new one has committed the batch, and the next, which took its row away."""
    commit(metastore, batch(3))
    (txn,) = metastore.transactions.open("ann", "h")
    record = metastore.stream_batches.record(txn, batch(4))
    with metastore.database.write() as conn:
        assert conn.execute(select(REPL_TXN_MAP.c.RTM_SRC_TXN_ID)).scalars().all() == [3]
        if metastore.database.kind == "sqlite":  # which lets nobody write meanwhile
            conn.execute(update(REPL_TXN_MAP).values(RTM_SRC_TXN_ID=5))
        else:
            commit(metastore, batch(4))
            commit(metastore, batch(5))
        with pytest.raises(Refused, match="after batch 5"):
            record(conn)
