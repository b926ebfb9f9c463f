from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.base.errors import BadSetting, NotFound, Refused
from compactor.base.stop_signals import Stop
from compactor.batches.assembly import list_claimable_ids, plan_batches
from compactor.batches.driver import WorkerPass
from compactor.cli.worker_loop import CliWorker
from compactor.database.engine import open_database
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import COMPACTION_QUEUE
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from tests.support.passes import with_storage
from tests.support.tables import insert, make_table, rows_of, with_settings

Made = Callable[..., CliWorker]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def reports() -> list[WorkerPass]:
    return []


@pytest.fixture
def stop() -> Stop:
    return Stop()


@pytest.fixture
def made(deployment: Site, said: list[str], reports: list[WorkerPass], stop: Stop) -> Made:
    """Builds a worker in this process for a site and pool, by default ``deployment`` and all pools."""

    def make(site: Site = deployment, pools: frozenset[str] | None = None) -> CliWorker:
        return CliWorker(
            site=site, stop=stop, say=said.append, report=reports.append, master=None, full_verify=False, pools=pools
        )

    return make


@pytest.fixture
def working(made: Made) -> CliWorker:
    return made()


def ask(site: Site, warehouse: Path) -> None:
    """Creates a table with two deltas, and a request for it in pool etl."""
    table = make_table(site, warehouse)
    insert(site, table, range(4))
    insert(site, table, range(4, 8))
    request_compaction(site, table="default.t", partition=None, type="major", pool="etl", properties={})


def test_an_empty_queue_starts_nothing(working: CliWorker, said: list[str], reports: list[WorkerPass]) -> None:
    working.run_once()
    assert said == ["worker: 0 entries, 0 failed"]
    assert reports == [WorkerPass()]
    assert not working.failed
    working.close()


def test_leftovers_of_a_dead_worker_are_repaired_even_if_nothing_waits(
    working: CliWorker, deployment: Site, warehouse: Path, reports: list[WorkerPass]
) -> None:
    """PROTOCOL 6: every pass repairs first. Until then a reader without visibility sees a half-named result."""
    ask(deployment, warehouse)
    gone = deployment.metastore.claims.claim("compactor-worker-gone", "compactor-0.1.0", pool="etl", pool_timeout_ms=0)
    assert gone is not None
    with deployment.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_START=0))
    working.run_once()
    (done,) = reports
    assert [repaired.entry.id for repaired in done.repaired] == [gone.id]
    assert [(outcome.entry.id, outcome.result) for outcome in done.outcomes] == [(gone.id, Result.COMPACTED)]


def test_everything_that_can_be_claimed_is_done_and_reported(
    working: CliWorker, deployment: Site, warehouse: Path, said: list[str], reports: list[WorkerPass]
) -> None:
    ask(deployment, warehouse)
    before = rows_of(deployment, deployment.metastore.catalog.table("default", "t"))
    working.run_once()
    assert said[0].startswith("default.t: compaction 1 major compacted in ")
    assert said[1] == "worker: 1 entry, 0 failed"
    (done,) = reports
    assert [outcome.entry.id for outcome in done.outcomes] == [1]
    assert rows_of(deployment, deployment.metastore.catalog.table("default", "t")) == before


def test_what_fails_is_counted(working: CliWorker, deployment: Site, warehouse: Path, said: list[str]) -> None:
    ask(deployment, warehouse)
    for file in (warehouse / "t").rglob("bucket_*"):
        file.write_bytes(b"not ORC at all")
    working.run_once()
    assert (working.failed, working.worked, working.failures) == (True, 1, 1)
    assert " failed in " in said[0]


def test_another_pools_requests_are_left(made: Made, deployment: Site, warehouse: Path, said: list[str]) -> None:
    ask(deployment, warehouse)
    made(pools=frozenset({"adhoc"})).run_once()
    assert said == ["worker: 0 entries, 0 failed"]


def test_a_worker_asked_to_stop_begins_nothing(
    working: CliWorker, deployment: Site, warehouse: Path, said: list[str], stop: Stop
) -> None:
    ask(deployment, warehouse)
    stop.request()
    working.run_once()
    working.run_until_stopped(None)
    assert said == ["worker: 0 entries, 0 failed", "worker: waiting for requests", "worker: 0 entries, 0 failed"]
    assert [entry.state.label for entry in deployment.metastore.entries.queue()] == ["initiated"]


def test_a_failed_pass_is_reported_and_another_follows(
    made: Made, deployment: Site, said: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    away = Metastore("default", open_database(f"sqlite:///{tmp_path / 'away.db'}"))
    working = made(site=replace(deployment, metastore=away))
    working.run_until_stopped(0)
    assert working.failed
    assert "the pass failed, the next one follows: database sqlite:" in capsys.readouterr().err
    assert said[-1] == "worker: 0 entries, 0 failed"


def test_an_unknown_batch_is_refused(working: CliWorker) -> None:
    with pytest.raises(NotFound, match="batch 7"):
        working.run_batch(7)


def test_another_drivers_batch_is_left_alone(working: CliWorker, deployment: Site, said: list[str]) -> None:
    assert deployment.state is not None
    batch = deployment.state.batches.plan("default", None, None, [1], {})
    assert deployment.state.batches.register(batch, "another", 60_000)
    working.run_batch(batch)
    assert said == [f"batch {batch} belongs to another driver; there is nothing to do here"]


class Foreign(LocalStorage):
    """Every directory belongs to somebody else."""

    def owner(self, path: str) -> str | None:
        return "ann"


def test_tables_of_others_stay_in_the_queue(made: Made, deployment: Site, warehouse: Path, said: list[str]) -> None:
    ask(deployment, warehouse)
    site = with_storage(with_settings(deployment, compactor_run_as_owner="true"), Foreign())
    working = made(site)
    for _ in range(2):
        working.run_once()
    assert said[0].startswith("default.t: is to be compacted as ann, and this process runs as ")
    assert said[1:] == ["worker: 0 entries, 0 failed"] * 2
    (planned,) = plan_batches(site)
    assert planned.run_as == "ann"
    with pytest.raises(Refused, match=r"batch 1: default\.t: is to be compacted as ann"):
        working.run_batch(planned.batch_id)
    assert list_claimable_ids(replace(deployment, state=None)) == [1]


def test_a_worker_that_cannot_be_the_wanted_user_does_not_start(made: Made, deployment: Site) -> None:
    with pytest.raises(BadSetting, match="can become nobody else"):
        made(with_settings(deployment, hive_compactor_run_as_user="somebody"))
