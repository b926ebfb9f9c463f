from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.errors import DatabaseUnavailable
from compactor.metastore.catalog.values import Table
from compactor.service.batches.assembly import claimable, plan_batches
from compactor.service.requests.request import request_compaction
from compactor.service.site import Site, own_state
from tests.support.tables import insert, make_table, with_settings


def asked(site: Site, warehouse: Path, name: str, pool: str | None = None, **parameters: str) -> Table:
    table = make_table(site, warehouse, name, **parameters)
    for value in (1, 2):
        insert(site, table, [value])
    request_compaction(site, table=name, pool=pool)
    return table


def test_entries_of_one_route_share_a_batch(deployment: Site, warehouse: Path) -> None:
    asked(deployment, warehouse, "a")
    asked(deployment, warehouse, "b")
    asked(deployment, warehouse, "c", pool="night")
    default, night = sorted(plan_batches(deployment), key=lambda b: b.pool or "")
    assert (default.pool, default.entries, night.pool, night.entries) == (None, 2, "night", 1)
    assert default.bytes > 0
    assert default.to_json()["batch"] == default.batch_id


def test_a_single_pool_can_be_planned(deployment: Site, warehouse: Path) -> None:
    asked(deployment, warehouse, "a")
    asked(deployment, warehouse, "c", pool="night")
    assert len(claimable(deployment, "night")) == 1
    (night,) = plan_batches(deployment, "night")
    assert night.pool == "night"
    assert len(claimable(deployment)) == 1


def test_a_batch_keeps_to_its_size_limit(deployment: Site, warehouse: Path) -> None:
    small = with_settings(deployment, compactor_batch_bytes="1")
    asked(small, warehouse, "a")
    asked(small, warehouse, "b")
    assert [b.entries for b in plan_batches(small)] == [1, 1]


def test_without_our_own_state_there_are_no_batches(deployment: Site) -> None:
    bare = replace(deployment, state=None)
    with pytest.raises(DatabaseUnavailable, match="set state_url"):
        own_state(bare)
    with pytest.raises(DatabaseUnavailable, match="set state_url"):
        plan_batches(bare)


def test_a_job_of_one_entry_is_named_as_hive_names_it(deployment: Site, warehouse: Path) -> None:
    asked(deployment, warehouse, "a")
    asked(deployment, warehouse, "c", pool="night")
    asked(deployment, warehouse, "d", pool="night")
    default, night = sorted(plan_batches(deployment), key=lambda b: b.pool or "")
    assert default.job == f"{deployment.host}-compactor-default.a"
    assert night.job == f"{deployment.host}-compactor-default-{night.batch_id}"


def test_our_own_user_is_not_impersonated(deployment: Site, warehouse: Path) -> None:
    for user, wanted in ((deployment.user, None), ("hive", "hive")):
        site = with_settings(deployment, hive_compactor_run_as_user=user)
        asked(site, warehouse, f"t_{user}")
        assert plan_batches(site)[0].run_as == wanted
