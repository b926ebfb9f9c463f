from __future__ import annotations

import pytest

from compactor.base.errors import Refused
from compactor.metastore.metastore import Metastore
from compactor.metastore.transactions.open_limits import OpenLimit, TxnLimits


@pytest.mark.parametrize("interval", [1.0, 0.25, 60.0])
def test_rows_are_counted_once_in_an_interval(metastore: Metastore, interval: float) -> None:
    """``hive.count.open.txns.interval``, as in Hive: what others open within it is not seen, what we opened is."""
    now = 5.0
    limit = OpenLimit(TxnLimits(max_open=2, counted_each_ms=round(1000 * interval)), clock=lambda: now)
    with metastore.database.read() as conn:
        limit.check(conn)
    metastore.transactions.open("u", "h", count=2)
    with metastore.database.read() as conn:
        now += 0.9 * interval
        limit.check(conn)
        now += 0.1 * interval
        with pytest.raises(Refused, match="2 are open, 2 are allowed"):
            limit.check(conn)


def test_what_this_process_opened_counts_at_once(metastore: Metastore) -> None:
    limit = OpenLimit(TxnLimits(max_open=2), clock=lambda: 5.0)
    with metastore.database.read() as conn:
        limit.check(conn)
        limit.opened(2)
        with pytest.raises(Refused, match="2 are open, 2 are allowed"):
            limit.check(conn)


def test_a_limit_of_one_opens_again(metastore: Metastore) -> None:
    now = 5.0
    limit = OpenLimit(TxnLimits(max_open=1), clock=lambda: now)
    [txn] = metastore.transactions.open("u", "h")
    with metastore.database.read() as conn, pytest.raises(Refused):
        limit.check(conn)
    metastore.transactions.commit(txn)
    now += 1.0
    with metastore.database.read() as conn:
        limit.check(conn)
