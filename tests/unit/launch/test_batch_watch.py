from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from compactor.base.errors import ClusterUnavailable
from compactor.batches import control
from compactor.batches.assembly import plan_batches
from compactor.batches.control import BatchStatus
from compactor.batches.driver import run_batch
from compactor.compaction.states import State
from compactor.launch import batch_watch, driver_processes
from compactor.launch.batch_watch import BatchProgress, NextStep, decide_next_step, read_progress
from compactor.launch.yarn_application import YarnApplication
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.deployment import open_deployment
from compactor.site.site import Site, own_state
from tests.support.tables import insert, make_table


def progress(status: BatchStatus, *still_open: int) -> BatchProgress:
    return BatchProgress(batch_id=1, status=status, still_open=still_open)


@pytest.mark.parametrize(
    ("status", "still_open", "launches", "wanted"),
    [
        (BatchStatus.WAITS, (1,), 0, NextStep.LAUNCH),
        (BatchStatus.UNDER_WAY, (1,), 0, NextStep.WATCH),
        (BatchStatus.UNDER_WAY, (), 1, NextStep.WATCH),
        (BatchStatus.LOST, (1,), 0, NextStep.RENEW),
        (BatchStatus.LOST, (1,), 2, NextStep.RENEW),
        (BatchStatus.LOST, (), 1, NextStep.CONCLUDE),
        (BatchStatus.RELEASED, (1,), 1, NextStep.RENEW),
        (BatchStatus.RELEASED, (), 0, NextStep.CONCLUDE),
        (BatchStatus.ENDED, (), 0, NextStep.CONCLUDE),
        (BatchStatus.ENDED, (1,), 1, NextStep.CONCLUDE),
        (BatchStatus.ENDED, (1,), 0, NextStep.RENEW),
    ],
)
def test_the_next_step(status: BatchStatus, still_open: tuple[int, ...], launches: int, wanted: NextStep) -> None:
    assert decide_next_step(progress(status, *still_open), launches) is wanted


@pytest.mark.parametrize(
    ("still_open", "claimed", "is_reserved", "expected"),
    [
        ((), (), True, NextStep.CONCLUDE),  # another batch or a worker without one has compacted all
        ((1, 2), (1, 2), True, NextStep.CONCLUDE),  # others work on them
        ((1, 2), (1,), True, NextStep.LAUNCH),
        ((1,), (), False, NextStep.RENEW),  # another planner may have taken it
    ],
)
def test_nothing_is_launched_without_an_open_entry(
    still_open: tuple[int, ...], claimed: tuple[int, ...], is_reserved: bool, expected: NextStep
) -> None:
    waits = BatchProgress(
        batch_id=1, status=BatchStatus.WAITS, still_open=still_open, claimed=claimed, is_reserved=is_reserved
    )
    assert decide_next_step(waits, 0) is expected


def test_an_ended_batch_is_not_launched_again_while_others_work_on_its_entries() -> None:
    ended = BatchProgress(batch_id=1, status=BatchStatus.ENDED, still_open=(1,), claimed=(1,))
    assert decide_next_step(ended, 0) is NextStep.CONCLUDE


def test_only_news_is_reported() -> None:
    first = BatchProgress(batch_id=3, status=BatchStatus.UNDER_WAY, entries={1: "a.b: initiated", 2: "a.c: initiated"})
    second = BatchProgress(
        batch_id=3,
        status=BatchStatus.UNDER_WAY,
        tracking_url="http://h:4040",
        entries={1: "a.b: working", 2: "a.c: initiated"},
    )
    assert first.list_news(None) == ["compaction 1 of a.b: initiated", "compaction 2 of a.c: initiated"]
    assert second.list_news(first) == ["batch 3: Spark shows it at http://h:4040", "compaction 1 of a.b: working"]
    assert second.list_news(second) == []


@pytest.fixture
def planned(deployment: Site, warehouse: Path, metastore_url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Site, int]:
    """A batch of one table, in a metastore that a driver finds by its environment."""
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    monkeypatch.setenv("COMPACTOR_WAREHOUSE", str(warehouse))
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    request_compaction(deployment, table=str(table))
    (batch,) = plan_batches(deployment)
    return deployment, batch.batch_id


def test_from_planned_to_ended(planned: tuple[Site, int]) -> None:
    site, batch = planned
    assert read_progress(site, batch).status is BatchStatus.WAITS
    control.record_launch(site, batch, "application_1")
    found = read_progress(site, batch)
    assert (found.status, found.application, len(found.still_open)) == (BatchStatus.UNDER_WAY, "application_1", 1)
    assert found.compacted == {}
    with open_deployment() as other:
        run_batch(other, batch, InProcessRunner())
    found = read_progress(site, batch)
    assert (found.status, found.still_open, found.failed) == (BatchStatus.ENDED, (), {})
    assert list(found.entries.values()) == ["default.t: ready for cleaning"]
    assert found.compacted == {("default", "t"): tuple(found.entries)}


def test_a_driver_that_is_a_dead_process_is_lost_at_once(planned: tuple[Site, int], tmp_path: Path) -> None:
    site, batch = planned
    name = driver_processes.start(["true"], dict(os.environ), tmp_path / "log")
    os.waitpid(int(name.split(":")[2]), 0)
    control.record_launch(site, batch, name)
    assert read_progress(site, batch).status is BatchStatus.LOST
    assert batch_watch.renew(site, batch, "its driver died")
    assert read_progress(site, batch).status is BatchStatus.WAITS


def test_a_release_keeps_the_requests_and_an_abort_ends_them(planned: tuple[Site, int]) -> None:
    site, batch = planned
    batch_watch.release(site, batch, "its task was cleared")
    assert read_progress(site, batch).status is BatchStatus.RELEASED
    assert [e.state for e in site.metastore.entries.queue()] == [State.INITIATED]
    assert batch_watch.renew(site, batch, "again")
    batch_watch.abort(site, batch)
    assert site.metastore.entries.queue() == []
    assert [e.state for e in site.metastore.entries.history()] == [State.ABORTED]


def test_a_failed_entry_says_why(planned: tuple[Site, int]) -> None:
    site, batch = planned
    (number,) = own_state(site).batches.get(batch).entry_ids
    entry = site.metastore.claims.claim("compactor-worker-h-1-x", "1", pool_timeout_ms=0, ids=[number])
    assert entry is not None
    site.metastore.claims.finish(entry, State.FAILED, "bucket_00000 is damaged")
    found = read_progress(site, batch)
    assert found.failed == {number: f"compaction {number} of default.t: failed: bucket_00000 is damaged"}


def yarn(state: str, said: str = "") -> SimpleNamespace:
    """A ResourceManager on which every application is in this state."""

    def application(number: str) -> YarnApplication:
        return YarnApplication(
            id=number,
            state=state,
            final="UNDEFINED",
            queue="q",
            user="u",
            name="n",
            diagnostics=said,
            log_url="http://n/l",
        )

    return SimpleNamespace(application=application, driver_output=lambda one: "", kill=lambda number: True)


def test_an_application_that_has_ended_on_yarn_is_lost_at_once(
    planned: tuple[Site, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, batch = planned
    control.record_launch(site, batch, "application_17_0001")
    monkeypatch.setattr(batch_watch, "configured_manager", lambda environ: yarn("KILLED", "killed by user x"))
    found = read_progress(site, batch)
    assert found.status is BatchStatus.LOST
    assert "batch 1: application_17_0001 has ended: YARN says KILLED: killed by user x" in found.list_news(None)
    monkeypatch.setattr(batch_watch, "configured_manager", lambda environ: None)
    assert read_progress(site, batch).status is BatchStatus.UNDER_WAY


def test_a_batch_stays_reserved_while_its_application_waits_for_its_queue(
    planned: tuple[Site, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, batch = planned
    batches = own_state(site).batches
    batches.set_application(batch, "application_17_0001", 5_000)
    monkeypatch.setattr(batch_watch, "configured_manager", lambda environ: yarn("ACCEPTED"))
    found = read_progress(site, batch)
    assert "batch 1: its driver's log is at http://n/l" in found.list_news(None)
    after = batches.get(batch)
    assert after.reserved_until - after.read_at > 5_000
    assert not found.is_pointless
    batches.register(batch, "compactor-driver-h-1-x", 5_000)
    assert read_progress(site, batch).has_driver
    assert batches.get(batch).reserved_until - after.read_at < 60_000  # its driver sees to that by itself


ID = "application_17_0001"


class Manager:
    """A ResourceManager with two applications of one tag."""

    def __init__(self, state: str = "RUNNING", final: str = "UNDEFINED", said: str = "") -> None:
        self.listed = YarnApplication(
            id=ID, state=state, final=final, queue="q", user="u", name="n", diagnostics=said, tags=frozenset({"t"})
        )
        self.killed: list[str] = []

    def application(self, number: str) -> YarnApplication | None:
        return self.listed if number == ID else None

    def list_tagged(self, tag: str) -> tuple[YarnApplication, ...]:
        return (self.listed,)

    def driver_output(self, application: YarnApplication) -> str:
        return "" if application.final == "SUCCEEDED" else "2026-11-24 09:00:00,001 ERROR compactor: no database\n"

    def kill(self, number: str) -> bool:
        self.killed.append(number)
        return True


class Away:
    def __getattr__(self, name: str) -> object:
        def ask(_: str) -> None:
            raise ClusterUnavailable("nobody answers")

        return ask


def use_manager(monkeypatch: pytest.MonkeyPatch, manager: object) -> None:
    monkeypatch.setattr(batch_watch, "configured_manager", lambda environ: manager)


def test_what_yarn_says(monkeypatch: pytest.MonkeyPatch) -> None:
    use_manager(monkeypatch, Manager())
    assert batch_watch.describe_end(ID) is None
    assert batch_watch.find_running("t") == ID
    use_manager(monkeypatch, Manager("KILLED", "KILLED", "killed by user x\n"))
    assert batch_watch.describe_end(ID) == "YARN says KILLED: killed by user x"
    assert batch_watch.find_running("t") is None
    use_manager(monkeypatch, Manager("FINISHED", "FAILED", "exit code 13"))
    assert batch_watch.describe_end(ID) == "YARN says FINISHED, FAILED: no database"
    use_manager(monkeypatch, Manager("FINISHED", "SUCCEEDED"))
    assert batch_watch.describe_end(ID) == "YARN says FINISHED, SUCCEEDED"


@pytest.mark.parametrize("manager", [None, Away()])
def test_where_nobody_can_be_asked_the_rows_decide(monkeypatch: pytest.MonkeyPatch, manager: object) -> None:
    use_manager(monkeypatch, manager)
    assert batch_watch.describe_end(ID) is None
    assert batch_watch.find_running("t") is None
    batch_watch.end_application(ID)


def test_of_others_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    use_manager(monkeypatch, manager := Manager("KILLED", "KILLED"))
    for name in (None, "etl:compactor-8f-driver", "process:elsewhere:1:2", "application_17_0009"):
        assert batch_watch.describe_end(name) is None
        assert batch_watch.find_application(manager, name) is None
    for name in (None, "etl:compactor-8f-driver"):
        batch_watch.end_application(name)
    batch_watch.end_application(ID)
    assert manager.killed == []  # it has ended
    use_manager(monkeypatch, manager := Manager())
    batch_watch.end_application(ID)
    assert manager.killed == [ID]


def test_a_process_of_this_machine(tmp_path: Path) -> None:
    name = driver_processes.start(["true"], dict(os.environ), tmp_path / "log")
    os.waitpid(int(name.split(":")[2]), 0)
    assert batch_watch.describe_end(name) == "its process is gone"
