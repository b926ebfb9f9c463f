"""From a crossed threshold to the compacted table, hop by hop: ``python benchmarks/latency.py [tables]``.

A real Airflow (API server, scheduler, triggerer, DAG processor), an embedded metastore, a resident application on this
machine; every interval has its default. A table's last write crosses its threshold at a random moment. Hops are medians
over all tables; results go to ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.report import Row, as_text, machine_facts, progress, write_results
from compactor.compaction.queue_entry import Entry
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, own_state
from compactor.state.batches import Batch, BatchState
from demo.demo_folder import DemoPaths
from demo.servers import AirflowServers
from tests.support.tables import insert, make_table

ROOT = Path(__file__).parents[1]
BAR = 20.0  #: seconds
DELTAS = 3  #: the last one crosses the threshold
SETTLED = 12.0  #: seconds without a change for the sensor: two of its polls
PATIENCE = 300.0  #: seconds that any step may take
#: A driver that outlives its task and waits for more batches. Everything else of the section has its default.
RESIDENT = {
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__COMPACTOR__LAUNCHER": "process",
    "AIRFLOW__COMPACTOR__LINGER": "900",
    "PYTHONPATH": str(ROOT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HopTimes:
    """The times at which a table's compaction reached each hop, in seconds after its threshold was crossed.

    The run of the worker's DAG is listed besides: a resident application polls the queue itself.
    """

    seen: float  #: by the trigger in the triggerer
    initiator: float  #: its task began
    requested: float
    planned: float  #: a batch has it
    taken: float  #: by the resident application
    committed: float
    worker_run: float

    def hops(self) -> dict[str, float]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Lab:
    """The servers and their metastore."""

    def __init__(self, place: DemoPaths, site: Site, servers: AirflowServers) -> None:
        self._place = place
        self._site = site
        self._servers = servers

    def wait_until_ready(self) -> None:
        """Waits until the DAGs run and, after the compaction of a first table, an application is resident."""
        self._until("DAGs", lambda: self._runs("compaction_initiator"))
        self._compacted(self._crossed("first")[0])
        batches = own_state(self._site).batches
        self._until("a resident application", lambda: batches.residents(self._site.name))

    def measure_hops(self, name: str) -> HopTimes:
        """Returns the times of one new table."""
        table, crossed = self._crossed(name)
        entry, batch = self._compacted(table)
        seen, began = self._until(name, lambda: self._scan_before(entry))
        assert entry.enqueue_time is not None
        assert entry.commit_time is not None
        assert batch.started_at is not None
        requested, committed = entry.enqueue_time / 1000, entry.commit_time / 1000
        worker = self._until(name, lambda: self._began_after("compaction_worker", requested))
        times = (seen, began, requested, batch.planned_at / 1000, batch.started_at / 1000, committed, worker)
        return HopTimes(**{field.name: at - crossed for field, at in zip(fields(HopTimes), times, strict=True)})

    def _crossed(self, name: str) -> tuple[Table, float]:
        """Makes a table and crosses its threshold; returns the table and the time of the last commit."""
        threshold = {"compactorthreshold.hive.compactor.delta.num.threshold": str(DELTAS - 1)}
        table = make_table(self._site, self._place.warehouse, name, **threshold)
        for start in range(DELTAS - 1):
            insert(self._site, table, range(4 * start, 4 * start + 4))
        self._settle()
        time.sleep(random.uniform(0, 5))
        insert(self._site, table, range(4 * DELTAS))
        return table, time.time()

    def _settle(self) -> None:
        """Waits until earlier tables are cleaned and scanned: the sensor waits, and no run follows on its own."""
        self._until(
            "the sensor waits",
            lambda: time.time() - self._newest_waits() >= SETTLED and not self._site.metastore.entries.queue(),
        )

    def _newest_waits(self) -> float:
        """Returns the time when the initiator's newest run began to wait; the present if it does something else."""
        newest = self._runs("compaction_initiator")[0]
        changed = self._tasks(newest)["changed"]
        return _epoch(changed["start_date"]) if changed["state"] == "deferred" else time.time()

    def _compacted(self, table: Table) -> tuple[Entry, Batch]:
        entry = self._until(f"{table} is compacted", lambda: self._entry_of(table))
        (batch,) = (
            batch for batch in own_state(self._site).batches.find(self._site.name) if entry.id in batch.entry_ids
        )
        assert batch.state in (BatchState.RUNNING, BatchState.DONE)
        return entry, batch

    def _entry_of(self, table: Table) -> Entry | None:
        entries = self._site.metastore.entries
        of_table = (entry for entry in (*entries.queue(), *entries.history()) if entry.entity.table == table.name)
        return next((entry for entry in of_table if entry.commit_time is not None), None)

    def _scan_before(self, entry: Entry) -> tuple[float, float] | None:
        """Returns the times when the sensor that led to the request ended and when its initiator's task began."""
        assert entry.enqueue_time is not None
        for run in self._runs("compaction_initiator"):
            tasks = self._tasks(run)
            began = tasks["initiate"]["start_date"]
            if began is not None and _epoch(began) <= entry.enqueue_time / 1000:
                return _epoch(tasks["changed"]["end_date"]), _epoch(began)
        return None

    def _began_after(self, dag: str, moment: float) -> float | None:
        """Returns the time when the first run of ``dag`` queued after ``moment`` began."""
        runs = (run for run in reversed(self._runs(dag)) if run["start_date"] and _epoch(run["queued_at"]) >= moment)
        return next((_epoch(run["start_date"]) for run in runs), None)

    def _runs(self, dag: str) -> list[Mapping[str, Any]]:
        """Returns the newest runs, newest first."""
        answer = self._servers.call("GET", f"/api/v2/dags/{dag}/dagRuns?limit=10&order_by=-run_after")
        return list(answer["dag_runs"])

    def _tasks(self, run: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """Returns the tasks of a run without mapped tasks, by name."""
        path = f"/api/v2/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances"
        return {task["task_id"]: task for task in self._servers.call("GET", path)["task_instances"]}

    def _until(self, what: str, look: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not (result := look()):
            self._servers.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {PATIENCE:.0f} s; {self._servers.logs}")
            time.sleep(0.3)
        return result


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@contextmanager
def running(folder: Path) -> Iterator[Lab]:
    """Runs Airflow over an empty metastore."""
    place = DemoPaths(folder=folder / "place")
    place.make()
    more = RESIDENT | {"AIRFLOW__COMPACTOR__CONFIG": str(place.config)}
    with AirflowServers(place.airflow, ROOT / "dags", more) as servers, place.site() as site:
        servers.start()
        yield Lab(place, site, servers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="?", type=int, default=10)
    options = parser.parse_args()
    facts = machine_facts()
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        progress("starting Airflow and a resident application")
        with running(Path(folder)) as lab:
            lab.wait_until_ready()
            for number in range(options.tables):
                measured.append(lab.measure_hops(f"t{number}"))
                progress("  ".join(f"{name} {at:.1f}" for name, at in measured[-1].hops().items()))
    hops = {name: median(times.hops()[name] for times in measured) for name in measured[0].hops()}
    slowest = max(times.committed for times in measured)
    row = Row(
        work="threshold crossed to compacted, resident, s",
        bar=BAR,
        measured=hops["committed"],
        details=hops | {"slowest": slowest},
    )
    sys.stdout.write("\n" + as_text([row], facts, []))
    write_results([row], facts, [], name="latency")


if __name__ == "__main__":
    main()
