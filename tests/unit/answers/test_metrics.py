from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from compactor import __version__
from compactor.answers.fleet import fleet
from compactor.answers.metrics import MetastoreCollector, read_now, registry_of
from compactor.answers.readings import take_readings
from compactor.base.errors import DatabaseUnavailable
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.initiator.initiator import initiate
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.tables import insert, make_table, with_settings

DEPLOYED = Path(__file__).parents[3] / "docker" / "prometheus"
_METRIC = re.compile(r"\bcompactor_[a-z0-9_]+")


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    site = with_settings(deployment, hive_compactor_delta_num_threshold="3")
    for name, deltas in (("done", 4), ("due", 5)):
        table = make_table(site, warehouse, name)
        for value in range(deltas):
            insert(site, table, [value])
    request_compaction(site, table="default.done", type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    initiate(site)
    return site


def told(registry: CollectorRegistry) -> dict[str, dict[tuple[str, ...], float]]:
    """Returns the value of each metric by its other labels, sorted by their names, as a parser reads them."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("metastore") == "default"
            found.setdefault(sample.name, {})[tuple(labels.values())] = sample.value
    return found


def test_they_say_what_the_readings_and_the_overview_say(site: Site) -> None:
    found, readings, over = told(registry_of(read_now(site))), take_readings(site), fleet(site)
    assert list(found["compactor_up"].values()) == [1]
    assert found["compactor_initiated"] == {(): readings.initiated} == {(): 1}
    assert found["compactor_ready_for_cleaning"] == {(): 1}
    assert found["compactor_due"] == {(): over.due}
    assert found["compactor_runs"] == {("7",): 1, ("30",): 1}
    assert found["compactor_runs_fewer_directories"][("30",)] == over.returns[1].fewer_directories == 3
    assert found["compactor_removed_files"][("30",)] == over.returns[1].removed_files == 0
    assert sum(found["compactor_health"].values()) == 2
    assert found["compactor_looked_at_seconds"][()] == pytest.approx((over.looked_at or 0) / 1000)
    assert "compactor_alarm" not in found


def test_ages_are_seconds_and_alarms_have_their_level(site: Site) -> None:
    strict = with_settings(
        site,
        hive_compactor_oldest_initiated_compaction_time_threshold_warning="0ms",
        hive_compactor_oldest_initiated_compaction_time_threshold_error="0ms",
    )
    found = told(registry_of(read_now(strict)))
    assert 0 < found["compactor_oldest_initiated_seconds"][()] < 600
    assert found["compactor_alarm"] == {("fail", "oldest_initiated_compaction"): 1}


def test_a_metastore_that_is_away_is_down_and_nothing_else(site: Site) -> None:
    """A collector of metrics that raises takes the metrics of everything else with it."""

    @contextmanager
    def away() -> Iterator[Site]:
        raise DatabaseUnavailable("gone")
        yield site

    assert list(told(registry_of(MetastoreCollector("default", away))).items()) == [
        ("compactor_up", {(__version__,): 0.0})
    ]


def test_each_scrape_reads_anew(site: Site, warehouse: Path) -> None:
    @contextmanager
    def opened() -> Iterator[Site]:
        yield site

    registry = registry_of(MetastoreCollector("default", opened))
    before = told(registry)["compactor_initiated"]
    insert(site, make_table(site, warehouse, "new"), [1])
    request_compaction(site, table="default.new", type="major")
    assert (before, told(registry)["compactor_initiated"]) == ({(): 1}, {(): 2})


def test_rules_and_dashboard_ask_for_metrics_that_exist(site: Site) -> None:
    strict = with_settings(site, hive_compactor_oldest_initiated_compaction_time_threshold_warning="0ms")
    rules = yaml.safe_load((DEPLOYED / "rules.yml").read_text())
    asked = {rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"]}
    dashboard = json.loads((DEPLOYED / "dashboard.json").read_text())
    asked |= {panel["title"]: target["expr"] for panel in dashboard["panels"] for target in panel["targets"]}
    there = told(registry_of(read_now(strict))).keys()
    unknown = {name: _METRIC.findall(expr) for name, expr in asked.items() if not there >= {*_METRIC.findall(expr)}}
    assert unknown == {}
    assert all(_METRIC.findall(expr) for expr in asked.values())


def test_the_document_has_each_metric(site: Site) -> None:
    strict = with_settings(site, hive_compactor_oldest_initiated_compaction_time_threshold_warning="0ms")
    documented = set(
        _METRIC.findall((DEPLOYED.parents[1] / "docs" / "metrics.md").read_text().split("## All metrics")[1])
    )
    assert documented == told(registry_of(read_now(strict))).keys()
