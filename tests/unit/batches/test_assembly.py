from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from compactor.answers.explain import explain
from compactor.answers.overview import queue_page
from compactor.answers.show_compactions import show_compactions
from compactor.base.errors import DatabaseUnavailable
from compactor.base.identities import process_user
from compactor.batches.assembly import list_claimable_ids, plan_batches
from compactor.batches.driver import Application, run_batch
from compactor.compaction.pool_policy import PoolPolicy, Window
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import State
from compactor.initiator.fresh_look import look_at
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.claim_turns import take_turns
from compactor.site.site import Site, own_state
from compactor.storage.local import LocalStorage
from tests.support.many import make_partitions
from tests.support.passes import with_storage
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


def test_single_pools_can_be_planned(deployment: Site, warehouse: Path) -> None:
    """``default`` is the pool of requests without one."""
    asked(deployment, warehouse, "a")
    for name, pool in (("c", "night"), ("d", "etl")):
        asked(deployment, warehouse, name, pool=pool)
    assert [len(list_claimable_ids(deployment, pools)) for pools in ({"night"}, {"default", "etl"}, {"none"})] == [
        1,
        2,
        0,
    ]
    (night,) = plan_batches(deployment, {"night"})
    assert night.pool == "night"
    (default,) = plan_batches(deployment, {"default"})
    assert default.pool is None
    assert len(list_claimable_ids(deployment)) == 1


def test_priorities_of_databases_tables_and_requests_decide_the_order(deployment: Site, warehouse: Path) -> None:
    """The list, the batches, and what people see have one order; a person's request overrides the table's priority."""
    asked(deployment, warehouse, "plain")
    asked(deployment, warehouse, "low", **{"compactor.priority": "-3"})
    asked(deployment, warehouse, "high", **{"compactor.priority": "5"})
    table = make_table(deployment, warehouse, "person")
    for value in (1, 2):
        insert(deployment, table, [value])
    request_compaction(deployment, table="person", properties={"compactor.priority": "9"})
    tables = [deployment.metastore.entries.get(number).entity.table for number in list_claimable_ids(deployment)]
    assert tables == ["person", "high", "plain", "low"]
    rows = {row.tabname: row for row in show_compactions(deployment)}
    assert [rows[name].place for name in tables] == [1, 2, 3, 4]
    assert "priority 9 (request)" in str(rows["person"].place_because)
    assert "priority 5 (table)" in str(rows["high"].place_because)
    page = queue_page(deployment, find="high", state=None, limit=9, offset=0).rows
    assert [(row["place"], row["place_because"]) for row in page] == [(2, rows["high"].place_because)]
    tiny = with_settings(deployment, compactor_batch_bytes="1")
    planned = plan_batches(tiny)
    order = [own_state(tiny).batches.get(batch.batch_id).entry_ids[0] for batch in planned]
    assert [tiny.metastore.entries.get(number).entity.table for number in order] == tables


def test_a_request_that_waits_long_enough_comes_first(deployment: Site, warehouse: Path) -> None:
    asked(deployment, warehouse, "patient", **{"compactor.priority": "-100"})
    asked(deployment, warehouse, "favourite", **{"compactor.priority": "100"})
    first, second = list_claimable_ids(deployment)
    with deployment.metastore.database.write() as conn:
        conn.exec_driver_sql(
            f"UPDATE COMPACTION_QUEUE SET CQ_ENQUEUE_TIME = CQ_ENQUEUE_TIME - {201 * 600_000} WHERE CQ_ID = {second}"
        )
    assert list_claimable_ids(deployment) == [second, first]


def test_a_worker_claims_a_batch_in_the_order_of_priorities(deployment: Site, warehouse: Path) -> None:
    for name, priority in (("a", "0"), ("b", "1"), ("c", "2")):
        asked(deployment, warehouse, name, **{"compactor.priority": priority})
    (batch,) = plan_batches(deployment)
    turns = take_turns(deployment, deployment.metastore.entries.waiting(own_state(deployment).batches.get(1).entry_ids))
    assert [turn.entry.entity.table for turn in turns] == ["c", "b", "a"]
    assert batch.entries == 3


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


def test_a_partition_is_part_of_its_jobs_name(deployment: Site, warehouse: Path) -> None:
    table = make_partitions(deployment.metastore, warehouse, 1, deltas=2, name="parted")
    request_compaction(deployment, table=str(table), type="major")
    (batch,) = plan_batches(deployment)
    assert batch.job == f"{deployment.host}-compactor-default.parted.p=000000"


def test_our_own_user_is_not_impersonated(deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """He is the one whom the kernel knows: USER may name anybody."""
    monkeypatch.setenv("USER", "hive")
    for user, wanted in ((process_user(), None), ("hive", "hive")):
        site = with_settings(replace(deployment, user="hive"), hive_compactor_run_as_user=user)
        asked(site, warehouse, f"t_{user}")
        assert plan_batches(site)[0].run_as == wanted


class Nameless(LocalStorage):
    """One directory belongs to a user without a name."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def owner(self, path: str) -> str | None:
        return None if path == self._path else super().owner(path)


@pytest.mark.parametrize("because", ["gone", "refused"])
def test_an_entry_without_a_route_ends_by_name_and_launches_nothing(
    deployment: Site, warehouse: Path, because: str
) -> None:
    """Nothing may run as the service's own user, in no queue, because it is unknown as whom it should."""
    site = with_settings(deployment, compactor_run_as_owner="true")
    asked(site, warehouse, "good")
    bad = asked(site, warehouse, "bad")
    if because == "gone":
        shutil.rmtree(bad.location)
    else:
        site = with_storage(site, Nameless(bad.location))
    (planned,) = plan_batches(site)
    (ended,) = site.metastore.entries.history()
    assert (planned.entries, ended.entity.table) == (1, "bad")
    assert bad.location in str(ended.error)
    assert ended.state is (State.FAILED if because == "gone" else State.REFUSED)
    assert plan_batches(site) == []


def test_a_database_that_is_away_ends_no_entry(
    deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(deployment, warehouse, "a")

    def away(*_: object) -> None:
        raise DatabaseUnavailable("away")

    monkeypatch.setattr(Site, "target", away)
    with pytest.raises(DatabaseUnavailable, match="away"):
        plan_batches(deployment)
    assert len(list_claimable_ids(deployment)) == 1


def test_what_cannot_be_measured_keeps_its_route(deployment: Site, warehouse: Path) -> None:
    site = with_settings(deployment, hive_compactor_run_as_user="hive", hive_compactor_job_queue="etl")
    broken = asked(site, warehouse, "a", **{"compactor.spark.executor.memory": "8g"})
    delta = next(Path(broken.location).glob("delta_*"))
    (delta / "_metadata_acid").write_text("{}")
    (planned,) = plan_batches(site)
    assert (planned.run_as, planned.queue, dict(planned.conf), planned.bytes) == (
        "hive",
        "etl",
        {"spark.executor.memory": "8g"},
        0,
    )


def test_a_plan_has_none_of_the_sites_secrets(deployment: Site, warehouse: Path) -> None:
    key = "spark.hadoop.fs.s3a.secret.key"
    site = replace(deployment, settings=replace(deployment.settings, spark_conf={key: "hush", "spark.x": "y"}))
    asked(site, warehouse, "a")
    (planned,) = plan_batches(site)
    assert planned.conf == {"spark.x": "y"}
    assert own_state(site).batches.get(planned.batch_id).conf == {"spark.x": "y"}
    assert site.settings.secret_spark_conf[key] == "hush"


def around(site: Site, hours: int) -> Window:
    """An hour of each day, ``hours`` after the present one."""
    now = datetime.fromtimestamp(site.metastore.now_ms() / 1000, UTC) + timedelta(hours=hours)
    return Window(days=frozenset(range(7)), begin=now.hour * 60, end=now.hour * 60 + 60)


@pytest.fixture
def queue_requests(deployment: Site, warehouse: Path) -> Site:
    site = with_settings(deployment, compactor_batch_bytes="1")  # each a batch of its own
    for name in ("a", "b", "c"):
        table = make_table(site, warehouse, name)
        for value in (1, 2):
            insert(site, table, [value])
        request_compaction(site, table=name, pool="night" if name != "c" else None)
    return site


def test_outside_its_hours_a_pool_waits_and_others_do_not(queue_requests: Site) -> None:
    site = replace(queue_requests, pools={"night": PoolPolicy(name="night", windows=(around(queue_requests, 2),))})
    (planned,) = plan_batches(site)
    assert planned.pool is None
    assert len(list_claimable_ids(site)) == 2
    within = replace(queue_requests, pools={"night": PoolPolicy(name="night", windows=(around(queue_requests, 0),))})
    assert [batch.pool for batch in plan_batches(within)] == ["night", "night"]


def test_a_pool_starts_no_more_applications_than_allowed(queue_requests: Site) -> None:
    site = replace(queue_requests, pools={"night": PoolPolicy(name="night", applications=1, queue="q")})
    first, other = plan_batches(site)
    assert (first.pool, first.queue, other.pool, other.queue) == ("night", "q", None, None)
    assert plan_batches(site) == []
    own_state(site).batches.finish(first.batch_id)
    assert [batch.pool for batch in plan_batches(site)] == ["night"]


def test_the_default_pool_has_a_name_too(queue_requests: Site) -> None:
    site = replace(queue_requests, pools={"default": PoolPolicy(name="default", applications=0)})
    assert [batch.pool for batch in plan_batches(site)] == ["night", "night"]


def test_an_application_stops_when_its_hours_end(queue_requests: Site) -> None:
    night = PoolPolicy(name="night", windows=(around(queue_requests, 0),), max_run_seconds=5000)
    site = replace(queue_requests, pools={"night": night, "default": PoolPolicy(name="default", max_run_seconds=90)})
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
