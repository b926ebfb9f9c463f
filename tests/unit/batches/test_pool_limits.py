from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from compactor.answers.explain import explain
from compactor.batches.assembly import list_claimable_ids, plan_batches
from compactor.batches.driver import Application, run_batch
from compactor.compaction.entry import Entity
from compactor.compaction.pool_policy import PoolPolicy
from compactor.compaction.time_windows import Window
from compactor.initiator.fresh_look import look_at
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site, own_state
from tests.support.tables import insert, make_table, with_settings


def around(site: Site, hours: int) -> Window:
    """An hour of each day, ``hours`` after the present one."""
    now = datetime.fromtimestamp(site.metastore.now_ms() / 1000, UTC) + timedelta(hours=hours)
    return Window(days=frozenset(range(7)), begin=now.hour * 60, end=now.hour * 60 + 60)


@pytest.fixture
def asked(deployment: Site, warehouse: Path) -> Site:
    site = with_settings(deployment, compactor_batch_bytes="1")  # each a batch of its own
    for name in ("a", "b", "c"):
        table = make_table(site, warehouse, name)
        for value in (1, 2):
            insert(site, table, [value])
        request_compaction(site, table=name, pool="night" if name != "c" else None)
    return site


def test_outside_its_hours_a_pool_waits_and_others_do_not(asked: Site) -> None:
    site = replace(asked, pools={"night": PoolPolicy(name="night", windows=(around(asked, 2),))})
    (planned,) = plan_batches(site)
    assert planned.pool is None
    assert len(list_claimable_ids(site)) == 2
    within = replace(asked, pools={"night": PoolPolicy(name="night", windows=(around(asked, 0),))})
    assert [batch.pool for batch in plan_batches(within)] == ["night", "night"]


def test_a_pool_starts_no_more_applications_than_allowed(asked: Site) -> None:
    site = replace(asked, pools={"night": PoolPolicy(name="night", applications=1, queue="q")})
    first, other = plan_batches(site)
    assert (first.pool, first.queue, other.pool, other.queue) == ("night", "q", None, None)
    assert plan_batches(site) == []
    own_state(site).batches.finish(first.batch_id)
    assert [batch.pool for batch in plan_batches(site)] == ["night"]


def test_the_default_pool_has_a_name_too(asked: Site) -> None:
    site = replace(asked, pools={"default": PoolPolicy(name="default", applications=0)})
    assert [batch.pool for batch in plan_batches(site)] == ["night", "night"]


def test_an_application_stops_when_its_hours_end(asked: Site) -> None:
    night = PoolPolicy(name="night", windows=(around(asked, 0),), max_run_seconds=5000)
    site = replace(asked, pools={"night": night, "default": PoolPolicy(name="default", max_run_seconds=90)})
    first, second, other = plan_batches(site)
    assert first.max_seconds == second.max_seconds
    assert first.max_seconds is not None
    assert 1 <= first.max_seconds <= 3600
    assert other.max_seconds == 90


def test_in_a_pools_off_peak_hours_other_thresholds_apply(deployment: Site, warehouse: Path) -> None:
    """By the clock of the database, and only if neither table nor database sets them."""
    num = "hive.compactor.delta.num.threshold"
    for name, more in (
        ("a", {}),
        ("b", {f"compactorthreshold.{num}": "5"}),
        ("c", {"hive.compactor.worker.pool": "x"}),
    ):
        table = make_table(deployment, warehouse, name, **more)
        for value in range(3):
            insert(deployment, table, [value])

    def outcomes(hours: int) -> dict[str, str]:
        off_peak = PoolPolicy(name="default", off_peak=(around(deployment, hours),), off_peak_settings={num: "2"})
        site = replace(deployment, pools={"default": off_peak})
        return {
            name: look_at(site, Entity(database="default", table=name)).considered.outcome for name in ("a", "b", "c")
        }

    assert outcomes(0) == {"a": "major", "b": "notneeded", "c": "notneeded"}
    assert outcomes(2) == {"a": "notneeded", "b": "notneeded", "c": "notneeded"}
    off_peak = PoolPolicy(name="default", off_peak=(around(deployment, 0),), off_peak_settings={num: "2"})
    explained = explain(replace(deployment, pools={"default": off_peak}), "default.a")
    assert (num, "2", "off-peak hours") in [(one.key, one.value, one.source) for one in explained.settings]


def test_once_its_time_is_over_no_entry_is_begun(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    request_compaction(deployment, table="t")
    (batch,) = plan_batches(deployment)
    done = run_batch(deployment, batch.batch_id, InProcessRunner(), application=Application(max_seconds=0))
    assert (done.mine, done.outcomes) == (True, ())
    assert len(list_claimable_ids(deployment)) == 1
