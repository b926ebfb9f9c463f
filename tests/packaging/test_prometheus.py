"""Alert rules, dashboard and endpoint with the real Prometheus and its promtool."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from compactor.answers.metrics import MetastoreCollector, registry_of
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cli.metrics_server import serve_metrics
from compactor.initiator.initiator import initiate
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.tables import insert, make_table, with_settings

DEPLOYED = Path(__file__).parents[2] / "docker" / "prometheus"
RULES = DEPLOYED / "rules.yml"
DASHBOARD = json.loads((DEPLOYED / "dashboard.json").read_text("utf-8"))
ASKED = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def promtool(*arguments: str, given: str = "") -> None:
    done = subprocess.run(["promtool", *arguments], input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_prometheus_own() -> None:
    promtool("check", "rules", "--lint-fatal", str(RULES))


def test_each_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    written = (Path(__file__).parent / "alert_rules.yml").read_text("utf-8").replace("{{rules}}", str(RULES))
    told = {one["alertname"] for case in yaml.safe_load(written)["tests"] for one in case["alert_rule_test"]}
    rules = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    assert told == {rule["alert"] for group in rules for rule in group["rules"]}
    (tmp_path / "test.yml").write_text(written, "utf-8")
    promtool("test", "rules", str(tmp_path / "test.yml"))


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    """A table that was compacted, one that waits, and an alarm."""
    site = with_settings(
        deployment,
        hive_compactor_delta_num_threshold="3",
        hive_compactor_oldest_initiated_compaction_time_threshold_warning="0ms",
        hive_compactor_oldest_initiated_compaction_time_threshold_error="0ms",
    )
    for name in ("done", "due"):
        table = make_table(site, warehouse, name)
        for value in range(5):
            insert(site, table, [value])
    request_compaction(site, table="default.done", type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    initiate(site)
    return site


@pytest.fixture
def endpoint(site: Site) -> Iterator[int]:
    @contextmanager
    def opened() -> Iterator[Site]:
        yield site

    with serve_metrics("127.0.0.1", 0, registry_of(MetastoreCollector("default", opened))) as port:
        yield port


class Prometheus:
    """A server of Debian's package over one target."""

    def __init__(self, folder: Path, target: int) -> None:
        self.port = free_port()
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "compactor", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
        options = {
            "config.file": folder / "prometheus.yml",
            "storage.tsdb.path": folder / "data",
            "web.listen-address": f"127.0.0.1:{self.port}",
        }
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["prometheus", *(f"--{name}={value}" for name, value in options.items())], stdout=log, stderr=log
            )

    def ask(self, path: str, **parameters: str) -> Any:
        """Returns the data of an answer; None while there is none."""
        assert self._process.poll() is None
        with suppress(OSError):
            query = urllib.parse.urlencode(parameters)
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=30) as answer:
                return json.load(answer)["data"]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)


@pytest.fixture
def prometheus(tmp_path: Path, endpoint: int) -> Iterator[Prometheus]:
    server = Prometheus(tmp_path, endpoint)
    try:
        yield server
    finally:
        server.stop()


def test_what_is_served_is_as_prometheus_wants_it(endpoint: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{endpoint}/metrics", timeout=30) as answer:
        promtool("check", "metrics", given=answer.read().decode())


def test_every_panel_and_rule_finds_what_it_asks_for(prometheus: Prometheus) -> None:
    def scraped() -> Any:
        found = prometheus.ask("query", query="compactor_up")
        return found and found["result"]

    [up] = until("the first scrape", scraped)
    assert (up["metric"]["metastore"], up["value"][1]) == ("default", "1")
    empty = [
        expr
        for expr in ASKED
        if not prometheus.ask("query", query=expr.replace("$metastore", "default"))["result"]
        and "oldest_open_txn" not in expr
    ]
    assert empty == []

    def rules() -> dict[str, tuple[str, str]]:
        groups = prometheus.ask("rules")["groups"]
        return {rule["name"]: (rule["health"], rule["state"]) for group in groups for rule in group["rules"]}

    def pending() -> bool:
        return {name for name, (_, state) in rules().items() if state == "pending"} == {"CompactorAlarm"}

    until("the rules", pending)
    assert {health for health, _ in rules().values()} == {"ok"}
