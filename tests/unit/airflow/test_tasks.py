from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compactor.airflow import tasks
from compactor.airflow.tasks import are_under_way, is_success
from compactor.base.errors import BadSetting, NotFound, Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.requests.abort import abort_compaction
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.passes import settle
from tests.support.tables import insert, make_table


@pytest.mark.parametrize("state", State)
def test_each_state_is_under_way_or_went_well_or_did_not(state: State) -> None:
    assert are_under_way({1: state.label}) == (state in {State.INITIATED, State.WORKING})
    assert is_success(state.label) == (state in {State.READY_FOR_CLEANING, State.SUCCEEDED, State.REFUSED})


@pytest.fixture
def site(deployment: Site, warehouse: Path, metastore_url: str, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Tables fa, fb and g, which tasks find by their environment."""
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    monkeypatch.setenv("COMPACTOR_WAREHOUSE", str(warehouse))
    for name in ("fa", "fb", "g"):
        table = make_table(deployment, warehouse, name)
        for value in (1, 2):
            insert(deployment, table, [value])
    return deployment


ARGUMENTS = {
    "partition": None,
    "type": "major",
    "pool": None,
    "properties": {},
    "buckets": None,
    "order_by": None,
}


def test_patterns_stand_for_tables_and_each_table_comes_once(site: Site) -> None:
    assert tasks.list_tables("default", ["default.g", "default.f*", "DEFAULT.FA"]) == [
        "default.g",
        "default.fa",
        "default.fb",
    ]
    with pytest.raises(NotFound, match=r"no transactional table matches 'other\.\*'"):
        tasks.list_tables("default", ["default.g", "other.*"])
    with pytest.raises(NotFound, match=r"default\.h"):
        tasks.list_tables("default", ["default.h"])


def test_what_compactions_read_and_wrote_is_told_by_table(site: Site) -> None:
    ids = [
        one.entry_id for name in ("fa", "g") for one in request_compaction(site, table=f"default.{name}", type="major")
    ]
    assert tasks.sum_run_figures("default", ids) == {}
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    found = tasks.sum_run_figures("default", ids)
    assert list(found) == ["default.fa", "default.g"]
    counted = {"rows_in": 2, "rows_out": 2, "files_in": 2, "files_out": 2}
    assert {key: found["default.fa"][key] for key in counted} == counted
    assert found["default.fa"]["bytes_in"] > 0 < found["default.fa"]["bytes_out"]
    assert tasks.tracking_url("default", ids) is None


def test_people_are_shown_what_a_cleaning_left(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = tmp_path / "settled.toml"
    configuration.write_text('[metastore.default.settings]\n"hive.txn.opentxn.timeout" = "1ms"\n')
    monkeypatch.setenv("COMPACTOR_CONFIG", str(configuration))
    request_compaction(site, table="default.fa", type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    assert obsolete_directories(site) == 2
    settle()
    assert tasks.clean_once("default")["cleaned"]
    assert obsolete_directories(site) == 0


def obsolete_directories(site: Site) -> int:
    """Returns how many obsolete directories the page shows of the only table that was looked at."""
    assert site.state is not None
    (seen,) = site.state.conditions.page(site.name, limit=9)
    assert seen.condition is not None
    return seen.condition.obsolete


def test_commits_are_told_in_plain_values_from_the_first_look_on(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    seen, news = tasks.read_commits("default", "default.g", None)
    assert news is None
    insert(site, site.metastore.catalog.table("default", "g"), [3])
    now, news = tasks.read_commits("default", "default.g", json.loads(json.dumps(seen)))
    wanted = {"table": "default.g", "commits": 1, "first_write_id": 3, "last_write_id": 3, "partitions": []}
    assert (json.loads(json.dumps(news)), now == seen) == (wanted, False)
    for unknown in ({"of": "another release"}, {"table": None, "write_ids": "a:b"}, "text"):
        assert tasks.read_commits("default", "default.g", unknown) == (now, None)  # type: ignore[arg-type]
    assert caplog.text.count("from now on are reported") == 3


def test_a_dry_run_queues_nothing(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger=tasks.__name__):
        plans = tasks.dry_run("default", ["default.fa", "default.g"], ARGUMENTS)
    assert [(one["table"], one["type"]) for one in plans] == [("default.fa", "major"), ("default.g", "major")]
    assert all(int(str(one["input_bytes"])) > 0 for one in plans)
    assert "major default.g: reads" in caplog.text
    assert site.metastore.entries.queue() == []


def test_a_table_already_queued_does_not_stop_the_others(site: Site) -> None:
    first = tasks.request("default", ["default.fa"], ARGUMENTS)
    assert len(tasks.request("default", ["default.fa", "default.fb"], ARGUMENTS)) == 1
    with pytest.raises(Refused, match=f"id={first[0]}"):
        tasks.request("default", ["default.fa"], ARGUMENTS)


def test_the_worker_takes_the_pools_that_it_is_limited_to(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The requests of other pools are neither counted for it nor planned."""
    for table, pool in (("fa", "pilot"), ("fb", "etl"), ("g", None)):
        request_compaction(site, table=table, pool=pool)
    assert tasks.count_waiting(site) == {"pilot": 1, "etl": 1, "": 1}
    monkeypatch.setenv("AIRFLOW__COMPACTOR__ONLY_POOLS", "pilot,default")
    assert tasks.count_waiting(site) == {"pilot": 1, "": 1}
    assert {batch["pool_name"] for batch in tasks.plan("default")} == {"pilot", None}
    monkeypatch.delenv("AIRFLOW__COMPACTOR__ONLY_POOLS")
    assert {batch["pool_name"] for batch in tasks.plan("default")} == {"etl"}


def test_no_more_batches_are_planned_than_airflow_maps(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest stays unreserved, for the next run. The oldest requests come first."""
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
    for table, pool in (("g", "x"), ("fa", "y"), ("fb", None)):
        request_compaction(site, table=table, pool=pool)
    assert [batch["pool_name"] for batch in tasks.plan("default")] == ["x", "y"]
    assert tasks.count_waiting(site) == {"": 1}
    assert [batch["pool_name"] for batch in tasks.plan("default")] == [None]


def test_no_more_due_tables_are_listed_than_airflow_maps(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(11):
        insert(site, site.metastore.catalog.table("default", "fa"), [1])
    for _ in range(12):
        insert(site, site.metastore.catalog.table("default", "g"), [1])

    def list_due() -> list[object]:
        return [due["table"] for due in tasks.list_due("default", table=None, partition=None, database="default")]

    assert list_due() == ["default.g", "default.fa"]
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "1")
    assert list_due() == ["default.g"]


def test_another_try_of_a_request_finds_what_the_first_one_has_requested(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ti = SimpleNamespace(dag_id="compact_table", run_id="r", task_id="request", map_index=-1)
    monkeypatch.setattr(tasks.waiting_batches, "current_task", lambda: ti)
    first = tasks.request("default", ["default.fa"], ARGUMENTS)
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    again = tasks.request("default", ["default.fa", "default.fb"], ARGUMENTS)
    assert again[:1] == first
    assert len(again) == 2
    assert tasks.request("default", ["default.fa", "default.fb"], ARGUMENTS) == again
    abort_compaction(site, again[1])
    [kept, repeated] = tasks.request("default", ["default.fa", "default.fb"], ARGUMENTS)
    assert (kept, repeated > again[1]) == (first[0], True)
    monkeypatch.setattr(ti, "run_id", "another")
    with pytest.raises(Refused, match=f"id={first[0]}"):
        tasks.request("default", ["default.fa"], ARGUMENTS)


HEARD: list[Mapping[str, Any]] = []
LIMIT = "hive.compactor.oldest.initiated.compaction.time.threshold.warning"


def notifier(context: Mapping[str, Any]) -> None:
    HEARD.append(context)


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    kept: dict[str, str] = {}
    monkeypatch.setattr(tasks.Variable, "get", lambda key, default=None: kept.get(key, default))
    monkeypatch.setattr(tasks.Variable, "set", lambda key, value: kept.update({key: value}))
    return kept


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    sent: dict[str, float] = {}
    monkeypatch.setattr(tasks.stats, "gauge", lambda name, value: sent.update({name: value}))
    return sent


@pytest.fixture
def late(
    deployment: Site, warehouse: Path, metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Site:
    """A request that nobody takes, where none may wait for longer than a millisecond."""
    config = tmp_path / "compactor.toml"
    config.write_text(f'[metastore.default.settings]\n"{LIMIT}" = "1ms"\n', "utf-8")
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    monkeypatch.setenv("COMPACTOR_WAREHOUSE", str(warehouse))
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", str(config))
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    request_compaction(deployment, table="t")
    HEARD.clear()
    return deployment


def test_an_alarm_is_measured_each_time_and_notified_once(
    late: Site, variables: dict[str, str], gauges: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__NOTIFIER", f"{__name__}.notifier")
    monkeypatch.setattr(tasks, "import_string", lambda path: notifier)
    for _ in range(2):
        (found,) = tasks.report_alarms("default", {"run_id": "r"})
        assert found["name"] == "oldest_initiated_compaction"
    assert gauges["compactor.default.initiated"] == 1
    assert gauges["compactor.default.alarms"] == 1
    (heard,) = HEARD
    assert (heard["metastore"], heard["run_id"], len(heard["alarms"])) == ("default", "r", 1)
    late.metastore.claims.abort_request(late.metastore.entries.queue()[0].id)
    assert tasks.report_alarms("default", {}) == []
    assert json.loads(variables[tasks.alarms_variable("default")]) == []
    assert gauges["compactor.default.alarms"] == 0
    request_compaction(late, table="t")
    tasks.report_alarms("default", {})
    assert len(HEARD) == 2


@pytest.mark.usefixtures("late", "gauges", "variables")
def test_without_a_notifier_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert len(tasks.report_alarms("default", {})) == 1
    assert "a request has waited for" in caplog.text


@pytest.mark.parametrize(
    ("path", "message"), [("no.such.thing", "cannot be imported"), ("pathlib.Path", "an instance of a notifier")]
)
def test_a_bad_notifier_is_named(monkeypatch: pytest.MonkeyPatch, path: str, message: str) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__NOTIFIER", path)
    with pytest.raises(BadSetting, match=message):
        tasks.load_notifier()


def test_a_notifier_of_airflow_works(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk import BaseNotifier

    class Noting(BaseNotifier):
        def notify(self, context: Any) -> None:
            HEARD.append(context)

    monkeypatch.setenv("AIRFLOW__COMPACTOR__NOTIFIER", "site.alerts.noting")
    monkeypatch.setattr(tasks, "import_string", lambda path: Noting())
    assert callable(tasks.load_notifier())
