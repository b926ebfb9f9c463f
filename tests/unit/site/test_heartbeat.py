from __future__ import annotations

import threading

import pytest
from sqlalchemy import select, update

from compactor.base.errors import LostClaim
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import TXNS
from compactor.site.heartbeat import Heartbeat
from tests.support.patience import PATIENCE, until


def test_a_transaction_is_kept_alive(metastore: Metastore) -> None:
    (txn,) = metastore.transactions.open("ann", "h")
    with metastore.database.write() as conn:
        conn.execute(update(TXNS).where(txn == TXNS.c.TXN_ID).values(TXN_LAST_HEARTBEAT=0))
    beaten = threading.Event()
    with Heartbeat(metastore.transactions, [txn], 1, after_beat=beaten.set) as heart:
        assert beaten.wait(PATIENCE)
        heart.check()
    with metastore.database.read() as conn:
        assert conn.execute(select(TXNS.c.TXN_LAST_HEARTBEAT).where(txn == TXNS.c.TXN_ID)).scalar_one() > 0


def test_a_lost_transaction_raises_in_the_working_thread(metastore: Metastore) -> None:
    """PROTOCOL 5: a lost worker stops without a trace."""
    (txn,) = metastore.transactions.open("ann", "h")
    with Heartbeat(metastore.transactions, [txn], 1) as heart:
        metastore.transactions.abort(txn, "by hand")
        heart._thread.join(PATIENCE)
        with pytest.raises(LostClaim, match=f"transaction {txn} is lost: .*aborted"):
            heart.check()


def test_the_thread_ends_with_the_block(metastore: Metastore) -> None:
    (txn,) = metastore.transactions.open("ann", "h")
    with Heartbeat(metastore.transactions, [txn], 3_600_000) as heart:
        assert heart._thread.is_alive()
    assert not heart._thread.is_alive()


def test_of_several_transactions_only_the_lost_one_raises(metastore: Metastore) -> None:
    txns = metastore.transactions.open("ann", "h", count=3)
    with Heartbeat(metastore.transactions, txns, 1) as heart:
        heart.let_go(txns[0])
        metastore.transactions.commit(txns[0])
        metastore.transactions.abort(txns[1], "by hand")
        until("it hears of the lost one", lambda: heart._lost)
        heart.check(txns[0])
        heart.check(txns[2])
        with pytest.raises(LostClaim, match=f"transaction {txns[1]} is lost: it is aborted"):
            heart.check(txns[1])
        assert heart._thread.is_alive()
