"""Each example of docs/your-own-dags.md on a real scheduler, beside Compactor's own DAGs."""

from __future__ import annotations

import email
import email.policy
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compactor.compaction.states import State
from compactor.site.site import Site
from demo.demo_folder import DemoPaths
from demo.servers import AirflowServers, ServersFailed
from tests.support.mail_sink import MailSink
from tests.support.patience import until
from tests.support.tables import insert, make_table

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = re.compile(r"```python\n# (?P<name>\w+)\.py\n(?P<code>.*?)```", re.DOTALL)
EXAMPLES = {
    found["name"]: found["code"] for found in EXAMPLE.finditer((ROOT / "docs" / "your-own-dags.md").read_text("utf-8"))
}
TABLES = (("shop", "orders", 12), ("shop", "customers", 2), ("events", "clicks", 1), ("events", "visits", 1))
OURS = ("compaction_initiator", "compaction_worker", "compaction_cleaner", "acid_housekeeper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Airflow:
    servers: AirflowServers
    place: DemoPaths
    mail: MailSink

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

    def links(self, dag: str, run: str, task: str) -> dict[str, str | None]:
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/links"
        return dict(self.servers.call("GET", path)["extra_links"])

    def lineage(self, job: str) -> dict[str, Any]:
        """Returns the event with which OpenLineage tells of the end of a task."""

        def completed() -> dict[str, Any] | None:
            lines = (
                line for file in self.place.folder.glob("lineage*") for line in file.read_text("utf-8").splitlines()
            )
            events = (event for event in map(json.loads, lines) if event["job"]["name"] == job)
            return next((event for event in events if event["eventType"] == "COMPLETE"), None)

        return dict(until(f"the lineage of {job}", completed))

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
        for database, name, deltas in TABLES:
            table = make_table(site, place.warehouse, name, database=database, no_auto_compaction="true")
            for value in range(deltas):
                insert(site, table, [value])
    transport = {"type": "file", "log_file_path": str(place.folder / "lineage.jsonl"), "append": True}
    more = {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__COMPACTOR__CONFIG": str(place.config),
        "AIRFLOW__COMPACTOR__POLL_SECONDS": "1",
        "AIRFLOW__COMPACTOR__WORKER_INTERVAL": "600",
    }
    with MailSink() as mail, AirflowServers(place.airflow, dags, {**more, **_mail(mail)}) as servers:
        servers.start(timeout=900)
        servers.call("POST", "/api/v2/pools", {"name": "compaction", "slots": 1})
        started = Airflow(servers=servers, place=place, mail=mail)
        for dag in (*OURS, *EXAMPLES):
            until(f"DAG {dag}", partial(_unpaused, servers, dag), pause=1)
        yield started


def _mail(sink: MailSink) -> dict[str, str]:
    extra = {"disable_ssl": True, "disable_tls": True}
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": sink.port, "extra": extra}
    return {"AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(connection)}


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
    assert set(EXAMPLES) == {
        "load_orders",
        "load_customers",
        "compact_when_due",
        "after_orders",
        "after_commits",
        "compact_and_tell",
    }


def test_a_load_compacts_its_table_and_who_waits_for_it_starts(airflow: Airflow, site: Site) -> None:
    run = airflow.ask("load_orders")
    assert airflow.ended("load_orders", run) == "success", airflow.log("load_orders", run)
    (one,) = airflow.value("load_orders", run, "compact")
    assert (one["table"], one["type"]) == ("shop.orders", "major")
    assert one["because"].startswith("12 deltas > 10 (hive.compactor.delta.num.threshold)")
    assert one["state"] in (State.READY_FOR_CLEANING.label, State.SUCCEEDED.label)
    assert site.metastore.entries.get(one["compaction"]).entity.table == "orders"
    links = airflow.links("load_orders", run, "compact")
    assert links["Compactor"] == "/compactor/default/history?find=shop.orders"
    assert str(links["Spark"]).startswith("http://")
    event = airflow.lineage("load_orders.compact")
    [read], [written] = event["inputs"], event["outputs"]
    assert (
        (read["namespace"], read["name"])
        == (written["namespace"], written["name"])
        == ("hive://default", "shop.orders")
    )
    before, now = read["inputFacets"]["inputStatistics"], written["outputFacets"]["outputStatistics"]
    assert (before["rowCount"], before["fileCount"], now["rowCount"], now["fileCount"]) == (12, 12, 12, 2)
    assert before["size"] > now["size"] > 0
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


def test_a_failure_is_told_in_the_compactions_own_words(airflow: Airflow) -> None:
    run = airflow.ask("compact_and_tell", table="shop.lost")
    assert airflow.ended("compact_and_tell", run) == "failed"
    [raw] = until("the mail", lambda: airflow.mail.messages)
    message = email.message_from_string(raw, policy=email.policy.default)
    body = message.get_body()
    assert message["Subject"] == "compact_and_tell: compact has failed"
    assert body is not None
    assert "shop.lost" in body.get_content()


def test_who_watches_a_table_starts_with_each_commit_but_not_with_a_compaction(airflow: Airflow, site: Site) -> None:
    visits = site.metastore.catalog.table("events", "visits")

    def told() -> list[dict[str, Any]]:
        done = [run["dag_run_id"] for run in airflow.runs("after_commits") if run["state"] == "success"]
        return sorted(
            (one for run in done for one in airflow.value("after_commits", run, "refresh")),
            key=lambda one: int(one["first_write_id"]),
        )

    def first() -> list[dict[str, Any]]:
        insert(site, visits, [7])  # the watch may not have begun yet
        return told()

    until("the first event", first, pause=2)
    for value in range(11):
        insert(site, visits, [value])
    last = site.metastore.write_ids.next("events", "visits") - 1
    until("the last of them", lambda: told()[-1]["last_write_id"] == last, pause=1)
    run = airflow.ask("load_orders", table="events.visits")
    assert airflow.ended("load_orders", run) == "success", airflow.log("load_orders", run)
    assert [one["table"] for one in airflow.value("load_orders", run, "compact")] == ["events.visits"]
    insert(site, visits, [8])
    until("the next event", lambda: told()[-1]["last_write_id"] == last + 1, pause=1)
    found = told()
    assert found[-1] == {
        "table": "events.visits",
        "commits": 1,
        "first_write_id": last + 1,
        "last_write_id": last + 1,
        "partitions": [],
    }
    assert sum(one["commits"] for one in found) == last + 2 - found[0]["first_write_id"]
