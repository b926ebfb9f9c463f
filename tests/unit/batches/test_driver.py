from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import DatabaseUnavailable
from compactor.batches.assembly import list_claimable_ids, plan_batches
from compactor.batches.driver import (
    Application,
    ProgressWriter,
    Reservation,
    count_concurrent_groups,
    run_batch,
    run_entries,
)
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.rewrite.run.task_queue import JobAnswer
from compactor.settings.precedence import Layer, Settings
from compactor.site.site import Site, own_state
from compactor.state.batches import BatchState
from compactor.state.runs import Runs
from compactor.worker.ending import Outcome, Result
from compactor.worker.under_way import UnderWay
from tests.support.patience import until
from tests.support.tables import insert, make_table

MINE = "compactor-driver-h-1-x"


def asked(site: Site, warehouse: Path, name: str, pool: str | None = None, **parameters: str) -> Table:
    table = make_table(site, warehouse, name, **parameters)
    for value in (1, 2):
        insert(site, table, [value])
    request_compaction(site, table=name, pool=pool)
    return table


@pytest.mark.parametrize("parallel", [1, 2])
def test_every_entry_is_reported_as_soon_as_it_is_done(deployment: Site, warehouse: Path, parallel: int) -> None:
    for name in ("a", "b"):
        asked(deployment, warehouse, name)
    reported: list[Outcome] = []
    (batch,) = plan_batches(deployment)
    done = run_batch(deployment, batch.batch_id, InProcessRunner(), parallel=parallel, progress=reported.append)
    assert [o.result for o in done.outcomes] == [Result.COMPACTED] * 2
    assert {o.entry.id for o in reported} == {o.entry.id for o in done.outcomes}
    assert (done.mine, done.failed) == (True, ())
    first = done.to_json()["compactions"][0]  # type: ignore[index]
    assert (first["fate"], first["figures"]["rows_out"]) == ("compacted", 2)


def test_the_figures_of_a_run_are_kept(deployment: Site, warehouse: Path) -> None:
    asked(deployment, warehouse, "a")
    (outcome,) = run_entries(deployment, list_claimable_ids(deployment), InProcessRunner()).outcomes
    assert deployment.state is not None
    (run,) = deployment.state.runs.of_entry(deployment.name, outcome.entry.id)
    assert (run.rows_in, run.rows_out, run.directories_before, run.directories_after) == (2, 2, 2, 1)


def test_entries_say_which_application_works_on_them(deployment: Site, warehouse: Path) -> None:
    """HadoopJobId of SHOW COMPACTIONS; its column takes 32 characters."""

    class OnCluster(InProcessRunner):
        application = "application_1700000000000_0001_and_more"

    asked(deployment, warehouse, "a")
    (ours,) = run_entries(deployment, list_claimable_ids(deployment), OnCluster()).outcomes
    asked(deployment, warehouse, "b")
    (here,) = run_entries(deployment, list_claimable_ids(deployment), InProcessRunner()).outcomes
    jobs = [deployment.metastore.entries.get(outcome.entry.id).job_id for outcome in (ours, here)]
    assert jobs == ["application_1700000000000_0001_a", None]


def test_an_entry_taken_by_another_worker_is_skipped(deployment: Site, warehouse: Path) -> None:
    asked(deployment, warehouse, "a")
    ids = list_claimable_ids(deployment)
    deployment.metastore.claims.claim("compactor-other", "1", pool_timeout_ms=0, ids=ids)
    assert run_entries(deployment, [*ids, 999], InProcessRunner()).outcomes == ()


def test_no_group_begins_once_the_batch_is_taken_away(deployment: Site, warehouse: Path) -> None:
    """A cancelled batch ends before the next group of entries; entries not yet begun stay requested."""
    for name in ("a", "b"):
        asked(deployment, warehouse, name)
    (batch,) = plan_batches(deployment)
    wants = iter([True, False])
    done = run_entries(
        deployment,
        own_state(deployment).batches.get(batch.batch_id).entry_ids,
        InProcessRunner(),
        parallel=2,  # so that each entry is a group of its own
        may_begin=lambda: next(wants),
    )
    assert [o.result for o in done.outcomes] == [Result.COMPACTED]
    assert len(list_claimable_ids(deployment)) == 0
    assert own_state(deployment).batches.finish(batch.batch_id)
    assert len(list_claimable_ids(deployment)) == 1


def test_the_tracking_url_is_recorded(deployment: Site, warehouse: Path) -> None:
    asked(deployment, warehouse, "a")
    (batch,) = plan_batches(deployment)
    run_batch(deployment, batch.batch_id, InProcessRunner(), application=Application(tracking_url="http://driver:4040"))
    assert own_state(deployment).batches.get(batch.batch_id).tracking_url == "http://driver:4040"


def test_a_driver_that_breaks_gives_its_batch_back(deployment: Site, warehouse: Path) -> None:
    class Broken(InProcessRunner):
        def run(self, jobs: object) -> list[JobAnswer]:
            raise RuntimeError("a bug")

    asked(deployment, warehouse, "a")
    (batch,) = plan_batches(deployment)
    with pytest.raises(RuntimeError, match="a bug"):
        run_batch(deployment, batch.batch_id, Broken())
    assert own_state(deployment).batches.get(batch.batch_id).state is BatchState.RELEASED
    assert len(list_claimable_ids(deployment)) == 1


@pytest.mark.parametrize(("threads", "groups"), [(1, 2), (32, 2), (64, 4), (128, 8)])
def test_more_threads_have_more_groups_to_wait_for(threads: int, groups: int) -> None:
    values = {"compactor.store.threads": str(threads)}
    assert count_concurrent_groups(Settings.of([Layer(name="flag", values=values)])) == groups


@pytest.fixture
def batch(deployment: Site) -> int:
    batches = own_state(deployment).batches
    number = batches.plan(deployment.name, None, None, [1], {}, reserved_ms=200)
    assert batches.register(number, MINE, 200)
    return number


def test_a_working_driver_keeps_its_batch(deployment: Site, batch: int) -> None:
    batches = own_state(deployment).batches
    first = batches.get(batch).reserved_until
    with Reservation(batches, batch, MINE, 200) as reservation:
        until("it is reserved for longer", lambda: batches.get(batch).reserved_until > first)
        assert reservation.is_held


def test_a_driver_notices_that_its_batch_is_taken_away(deployment: Site, batch: int) -> None:
    batches = own_state(deployment).batches
    with Reservation(batches, batch, MINE, 200) as reservation:
        batches.finish(batch)
        until("the driver notices", lambda: not reservation.is_held)


def test_an_unreachable_database_takes_no_batch_away(
    deployment: Site, batch: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batches = own_state(deployment).batches
    extend, answers = batches.extend, iter([DatabaseUnavailable("it restarts")])

    def flaky(*arguments: object) -> bool:
        for error in answers:
            raise error
        return extend(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(batches, "extend", flaky)
    first = batches.get(batch).reserved_until
    with Reservation(batches, batch, MINE, 200) as reservation:
        until("it is reserved for longer", lambda: batches.get(batch).reserved_until > first)
        assert reservation.is_held
    assert "it restarts" in caplog.text


OFTEN = 0.02


def test_progress_is_stored_while_there_is_some_and_goes_with_its_block(deployment: Site) -> None:
    rows, work = own_state(deployment).runs, UnderWay()
    with ProgressWriter(deployment, work, OFTEN):
        tell = work.begin(7, [100, 300])
        until("its units are known", lambda: 7 in rows.progress(deployment.name, [7]))
        tell(0, 1.0)
        until("one of them is done", lambda: rows.progress(deployment.name, [7])[7].bytes_done == 100)
    assert rows.progress(deployment.name, [7]) == {}


def test_short_work_writes_nothing(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("nothing was to be written")

    for name in ("record_progress", "forget_progress"):
        monkeypatch.setattr(Runs, name, fail)
    with ProgressWriter(deployment, UnderWay(), 60):
        pass


def test_a_database_that_does_not_answer_stops_nothing(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, work = own_state(deployment).runs, UnderWay()
    put, errors = Runs.record_progress, iter([DatabaseUnavailable("it restarts")])

    def flaky(*arguments: object) -> None:
        for error in errors:
            raise error
        put(*arguments)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(Runs, "record_progress", flaky)
    with ProgressWriter(deployment, work, OFTEN):
        tell = work.begin(7, [100])
        until("the error is met", lambda: next(errors, None) is None)
        tell(0, 0.5)
        until("the next round writes", lambda: 7 in rows.progress(deployment.name, [7]))
