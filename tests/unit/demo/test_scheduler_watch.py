"""Progress of the demo and when it gives up, with servers that answer from a script."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.site.site import Site
from demo import scheduler_watch as module
from demo.demo_folder import DemoPaths
from demo.scheduler_watch import DAGS, SchedulerWatch
from demo.servers import AirflowServers, ServersFailed


class Answers:
    """The calls of Airflow's REST API that the demo makes."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs / "component-logs"
        self.runs: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str]] = []

    def check(self) -> None:
        return

    def call(self, method: str, path: str, body: Any = None) -> Any:
        self.calls.append((method, path))
        if path.endswith("/taskInstances"):
            return {"task_instances": [{"task_id": "compact", "state": "failed"}]}
        if method == "POST" and path.endswith("/dagRuns"):
            return {"dag_run_id": "manual__1"}
        if "importErrors" in path:
            return {"import_errors": self.errors}
        if "dagRuns" in path:
            return {"dag_runs": list(reversed(self.runs))}
        return {"dags": [{"dag_id": dag} for dag in DAGS]}

    def run(self, dag: str, run: str, state: str) -> None:
        kind = run.partition("__")[0]
        self.runs = [r for r in self.runs if r["dag_run_id"] != run]
        self.runs.append({"dag_id": dag, "dag_run_id": run, "state": state, "run_type": kind})


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    place = DemoPaths(folder=tmp_path / "demo")
    place.make()
    with place.site() as site:
        yield site


@pytest.fixture
def servers(tmp_path: Path) -> Answers:
    return Answers(tmp_path)


@pytest.fixture
def story(site: Site, servers: Answers, monkeypatch: pytest.MonkeyPatch) -> SchedulerWatch:
    monkeypatch.setattr(module, "_POLL", 0.01)
    return SchedulerWatch(cast(AirflowServers, servers), site, Console(file=StringIO(), width=200))


def told(story: SchedulerWatch) -> str:
    return str(story._console.file.getvalue())  # type: ignore[attr-defined]


def test_consumers_of_events_are_unpaused_before_producers(story: SchedulerWatch, servers: Answers) -> None:
    story.prepare()
    patched = [path.rpartition("/")[2] for method, path in servers.calls if method == "PATCH"]
    assert patched == list(DAGS)
    assert patched.index("compaction_worker") < patched.index("compaction_initiator")
    assert ("POST", "/api/v2/pools") in servers.calls


def test_a_dag_file_that_cannot_be_imported_ends_it(story: SchedulerWatch, servers: Answers) -> None:
    servers.errors = [{"stack_trace": "SyntaxError: oh"}]
    with pytest.raises(ServersFailed, match="cannot be imported: SyntaxError: oh"):
        story.prepare()


def test_each_change_is_reported_once(story: SchedulerWatch, servers: Answers) -> None:
    servers.run("compaction_worker", "asset_triggered__1", "running")
    story.wait("x", lambda: True, 1)
    story.wait("x", lambda: True, 1)
    servers.run("compaction_worker", "asset_triggered__1", "success")
    story.wait("x", lambda: story.has_succeeded("compaction_worker", "asset_triggered"), 1)
    assert told(story).count("compaction_worker running (asset triggered)") == 1
    assert told(story).count("compaction_worker success (asset triggered)") == 1
    assert not story.has_succeeded("compaction_worker", "scheduled")
    assert not story.has_succeeded("compaction_worker", times=2)


def test_a_failed_run_ends_it_with_the_log_of_its_task(story: SchedulerWatch, servers: Answers, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "dag_id=compaction_worker" / "run_id=manual__1" / "task_id=compact" / "attempt=1.log"
    log.parent.mkdir(parents=True)
    log.write_text("no space left on device", "utf-8")
    servers.run("compaction_worker", "manual__1", "failed")
    with pytest.raises(ServersFailed, match=r"(?s)task compact.*no space left on device"):
        story.wait("x", lambda: False, 5)


def test_a_failed_compaction_ends_it_with_the_error_of_its_row(story: SchedulerWatch, site: Site) -> None:
    entity = Entity(database="d", table="t")
    request = Request(entity=entity, type=CompactionType.MAJOR, initiator="test")
    number = site.metastore.requests.request(request)
    entry = site.metastore.entries.get(number)
    site.metastore.claims.finish(entry, State.FAILED, "a bad file")
    with pytest.raises(ServersFailed, match=r"d\.t failed: a bad file"):
        story.wait("x", lambda: False, 5)


def test_a_late_response_is_requested_again(
    story: SchedulerWatch, servers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = servers.call
    late = iter([TimeoutError("timed out")])

    def call(method: str, path: str, body: Any = None) -> Any:
        for error in late:
            raise error
        return answers(method, path, body)

    monkeypatch.setattr(servers, "call", call)
    servers.run("compaction_worker", "scheduled__1", "success")
    story.wait("x", lambda: story.has_succeeded("compaction_worker"), 300)


def test_a_time_out_says_what_was_waited_for(story: SchedulerWatch) -> None:
    with pytest.raises(ServersFailed, match=r"did not happen within 0 s: the sun rises\. Queue: empty"):
        story.wait("the sun rises", lambda: False, 0.05)


def test_all_is_compacted_when_each_has_ended_well_and_nothing_waits(story: SchedulerWatch, site: Site) -> None:
    entity = Entity(database="d", table="t")
    assert story.are_compacted([])
    number = site.metastore.requests.request(Request(entity=entity, type=CompactionType.MAJOR, initiator="test"))
    assert not story.are_compacted([])
    site.metastore.claims.abort_request(number)
    assert not story.are_compacted([entity])


def test_a_run_is_triggered_as_the_form_does(story: SchedulerWatch, servers: Answers) -> None:
    assert story.trigger("compact_table", {"table": "demo.t"}) == "manual__1"
    assert ("POST", "/api/v2/dags/compact_table/dagRuns") in servers.calls


def test_a_failure_that_is_part_of_the_story_ends_nothing(
    site: Site, servers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POLL", 0.01)
    entity, other = Entity(database="d", table="t"), Entity(database="d", table="other")
    story = SchedulerWatch(cast(AirflowServers, servers), site, Console(file=StringIO(), width=200), [entity])
    servers.run("compact_table", "manual__0", "failed")
    with pytest.raises(ServersFailed, match="compact_table failed"):
        story.wait("x", lambda: False, 5)
    number = site.metastore.requests.request(Request(entity=entity, type=CompactionType.MAJOR, initiator="test"))
    site.metastore.claims.finish(site.metastore.entries.get(number), State.FAILED, "a bad file")
    servers.run("compaction_worker", "manual__1", "failed")
    story.wait("x", lambda: story.find_failure(entity) is not None, 1)
    assert story.find_failure(other) is None
    number = site.metastore.requests.request(Request(entity=other, type=CompactionType.MAJOR, initiator="test"))
    site.metastore.claims.finish(site.metastore.entries.get(number), State.FAILED, "another")
    with pytest.raises(ServersFailed, match=r"d\.other failed: another"):
        story.wait("x", lambda: False, 5)
