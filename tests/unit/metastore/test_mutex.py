from __future__ import annotations

import pytest

from compactor.base.errors import LockNotGranted, LostClaim
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables as t


def test_one_holder_at_a_time(metastore: Metastore) -> None:
    """PROTOCOL 9: mutexes are short leases; nobody's transaction stays open meanwhile."""
    with metastore.mutexes.hold("Initiator", "me", 60_000):
        metastore.transactions.open("u", "h")  # others still write
        with pytest.raises(LockNotGranted, match="held by me"), metastore.mutexes.hold("Initiator", "you", 60_000):
            pytest.fail("the body must not run")
        with pytest.raises(LockNotGranted), metastore.mutexes.hold("Initiator", "me", 60_000):
            pytest.fail("not twice by one holder either")
        with metastore.mutexes.hold("Cleaner", "you", 60_000):
            pass
    with metastore.mutexes.hold("Initiator", "you", 60_000):
        pass


def test_it_is_let_go_when_the_body_raises(metastore: Metastore) -> None:
    with pytest.raises(RuntimeError), metastore.mutexes.hold("Initiator", "me", 60_000):
        raise RuntimeError
    metastore.mutexes.take("Initiator", "you", 60_000)


def test_a_lease_ends_by_itself_and_is_lost_then(metastore: Metastore) -> None:
    lease = metastore.mutexes.take("Initiator", "me", -1)
    metastore.mutexes.take("Initiator", "you", 60_000)
    with pytest.raises(LostClaim, match="no longer held by me"):
        metastore.mutexes.extend(lease, 60_000)


def test_extended(metastore: Metastore) -> None:
    lease = metastore.mutexes.extend(metastore.mutexes.take("Initiator", "me", -1), 60_000)
    with pytest.raises(LockNotGranted):
        metastore.mutexes.take("Initiator", "you", 1)
    assert lease.owner == "me"


def test_hives_own_rows_are_left_alone(metastore: Metastore) -> None:
    row = {"MT_KEY1": "Initiator", "MT_KEY2": 1795198872367}
    with metastore.database.write() as conn:
        conn.execute(t.AUX_TABLE.insert().values(**row))
    with metastore.mutexes.hold("Initiator", "me", 60_000):
        pass
    with metastore.database.read() as conn:
        hives = t.AUX_TABLE.select().where(t.AUX_TABLE.c.MT_KEY1 == "Initiator")
        assert [found.MT_KEY2 for found in conn.execute(hives)] == [1795198872367]
