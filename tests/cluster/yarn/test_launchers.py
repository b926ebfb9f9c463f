"""Each launcher in each deploy mode on a real YARN, from the packed environment, under the queue that somebody named."""

from __future__ import annotations

import json
from html import unescape
from typing import Any
from urllib.request import urlopen

import pytest

from compactor.batches.assembly import plan_batches
from compactor.compaction.states import State
from compactor.launch.spark_submit import Fate
from compactor.launch.yarn_application import make_tag
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.state.batches import Batch, BatchState
from tests.support.downloads import ROOT
from tests.support.planted_secrets import MARK, files_with_a_mark, watching_processes
from tests.support.spark_cluster import Packed
from tests.support.yarn import USER
from tests.support.yarn_site import SECRET, YarnSite

QUEUE = "hive.compactor.job.queue"
MODES = ("client", "cluster")
#: What a table asks for, and what a site lets it have.
ALLOWED = {"compactor.allowed.spark.conf": "spark.executor.memory,spark.executor.cores"}
OVERHEAD = "spark.executor.memoryOverhead"
MEMORY = {"compactor.spark.executor.memory": "600m", "compactor.spark.executor.cores": "2"}


def compacted(on_yarn: YarnSite, table: Table, rows: list[Any], user: str = USER) -> tuple[Batch, dict[str, Any]]:
    """Returns the batch and the application that compacted ``table``, as YARN lists it."""
    assert on_yarn.entry(table).state is State.READY_FOR_CLEANING
    assert on_yarn.rows(table) == rows
    (batch,) = on_yarn.batches()
    assert (batch.state, batch.attempt) == (BatchState.DONE, 1)
    found = on_yarn.yarn.application(str(batch.application_id))
    assert on_yarn.entry(table).job_id == found["id"]
    assert (found["finalStatus"], found["user"]) == ("SUCCEEDED", user)
    return batch, found


def shown(on_yarn: YarnSite) -> dict[str, str]:
    """Returns what the application said of its own configuration."""
    (log,) = (on_yarn.folder / "events").iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (found,) = [event["Spark Properties"] for event in events if event["Event"] == "SparkListenerEnvironmentUpdate"]
    return dict(found)


def test_the_packed_code_is_the_checkout_s(packed: Packed) -> None:
    """However often it was packed before."""
    (there,) = packed.environment.glob("lib/python3.*/site-packages/compactor")
    here = ROOT / "compactor"
    files = [path.relative_to(here) for path in here.rglob("*.py")]
    assert [path for path in files if (there / path).read_bytes() != (here / path).read_bytes()] == []


@pytest.mark.parametrize("mode", MODES)
def test_compactor_submit(on_yarn: YarnSite, metastore_url: str, mode: str) -> None:
    """The request's queue wins over the table's, the pool's and the site's; name, user, tag and resources arrive."""
    pool = '[metastore.default.pool.p]\nqueue = "closed"'
    on_yarn.write_config(metastore_url, {QUEUE: "closed", **ALLOWED}, pool)
    table = on_yarn.table("t", **{f"compactor.{QUEUE}": "closed", **MEMORY})
    rows = on_yarn.rows(table)
    with on_yarn.configured() as site:
        request_compaction(site, table="t", pool="p", properties={QUEUE: "etl"})
    with watching_processes() as seen:
        done = on_yarn.submit(mode, "--json", flags=["--set", f"compactor.{OVERHEAD}=400m"])
    assert done.returncode == 0, done.stderr[-6000:]
    assert any("SparkSubmit" in process for process in seen)
    assert [process for process in seen if MARK in process] == []
    assert files_with_a_mark(on_yarn.folder, (on_yarn.config.name,)) == {}
    (said,) = json.loads(done.stdout)
    batch, found = compacted(on_yarn, table, rows)
    assert found["applicationTags"] == make_tag("default", batch.id, batch.planned_at)
    assert (found["queue"], found["name"]) == ("root.etl", f"{on_yarn.site.host}-compactor-default.t")
    assert (said["state"], said["application"]) == (Fate.DONE.value, found["id"])
    assert batch.tracking_url == f"{on_yarn.yarn.page}/proxy/{found['id']}"
    told = shown(on_yarn)
    assert (told["spark.executor.memory"], told["spark.executor.cores"]) == ("600m", "2")
    assert told[OVERHEAD] == "400m"  # a flag of submit, over spark-defaults.conf
    assert told[SECRET].endswith("(redacted)")  # it came in the file that spark-submit inherits
    assert told["spark.yarn.stagingDir"] == (on_yarn.folder / "staging").as_uri()  # of spark-defaults.conf
    if mode == "cluster":
        assert said["log_url"] == batch.log_url == found["amContainerLogs"]
        with urlopen(f"{batch.log_url}/stdout/?start=0") as page:
            assert '"fate": "compacted"' in unescape(page.read().decode())


def test_an_application_of_another_user(on_yarn: YarnSite, metastore_url: str) -> None:
    """The site's run-as user is whom YARN lists; who submits may act for others (hadoop.proxyuser)."""
    on_yarn.write_config(metastore_url, {"hive.compactor.run.as.user": "somebody"})
    table = on_yarn.table("t")
    rows = on_yarn.rows(table)
    request_compaction(on_yarn.site, table="t", properties={QUEUE: "etl"})
    done = on_yarn.submit("cluster", "--json")
    assert done.returncode == 0, done.stderr[-6000:]
    _, found = compacted(on_yarn, table, rows, user="somebody")
    assert found["queue"] == "root.etl"


@pytest.mark.parametrize("mode", MODES)
def test_spark_submit_alone(on_yarn: YarnSite, metastore_url: str, mode: str) -> None:
    """As docs/spark.md has it, for a batch that anything has planned; the table's queue wins over the site's."""
    on_yarn.write_config(metastore_url, {QUEUE: "closed", **ALLOWED})
    table = on_yarn.table("t", **{f"compactor.{QUEUE}": "night", **MEMORY})
    rows = on_yarn.rows(table)
    request_compaction(on_yarn.site, table="t")
    with on_yarn.configured() as site:
        (planned,) = plan_batches(site)
    assert planned.queue == "night"
    done = on_yarn.spark_submit(mode, planned)
    assert done.returncode == 0, done.stderr[-6000:]
    _, found = compacted(on_yarn, table, rows)
    assert found["queue"] == "root.night"
    assert shown(on_yarn)["spark.executor.memory"] == "600m"  # the batch's own, though nobody passed it on


def test_a_pool_s_queue_counts_where_nobody_names_one(on_yarn: YarnSite, metastore_url: str) -> None:
    """And the site's counts before the pool's, as for every setting of a pool: by the plan, as above by YARN's list."""
    pool = '[metastore.default.pool.p]\nqueue = "night"'
    queues = []
    for name, settings in (("a", {}), ("b", {QUEUE: "etl"})):
        on_yarn.write_config(metastore_url, settings, pool)
        on_yarn.table(name)
        request_compaction(on_yarn.site, table=name, pool="p")
        with on_yarn.configured() as site:
            queues += [planned.queue for planned in plan_batches(site)]
    assert queues == ["night", "etl"]
