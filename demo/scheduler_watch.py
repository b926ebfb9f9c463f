"""Watches the demo's scheduler and metastore: prints progress and waits for events."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import State
from compactor.site.site import Site
from demo.servers import AirflowServers, ServersFailed

#: In the order of unpausing: consumers of events first, so that no event reaches a paused DAG.
DAGS = ("compaction_cleaner", "compaction_worker", "acid_housekeeper", "compact_table", "compaction_initiator")
_POLL = 0.5


class SchedulerWatch:
    """Follows the scheduler and prints one line for each change."""

    def __init__(
        self, servers: AirflowServers, site: Site, console: Console, may_fail: Collection[Entity] = ()
    ) -> None:
        self._may_fail = frozenset(may_fail)  #: their failures are part of the story
        self._servers = servers
        self._site = site
        self._console = console
        self._start = time.monotonic()
        self._runs: dict[tuple[str, str], str] = {}
        self._queue = ""

    def report(self, text: str) -> None:
        """Prints one line of progress, with the seconds since the start."""
        self._console.print(f"[dim]{time.monotonic() - self._start:6.1f} s[/dim]  {text}", highlight=False)

    def prepare(self) -> None:
        """Creates the pool and unpauses the DAGs."""
        self._servers.call("POST", "/api/v2/pools", {"name": "compaction", "slots": 1})
        self.wait("all DAGs are known", self._are_dags_known, 300)
        for dag in DAGS:
            self._servers.call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})

    def _are_dags_known(self) -> bool:
        errors = self._servers.call("GET", "/api/v2/importErrors")["import_errors"]
        if errors:
            raise ServersFailed(f"a DAG file cannot be imported: {errors[0]['stack_trace']}")
        dags = self._servers.call("GET", "/api/v2/dags?limit=100")["dags"]
        return {dag["dag_id"] for dag in dags} >= set(DAGS)

    def are_merged(self, entities: Collection[Entity]) -> bool:
        """Returns true if all of ``entities`` are compacted, whether they are cleaned or wait for the cleaner."""
        entries = self._site.metastore.entries
        ready = entries.queue(states=(State.READY_FOR_CLEANING,))
        return self._list_succeeded() | {entry.entity for entry in ready} >= set(entities)

    def are_compacted(self, entities: Collection[Entity]) -> bool:
        """Returns true if all of ``entities`` are compacted and cleaned, and nothing else waits."""
        return self._list_succeeded() >= set(entities) and not self._site.metastore.entries.queue()

    def find_failure(self, entity: Entity) -> Entry | None:
        """Returns the newest failed compaction of ``entity``; None without one."""
        history = self._site.metastore.entries.history(table=(entity.database, entity.table))
        return max((e for e in history if e.state is State.FAILED), key=lambda entry: entry.id, default=None)

    def _list_succeeded(self) -> set[Entity]:
        return {e.entity for e in self._site.metastore.entries.history() if e.state is State.SUCCEEDED}

    def has_succeeded(self, dag: str, kind: str = "", times: int = 1) -> bool:
        """Returns true if at least ``times`` runs of ``dag`` with an id that begins with ``kind`` succeeded."""
        ended = [run for (d, run), state in self._runs.items() if d == dag and state == "success"]
        return sum(run.startswith(kind) for run in ended) >= times

    def trigger(self, dag: str, conf: Mapping[str, Any]) -> str:
        """Triggers ``dag`` as the form does and returns the run's id."""
        answer = self._servers.call("POST", f"/api/v2/dags/{dag}/dagRuns", {"logical_date": None, "conf": dict(conf)})
        return str(answer["dag_run_id"])

    def wait(self, what: str, done: Callable[[], bool], timeout: float) -> None:
        """Watches until ``done``.

        Raises:
            ServersFailed: a component ended, a run or a request failed, or ``timeout`` seconds have passed.
        """
        deadline = time.monotonic() + timeout
        while True:
            self._servers.check()
            if self._check(done):
                return
            if time.monotonic() > deadline:
                raise ServersFailed(f"this did not happen within {timeout:.0f} s: {what}. {self._describe_state()}")
            time.sleep(_POLL)

    def _check(self, done: Callable[[], bool]) -> bool:
        """Prints changes and checks ``done``; a call that fails on a busy machine is repeated the next time."""
        try:
            self._watch()
            return done()
        except OSError:
            return False

    def _watch(self) -> None:
        for run in self._list_changes():
            dag, state = run["dag_id"], run["state"]
            if state != "queued":
                self.report(f"{dag} [bold]{state}[/bold] ({run['run_type'].replace('_', ' ')})")
            if state == "failed" and not any(self.find_failure(entity) for entity in self._may_fail):
                reason = self._explain_failure(dag, run["dag_run_id"])
                raise ServersFailed(f"{dag} failed in run {run['dag_run_id']}: {reason}")
        queue = self._queue_text()
        if queue != self._queue:
            self._queue = queue
            self.report(f"compactions: {queue or 'none in the queue'}")
        failed = [e for e in self._site.metastore.entries.history() if e.state is State.FAILED]
        failed = [entry for entry in failed if entry.entity not in self._may_fail]
        if failed:
            raise ServersFailed(f"compaction {failed[0].id} of {failed[0].entity} failed: {failed[0].error}")

    def _list_changes(self) -> Iterator[Mapping[str, Any]]:
        runs: Sequence[Mapping[str, Any]] = self._servers.call(
            "GET", "/api/v2/dags/~/dagRuns?limit=100&order_by=-run_after"
        )["dag_runs"]
        for run in reversed(runs):
            key = (run["dag_id"], run["dag_run_id"])
            # The initiator's run always waits for a change, so its running state is not reported.
            if self._runs.get(key) != run["state"]:
                self._runs[key] = run["state"]
                if (run["dag_id"], run["state"]) != ("compaction_initiator", "running"):
                    yield run

    def _queue_text(self) -> str:
        counts: dict[str, int] = {}
        for entry in self._site.metastore.entries.queue():
            counts[entry.state.label] = counts.get(entry.state.label, 0) + 1
        return ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))

    def _explain_failure(self, dag: str, run: str) -> str:
        """Returns the failed task and the end of its log."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances"
        for task in self._servers.call("GET", path)["task_instances"]:
            if task["state"] == "failed":
                logs = (
                    self._servers.logs.parent
                    / "logs"
                    / f"dag_id={dag}"
                    / f"run_id={run}"
                    / f"task_id={task['task_id']}"
                )
                files = sorted(logs.rglob("*.log"))
                end = files[-1].read_text("utf-8", errors="replace")[-4000:] if files else "no log"
                return f"task {task['task_id']}, {logs}\n{end}"
        return "no task has failed"

    def _describe_state(self) -> str:
        runs = [f"{dag} {state}" for (dag, _), state in self._runs.items() if state != "success"]
        return f"Queue: {self._queue or 'empty'}. Runs: {', '.join(runs) or 'none open'}. Logs: {self._servers.logs}"
