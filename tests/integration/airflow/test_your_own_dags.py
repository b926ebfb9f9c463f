"""Each example of docs/your-own-dags.md on a real scheduler, beside Compactor's own DAGs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compactor.compaction.states import State
from compactor.demo.demo_folder import DemoPaths
from compactor.demo.servers import AirflowServers, ServersFailed
from compactor.service.site import Site
from tests.support.patience import until
from tests.support.tables import insert, make_table

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = re.compile(r"```python\n# (?P<name>\w+)\.py\n(?P<code>.*?)```", re.DOTALL)
EXAMPLES = {
    found["name"]: found["code"] for found in EXAMPLE.finditer((ROOT / "docs" / "your-own-dags.md").read_text("utf-8"))
}
OURS = ("compaction_initiator", "compaction_worker", "compaction_cleaner", "acid_housekeeper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Airflow:
    servers: AirflowServers
    place: DemoPaths

    def ask(self, dag: str, **conf: str) -> str:
        """Triggers a run and returns its id."""
        body = {"logical_date": None, "conf": conf}
        return str(self.servers.call("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"])

    def runs(self, dag: str) -> list[dict[str, Any]]:
        return list(self.servers.call("GET", f"/api/v2/dags/{dag}/dagRuns?limit=50")["dag_runs"])

    def ended(self, dag: str, run: str) -> str:
        """Returns the state in which the run ended."""

        def state() -> str | None:
            self.servers.check()
            (found,) = (one["state"] for one in self.runs(dag) if one["dag_run_id"] == run)
            return found if found in ("success", "failed") else None

        return str(until(f"the end of {dag}", state, pause=1))

    def value(self, dag: str, run: str, task: str, index: int = -1) -> Any:
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value?map_index={index}"
        return self.servers.call("GET", f"{path}&stringify=false")["value"]

    def log(self, dag: str, run: str) -> str:
        folder = self.servers.home / "logs" / f"dag_id={dag}" / f"run_id={run}"
        return "\n".join(file.read_text("utf-8", errors="replace") for file in sorted(folder.rglob("*.log")))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """The whole Airflow, over tables of two databases that no pass of the initiator may touch by itself."""
    folder = tmp_path_factory.mktemp("own")
    place = DemoPaths(folder=folder / "place")
    place.make()
    dags = folder / "dags"
    shutil.copytree(ROOT / "dags", dags)
    for name, code in EXAMPLES.items():
        (dags / f"{name}.py").write_text(code, "utf-8")
    with place.site() as site:
        for database, name, deltas in (("shop", "orders", 12), ("shop", "customers", 2), ("events", "clicks", 1)):
            table = make_table(site, place.warehouse, name, database=database, no_auto_compaction="true")
            for value in range(deltas):
                insert(site, table, [value])
    more = {
        "AIRFLOW__COMPACTOR__CONFIG": str(place.config),
        "AIRFLOW__COMPACTOR__POLL_SECONDS": "1",
        "AIRFLOW__COMPACTOR__WORKER_INTERVAL": "600",
    }
    with AirflowServers(place.airflow, dags, more) as servers:
        servers.start(timeout=900)
        servers.call("POST", "/api/v2/pools", {"name": "compaction", "slots": 1})
        started = Airflow(servers=servers, place=place)
        for dag in (*OURS, *EXAMPLES):
            until(f"DAG {dag}", partial(_unpaused, servers, dag), pause=1)
        yield started


def _unpaused(servers: AirflowServers, dag: str) -> bool:
    errors = servers.call("GET", "/api/v2/importErrors")["import_errors"]
    assert not errors, errors[0]["stack_trace"]
    try:
        servers.call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})
    except ServersFailed:
        return False
    return True


@pytest.fixture
def site(airflow: Airflow) -> Iterator[Site]:
    with airflow.place.site() as opened:
        yield opened


def test_every_example_of_the_document_is_here() -> None:
    assert set(EXAMPLES) == {"load_orders", "load_customers", "compact_when_due", "after_orders"}


def test_a_load_compacts_its_table_and_who_waits_for_it_starts(airflow: Airflow, site: Site) -> None:
    run = airflow.ask("load_orders")
    assert airflow.ended("load_orders", run) == "success", airflow.log("load_orders", run)
    (one,) = airflow.value("load_orders", run, "compact")
    assert (one["table"], one["type"]) == ("shop.orders", "major")
    assert one["because"].startswith("12 deltas > 10 (hive.compactor.delta.num.threshold)")
    assert one["state"] in (State.READY_FOR_CLEANING.label, State.SUCCEEDED.label)
    assert site.metastore.entries.get(one["compaction"]).entity.table == "orders"
    after = until("the run after it", lambda: airflow.runs("after_orders"), pause=1)
    started = after[0]["dag_run_id"]
    assert airflow.ended("after_orders", started) == "success", airflow.log("after_orders", started)
    assert airflow.value("after_orders", started, "refresh") == [{"compactions": [one["compaction"]]}]


def test_a_run_that_is_cleared_asks_for_nothing_twice(airflow: Airflow, site: Site) -> None:
    run = airflow.ask("load_customers")
    assert airflow.ended("load_customers", run) == "success", airflow.log("load_customers", run)
    (one,) = airflow.value("load_customers", run, "compact_customers")
    assert (one["table"], one["type"], one["because"]) == ("shop.customers", "major", "it was asked for")
    airflow.servers.call(
        "POST",
        "/api/v2/dags/load_customers/clearTaskInstances",
        {"dag_run_id": run, "dry_run": False, "only_failed": False, "reset_dag_runs": True},
    )
    assert airflow.ended("load_customers", run) == "success", airflow.log("load_customers", run)
    (again,) = airflow.value("load_customers", run, "compact_customers")
    assert (again["compaction"], again["because"]) == (one["compaction"], "it was asked for already")


def test_what_crosses_a_threshold_ends_the_wait(airflow: Airflow, site: Site) -> None:
    run = airflow.ask("compact_when_due")
    task = f"/api/v2/dags/compact_when_due/dagRuns/{run}/taskInstances/due"
    until("the wait", lambda: airflow.servers.call("GET", task)["state"] == "deferred", pause=1)
    clicks = site.metastore.catalog.table("events", "clicks")
    for value in range(11):
        insert(site, clicks, [value])
    assert airflow.ended("compact_when_due", run) == "success", airflow.log("compact_when_due", run)
    found = airflow.value("compact_when_due", run, "due")
    assert [(one["table"], one["type"]) for one in found] == [("events.clicks", "major")]
    (one,) = airflow.value("compact_when_due", run, "compact", index=0)
    assert one["state"] in (State.READY_FOR_CLEANING.label, State.SUCCEEDED.label)


def test_a_request_that_cannot_be_fails_the_task_with_our_message(airflow: Airflow) -> None:
    run = airflow.ask("load_orders", table="shop.gone")
    assert airflow.ended("load_orders", run) == "failed"
    assert "shop.gone" in airflow.log("load_orders", run)
