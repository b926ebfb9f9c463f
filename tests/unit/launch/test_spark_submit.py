"""A program that ends as spark-submit does, and what is told of the batch by its rows, not by the exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compactor.base.errors import ClusterUnavailable
from compactor.base.stop_signals import Stop
from compactor.batches.assembly import plan_batches
from compactor.batches.control import end_batch
from compactor.batches.driver import run_batch
from compactor.compaction.states import State
from compactor.launch import spark_submit
from compactor.launch.spark_submit import Fate, Launch, Launched
from compactor.launch.yarn_application import YarnApplication
from compactor.requests.abort import abort_compactions
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site, own_state
from compactor.state.batches import BatchState
from tests.support.tables import insert, make_table

NUMBER = "application_17_0001"
UNKNOWN = f"YarnException: Application {NUMBER} submitted by user x to unknown queue: nope"


class Manager:
    """A ResourceManager that knows one application."""

    def __init__(self, state: str, **more: Any) -> None:
        self.state = state
        self.more = more
        self.killed: list[str] = []

    def application(self, number: str) -> YarnApplication:
        return YarnApplication(
            id=number, state=self.state, final="UNDEFINED", queue="q", user="u", name="n", **self.more
        )

    def list_tagged(self, tag: str) -> tuple[YarnApplication, ...]:
        assert tag == "the-tag"
        return (self.application(NUMBER),)

    def driver_output(self, application: YarnApplication) -> str:
        return "2026-11-24 09:00:00,001 ERROR compactor: no database\n"

    def kill(self, number: str) -> bool:
        self.killed.append(number)
        return True


class Away(Manager):
    def list_tagged(self, tag: str) -> tuple[YarnApplication, ...]:
        raise ClusterUnavailable("nobody answers")


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    request_compaction(deployment, table="t")
    return deployment


def launched(site: Site, script: str, manager: Manager | None = None, *, is_cluster: bool = False) -> Launch:
    (batch,) = plan_batches(site)
    return Launch(
        site=site,
        batch=batch,
        line=["/bin/sh", "-c", script],
        environment=os.environ,
        is_cluster=is_cluster,
        tag="the-tag",
        stop=Stop(),
        manager=manager,  # type: ignore[arg-type]
    )


def entry(site: Site) -> State:
    (found,) = site.metastore.entries.queue()
    return found.state


def states(site: Site) -> list[BatchState]:
    return [batch.state for batch in own_state(site).batches.find(site.name)]


@pytest.mark.parametrize("text", [None, "#!/no/such/python\n", ""])
def test_a_spark_submit_that_does_not_start_gives_its_batch_back(site: Site, tmp_path: Path, text: str | None) -> None:
    program = tmp_path / "spark-submit"
    if text is not None:
        program.write_text(text, "utf-8")
        program.chmod(0o755)
    ended = replace(launched(site, ""), line=[str(program)]).run(None)
    assert (ended.fate, ended.exit_code, ended.is_fine) == (Fate.GIVEN_BACK, 127, False)
    assert f"batch 1: {program} cannot be started: " in (ended.message or "")
    assert "install hive-compactor[spark] or set SPARK_HOME" in (ended.message or "")
    assert (entry(site), states(site)) == (State.INITIATED, [BatchState.RELEASED])
    assert len(plan_batches(site)) == 1


def test_a_refused_application_gives_its_batch_back(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    found = launched(site, f"echo '{UNKNOWN}' >&2; exit 1").run(None)
    assert (found.fate, found.exit_code, found.is_fine) == (Fate.GIVEN_BACK, 1, False)
    assert f"batch 1: {NUMBER}: spark-submit ended with 1: Application application_17_0001 submitted by user x to " in (
        found.message or ""
    )
    assert "its requests wait for the next pass" in (found.message or "")
    assert UNKNOWN in capfd.readouterr().err  # all that spark-submit said is seen
    assert (states(site), entry(site)) == ([BatchState.RELEASED], State.INITIATED)
    assert len(plan_batches(site)) == 1  # nothing is reserved for ten minutes


@pytest.mark.parametrize(
    ("manager", "because"),
    [
        (Manager("FAILED", diagnostics="exit code 13"), "and YARN says FAILED: no database"),
        (Manager("KILLED", diagnostics="killed by user x\n"), "and YARN says KILLED: killed by user x"),
    ],
)
def test_who_knows_best_says_why(site: Site, manager: Manager, because: str) -> None:
    script = "echo 'Exception in thread \"main\" org.apache.spark.SparkException: failed status' >&2; exit 1"
    found = launched(site, script, manager, is_cluster=True).run(None)
    assert f"spark-submit ended with 1, {because}; the batch is given back" in (found.message or "")


def test_exit_code_0_is_no_proof(site: Site) -> None:
    """A second attempt that finds the batch given back ends well, and YARN says SUCCEEDED."""
    one = launched(site, "exit 0", Manager("FINISHED"))
    own_state(site).batches.register(one.batch.batch_id, "somebody", 60_000)
    own_state(site).batches.release(one.batch.batch_id)
    found = one.run(None)
    assert (found.fate, found.is_fine) == (Fate.GIVEN_BACK, False)
    assert "spark-submit ended with 0, and YARN says FINISHED, but the batch is released" in (found.message or "")


def test_what_was_done_is_done_whatever_the_exit_code(site: Site) -> None:
    one = launched(site, "exit 3")
    run_batch(site, one.batch.batch_id, InProcessRunner())
    assert one.run(None) == Launched(fate=Fate.DONE, exit_code=3)


@pytest.mark.parametrize(
    ("manager", "script", "fate"),
    [
        (Manager("RUNNING"), "exit 0", Fate.GOES_ON),
        (Manager("ACCEPTED"), "exit 1", Fate.GOES_ON),
        (Away("RUNNING"), "exit 0", Fate.GOES_ON),
        (Away("RUNNING"), "exit 1", Fate.GIVEN_BACK),
        (Manager("KILLED", diagnostics="Application killed by user root"), "exit 1", Fate.GIVEN_BACK),
    ],
)
def test_in_cluster_mode_an_application_may_go_on_without_spark_submit(
    site: Site, manager: Manager, script: str, fate: Fate
) -> None:
    found = launched(site, script, manager, is_cluster=True).run(None)
    assert found.fate is fate
    assert states(site) == [BatchState.RELEASED if fate is Fate.GIVEN_BACK else BatchState.PLANNED]


def test_cancelled_requests_end_an_application_that_waits(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "_LOOK_S", 0.05)
    manager = Manager("ACCEPTED")
    one = launched(site, "exec sleep 300", manager, is_cluster=True)
    abort_compactions(site, [entry.id for entry in end_batch(site, one.batch.batch_id)])
    found = one.run(None)
    assert manager.killed == [NUMBER]
    assert (found.exit_code, found.fate) == (-signal.SIGTERM, Fate.GIVEN_BACK)
    assert "its requests were cancelled" in (found.message or "")


def test_a_waiting_application_keeps_its_batch(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "_LOOK_S", 0.05)
    one = launched(site, "sleep 0.5; exit 0", Manager("ACCEPTED"), is_cluster=True)
    own_state(site).batches.set_application(one.batch.batch_id, NUMBER, -1)  # its reservation has ended
    assert one.run(None).fate is Fate.GOES_ON
    (batch,) = own_state(site).batches.find(site.name)
    assert batch.reserved_until > batch.read_at


def test_a_stop_ends_a_driver_here_and_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "_LOOK_S", 0.05)
    manager = Manager("RUNNING")
    one = launched(site, "exec sleep 300", manager)
    one.stop.request()
    assert "submit was stopped" in (one.run(None).message or "")
    assert manager.killed == [NUMBER]
    assert entry(site) is State.INITIATED
    there = Manager("RUNNING")
    other = launched(site, "exec sleep 300", there, is_cluster=True)
    other.stop.request()
    assert (other.run(None).fate, there.killed) == (Fate.GOES_ON, [])


def test_json() -> None:
    one = Launched(fate=Fate.GIVEN_BACK, exit_code=1, application=NUMBER, log_url="http://n/log", message="m")
    wanted: Mapping[str, object] = {
        "exit_code": 1,
        "state": "given back",
        "application": NUMBER,
        "log_url": "http://n/log",
        "message": "m",
    }
    assert one.to_json() == wanted
