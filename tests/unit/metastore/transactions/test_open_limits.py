from __future__ import annotations

import pytest

from compactor.errors import Refused
from compactor.metastore.store import Metastore
from compactor.metastore.transactions.open_limits import OpenLimit


def test_rows_are_counted_once_a_second(metastore: Metastore) -> None:
    """As Hive does: what others open within that second is not seen, what we opened is."""
    now = 5.0
    limit = OpenLimit(2, clock=lambda: now)
    with metastore.database.read() as conn:
        limit.check(conn)
    metastore.transactions.open("u", "h", count=2)
    with metastore.database.read() as conn:
        limit.check(conn)
        limit.opened(2)
        with pytest.raises(Refused, match="2 are open, 2 are allowed"):
            limit.check(conn)
        now += 1.0
        with pytest.raises(Refused):
            limit.check(conn)


def test_a_limit_of_one_opens_again(metastore: Metastore) -> None:
    now = 5.0
    limit = OpenLimit(1, clock=lambda: now)
    [txn] = metastore.transactions.open("u", "h")
    with metastore.database.read() as conn, pytest.raises(Refused):
        limit.check(conn)
    metastore.transactions.commit(txn)
    now += 1.0
    with metastore.database.read() as conn:
        limit.check(conn)
