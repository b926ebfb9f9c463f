from __future__ import annotations

import pytest
from sqlalchemy import insert

from compactor.base.ids import TxnId
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.schema.tables import AUX_TABLE
from compactor.site.hive_roles import LEADERS, hive_roles
from compactor.site.site import Site


def mutex(site: Site, name: str, value: int = 0) -> None:
    with site.metastore.database.write() as conn:
        conn.execute(insert(AUX_TABLE).values(MT_KEY1=name, MT_KEY2=value))


def lease(site: Site) -> None:
    request = LockRequest(database=LEADERS, table="metastore_housekeeping", type=LockType.EXCL_WRITE)
    site.metastore.locks.acquire(TxnId(0), [request], "hive", "hms")


def test_an_embedded_metastore_has_nothing_of_hive(deployment: Site) -> None:
    roles = hive_roles(deployment)
    assert (roles.leases, roles.mutexes, roles.initiator_cycle, roles.initiator_active) == ((), (), None, False)
    assert not roles.cleaner_may_run


def test_our_own_mutexes_do_not_count(deployment: Site) -> None:
    with deployment.metastore.mutexes.hold("Cleaner", "compactor-x", 60_000):
        assert hive_roles(deployment).mutexes == ()


def test_a_live_leader_and_the_cleaners_mutex_mean_that_it_may_run(deployment: Site) -> None:
    mutex(deployment, "Cleaner")
    assert not hive_roles(deployment).cleaner_may_run
    lease(deployment)
    roles = hive_roles(deployment)
    assert roles.leases == ("metastore_housekeeping",)
    assert roles.cleaner_may_run


@pytest.mark.parametrize(("age_ms", "active"), [(10_000, True), (3_600_000, False)])
def test_the_initiator_is_active_while_its_last_cycle_is_young(deployment: Site, age_ms: int, active: bool) -> None:
    then = deployment.metastore.now_ms() - age_ms
    mutex(deployment, "Initiator", then)
    roles = hive_roles(deployment)
    assert roles.initiator_cycle == then
    assert roles.initiator_active is active
