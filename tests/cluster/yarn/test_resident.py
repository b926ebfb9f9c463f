"""An application that stays for further batches of its route (``--linger``), under a queue of YARN."""

from __future__ import annotations

import json

import pytest

from compactor.batches.assembly import plan_batches
from compactor.compaction.states import State
from compactor.launch.spark_submit import Fate
from compactor.requests.request import request_compaction
from compactor.site.site import own_state
from tests.support.patience import PATIENCE, until
from tests.support.yarn_site import YarnSite

QUEUE = "hive.compactor.job.queue"


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_resident_takes_batches_of_its_queue_alone(on_yarn: YarnSite, mode: str) -> None:
    first = on_yarn.table("first")
    request_compaction(on_yarn.site, table="first", properties={QUEUE: "night"})
    with on_yarn.configured() as site:
        (planned,) = plan_batches(site)
    line = on_yarn.spark_submit_line(mode, planned, "--linger", f"{PATIENCE:.0f}")
    with on_yarn.started(line) as process:
        batches = own_state(on_yarn.site).batches  # it is one once its first batch is done
        (resident,) = until("the resident", lambda: batches.residents(on_yarn.site.name), pause=0.2)
        assert on_yarn.entry(first).state is State.READY_FOR_CLEANING
        running = on_yarn.yarn.application(resident.application_id)
        assert (running["state"], running["queue"]) == ("RUNNING", "root.night")
        other, same = on_yarn.table("other"), on_yarn.table("same")
        request_compaction(on_yarn.site, table="other", properties={QUEUE: "etl"})
        done = on_yarn.submit("cluster", "--json")
        (said,) = json.loads(done.stdout)
        assert (said["resident"], said["state"]) == (None, Fate.DONE.value), done.stderr[-3000:]
        assert on_yarn.yarn.application(said["application"])["queue"] == "root.etl"
        assert on_yarn.entry(other).job_id == said["application"]
        request_compaction(on_yarn.site, table="same", properties={QUEUE: "night"})
        until("the resident's next batch", lambda: on_yarn.entry(same).state is State.READY_FOR_CLEANING, pause=0.2)
        assert on_yarn.entry(same).job_id == resident.application_id
        assert on_yarn.batches()[0].application_id == resident.application_id
        on_yarn.yarn.kill(resident.application_id)  # a killed resident is given nothing any more
        process.wait(timeout=PATIENCE)
