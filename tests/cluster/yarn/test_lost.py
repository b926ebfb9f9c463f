"""Applications that end in the middle: killed by somebody, with their master, with their node, or unwanted."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from compactor.batches.assembly import list_claimable_ids
from compactor.compaction.states import State
from compactor.launch.spark_submit import Fate
from compactor.metastore.catalog.values import Table
from compactor.requests.abort import abort_compaction
from compactor.requests.request import request_compaction
from compactor.site.lost_workers import repair
from compactor.state.batches import Batch, BatchState
from tests.support.patience import PATIENCE, until
from tests.support.watching import files_below
from tests.support.yarn_site import NEVER_FITS, NO_EXECUTOR_FITS, YarnSite

TWICE = {"spark.yarn.maxAppAttempts": "2"}  #: YARN's own default
QUEUE = "hive.compactor.job.queue"


@pytest.fixture
def table(on_yarn: YarnSite) -> Table:
    table = on_yarn.table("t")
    request_compaction(on_yarn.site, table="t", properties={QUEUE: "etl"})
    return table


def under_way(on_yarn: YarnSite, table: Table, attempt: int = 1) -> Batch:
    """Waits until a driver works on the entry of ``table`` and has handed units to executors, which do not come."""

    def found() -> Batch | None:
        (batch,) = on_yarn.batches() or [None]
        stages = batch is not None and batch.attempt == attempt and any(Path(table.location).glob(".compactor_v*"))
        return batch if stages and on_yarn.entry(table).state is State.WORKING else None

    return until("a driver at work", found, pause=0.2)


def attempts(on_yarn: YarnSite, batch: Batch) -> int:
    """Returns how often YARN has started the application."""
    return len(on_yarn.yarn.ask(f"apps/{batch.application_id}/appattempts")["appAttempts"]["appAttempt"])


def compacted_once(on_yarn: YarnSite, table: Table, rows: object) -> None:
    assert on_yarn.entry(table).state is State.READY_FOR_CLEANING
    assert on_yarn.rows(table) == rows
    assert len(list(Path(table.location).glob("base_*"))) == 1
    assert list(Path(table.location).glob(".compactor_v*")) == []


def lose_master(on_yarn: YarnSite, batch: Batch) -> None:
    assert batch.application_id is not None
    for master in on_yarn.yarn.processes(batch.application_id, "ApplicationMaster"):
        os.kill(master, signal.SIGKILL)


@pytest.mark.parametrize("lost", ["the master", "its node"])
def test_a_lost_driver_gives_its_batch_back(on_yarn: YarnSite, table: Table, lost: str) -> None:
    """YARN starts it once; the next pass takes the entry at once."""
    rows = on_yarn.rows(table)
    with on_yarn.submitting("cluster", "--json", conf=NEVER_FITS) as process:
        batch = under_way(on_yarn, table)
        if lost == "the master":
            lose_master(on_yarn, batch)
        else:
            on_yarn.yarn.lose_node(with_containers=True)
            on_yarn.yarn.start_node()
        out, err = process.communicate(timeout=PATIENCE)
    (said,) = json.loads(out)
    assert (process.returncode, said["state"], said["application"]) == (1, Fate.GIVEN_BACK.value, batch.application_id)
    assert "YARN says FAILED" in said["message"], err
    assert attempts(on_yarn, batch) == 1
    again = on_yarn.submit("cluster", "--json")
    assert again.returncode == 0, again.stderr[-6000:]
    compacted_once(on_yarn, table, rows)


def test_a_lost_master_is_followed_by_another_where_the_site_says_so(on_yarn: YarnSite, table: Table) -> None:
    """YARN starts it again, and the second attempt goes on with the batch; success is what the rows say."""
    rows = on_yarn.rows(table)
    with on_yarn.submitting("cluster", "--json", conf=TWICE) as process:
        with on_yarn.occupied("default", memory=NO_EXECUTOR_FITS):
            batch = under_way(on_yarn, table)
            lose_master(on_yarn, batch)
            under_way(on_yarn, table, attempt=2)
        out, err = process.communicate(timeout=PATIENCE)
    (said,) = json.loads(out)
    assert (process.returncode, said["state"], said["application"]) == (0, Fate.DONE.value, batch.application_id), err
    compacted_once(on_yarn, table, rows)
    (batch,) = on_yarn.batches()
    assert (batch.state, batch.attempt) == (BatchState.DONE, 2)


def test_a_failed_entry_is_no_reason_to_start_again(on_yarn: YarnSite, table: Table) -> None:
    """By YARN's default it would: the driver has said that an entry failed, by its exit code."""
    next(Path(table.location).glob("delta_*/bucket_*")).write_bytes(b"no ORC")
    done = on_yarn.submit("cluster", "--json")
    (said,) = json.loads(done.stdout)
    assert (done.returncode, said["state"]) == (1, Fate.FAILED.value), done.stderr[-6000:]
    assert on_yarn.entry(table).state is State.FAILED
    (batch,) = on_yarn.batches()
    assert (batch.state, batch.attempt) == (BatchState.DONE, 1)
    found = on_yarn.yarn.until_ended(str(batch.application_id))
    assert (found["finalStatus"], attempts(on_yarn, batch)) == ("FAILED", 1)


@pytest.mark.parametrize("power", [False, True], ids=["its containers live on", "with its containers"])
def test_a_lost_node_is_followed_by_another(on_yarn: YarnSite, table: Table, power: bool) -> None:
    """Where only the NodeManager is gone, the driver may go on with executors of another node until YARN gives it up."""
    rows = on_yarn.rows(table)
    with on_yarn.submitting("cluster", "--json", conf=TWICE) as process:
        with on_yarn.occupied("default", memory=NO_EXECUTOR_FITS):
            batch = under_way(on_yarn, table)
            on_yarn.yarn.lose_node(with_containers=power)
            on_yarn.yarn.start_node()
        out, err = process.communicate(timeout=PATIENCE)
    (said,) = json.loads(out)
    assert (process.returncode, said["state"]) == (0, Fate.DONE.value), err
    compacted_once(on_yarn, table, rows)
    (after,) = on_yarn.batches()
    assert (after.state, after.application_id) == (BatchState.DONE, batch.application_id)
    assert after.attempt == 2 or not power


def test_an_application_goes_on_without_its_submit(on_yarn: YarnSite, table: Table) -> None:
    """Whoever submits next finds the batch taken, and starts nothing beside it."""
    rows = on_yarn.rows(table)
    with on_yarn.occupied("default", memory=NO_EXECUTOR_FITS), on_yarn.submitting("cluster") as process:
        batch = under_way(on_yarn, table)
        process.kill()
        process.wait()
        again = on_yarn.submit("cluster", "--json")
        assert (again.returncode, json.loads(again.stdout)) == (0, [])
    on_yarn.yarn.until_ended(str(batch.application_id))
    compacted_once(on_yarn, table, rows)
    (after,) = on_yarn.batches()
    assert (after.state, after.attempt) == (BatchState.DONE, 1)


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_killed_application_gives_its_batch_back(on_yarn: YarnSite, table: Table, mode: str) -> None:
    """``yarn application -kill`` in the middle: the next pass takes the entry at once, and nothing half done stays."""
    before = files_below(Path(table.location))
    with on_yarn.submitting(mode, "--json", conf=NEVER_FITS) as process:
        batch = under_way(on_yarn, table)
        on_yarn.yarn.kill(str(batch.application_id))
        out, err = process.communicate(timeout=PATIENCE)
    (said,) = json.loads(out)
    assert (process.returncode, said["state"], said["application"]) == (1, Fate.GIVEN_BACK.value, batch.application_id)
    assert "YARN says KILLED" in said["message"], err
    repair(on_yarn.site)
    assert files_below(Path(table.location)) == before
    assert list_claimable_ids(on_yarn.site) == [on_yarn.entry(table).id]
    assert on_yarn.site.metastore.transactions.open_transactions() == []


def test_a_cancelled_request_ends_its_application(on_yarn: YarnSite, table: Table) -> None:
    """Also while no executor comes: nobody tells the application but the rows."""
    before = files_below(Path(table.location))
    with on_yarn.submitting("cluster", "--json", conf=NEVER_FITS) as process:
        batch = under_way(on_yarn, table)
        abort_compaction(on_yarn.site, on_yarn.entry(table).id)
        found = on_yarn.yarn.until_ended(str(batch.application_id))
        out, _ = process.communicate(timeout=PATIENCE)
    (said,) = json.loads(out)
    assert (found["finalStatus"], process.returncode, said["state"]) == ("SUCCEEDED", 0, Fate.DONE.value)
    repair(on_yarn.site)
    assert on_yarn.entry(table).state is State.ABORTED
    assert files_below(Path(table.location)) == before
