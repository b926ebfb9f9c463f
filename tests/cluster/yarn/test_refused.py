"""A queue that does not exist, one without right, one that is full: what a person reads, and what becomes of the entry."""

from __future__ import annotations

import json

import pytest

from compactor.batches.assembly import list_claimable_ids
from compactor.compaction.states import State
from compactor.launch.spark_submit import Fate
from compactor.requests.abort import abort_compaction
from compactor.requests.request import request_compaction
from compactor.state.batches import BatchState
from tests.support.patience import PATIENCE, until
from tests.support.yarn import USER
from tests.support.yarn_site import NO_DRIVER_FITS, YarnSite

QUEUE = "hive.compactor.job.queue"
REFUSALS = {
    "nope": "submitted by user {user} to unknown queue: nope",
    "closed": "User {user} does not have permission to submit {application} to queue closed",
}


@pytest.mark.parametrize("mode", ["client", "cluster"])
@pytest.mark.parametrize("queue", REFUSALS)
def test_a_refused_application(on_yarn: YarnSite, queue: str, mode: str) -> None:
    table = on_yarn.table("t")
    request_compaction(on_yarn.site, table="t", properties={QUEUE: queue})
    done = on_yarn.submit(mode, "--json")
    assert done.returncode == 1
    (said,) = json.loads(done.stdout)
    wanted = REFUSALS[queue].format(user=USER, application=said["application"])
    assert said["application"].startswith("application_")
    assert said["state"] == Fate.GIVEN_BACK.value
    assert wanted in said["message"]
    last = done.stderr.splitlines()[-1]  # after Spark's own traces
    assert last.startswith("compactor: batch 1: ")
    assert wanted in last
    waits_again(on_yarn)
    assert on_yarn.entry(table).state is State.INITIATED


def test_a_full_queue_refuses(on_yarn: YarnSite) -> None:
    """It takes one application; the next is told so, and its entry waits, without a reservation, for another pass."""
    with on_yarn.occupied("full", memory="512m"):
        on_yarn.table("t")
        request_compaction(on_yarn.site, table="t", properties={QUEUE: "full"})
        done = on_yarn.submit("cluster")
        assert done.returncode == 1
        assert "already has 1 applications, cannot accept submission of application" in done.stderr.splitlines()[-1]
        waits_again(on_yarn)


def test_a_queue_without_room_lets_wait_and_a_cancelled_request_ends_that(on_yarn: YarnSite) -> None:
    """YARN accepts and has no container: the batch stays reserved for the application, until nobody wants it any more."""
    table = on_yarn.table("t")
    request_compaction(on_yarn.site, table="t", properties={QUEUE: "etl"})
    with on_yarn.occupied("default", memory=NO_DRIVER_FITS), on_yarn.submitting("cluster", "--json") as process:
        found = until("an accepted application", on_yarn.accepted, pause=0.2)
        until("the launch is recorded", lambda: on_yarn.batches()[0].application_id == found["id"], pause=0.2)
        assert list_claimable_ids(on_yarn.site) == []
        abort_compaction(on_yarn.site, on_yarn.entry(table).id)
        out, _ = process.communicate(timeout=PATIENCE)
        (said,) = json.loads(out)
        assert (process.returncode, said["state"]) == (1, Fate.GIVEN_BACK.value)
        assert "its requests were cancelled" in said["message"]
        assert on_yarn.yarn.until_ended(found["id"])["state"] == "KILLED"
    assert on_yarn.entry(table).state is State.ABORTED


def test_in_cluster_mode_a_driver_must_know_of_a_metastore(on_yarn: YarnSite, metastore_url: str) -> None:
    """Told before anything is planned: YARN would start it twice, and say exit code 13."""
    on_yarn.table("t")
    request_compaction(on_yarn.site, table="t")
    line = on_yarn.compactor("submit", "--master", "yarn", "--deploy-mode", "cluster")
    del line[1:3]  # --config
    environment = {"COMPACTOR_METASTORE_URL": metastore_url, "COMPACTOR_WAREHOUSE": str(on_yarn.warehouse)}
    on_yarn.config.unlink()
    with on_yarn.started(line, environment) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "sees nothing of this environment, such as COMPACTOR_METASTORE_URL" in err
    assert on_yarn.batches() == []


def test_what_a_driver_says_before_it_has_spark_is_told(on_yarn: YarnSite, metastore_url: str) -> None:
    """It ends in its container with exit code 13; YARN keeps the end of its log, and submit finds the sentence in it."""
    on_yarn.write_config(
        metastore_url, {"compactor.spark.yarn.appMasterEnv.COMPACTOR_METASTORE_URL": "sqlite:////no/db"}
    )
    on_yarn.table("t")
    request_compaction(on_yarn.site, table="t", properties={QUEUE: "etl"})
    done = on_yarn.submit("cluster", conf={"spark.yarn.maxAppAttempts": "1"})
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "YARN says FAILED" in last
    assert "/no/db" in last
    assert "log: http://" in last
    waits_again(on_yarn)


def waits_again(on_yarn: YarnSite) -> None:
    (batch,) = on_yarn.batches()
    assert batch.state is BatchState.RELEASED
    assert len(list_claimable_ids(on_yarn.site)) == 1
