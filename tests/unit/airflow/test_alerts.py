from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compactor.airflow import alerts
from compactor.base.errors import BadSetting
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from tests.support.tables import insert, make_table

HEARD: list[Mapping[str, Any]] = []
LIMIT = "hive.compactor.oldest.initiated.compaction.time.threshold.warning"


def notifier(context: Mapping[str, Any]) -> None:
    HEARD.append(context)


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    kept: dict[str, str] = {}
    monkeypatch.setattr(alerts.Variable, "get", lambda key, default=None: kept.get(key, default))
    monkeypatch.setattr(alerts.Variable, "set", lambda key, value: kept.update({key: value}))
    return kept


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    sent: dict[str, float] = {}
    monkeypatch.setattr(alerts.stats, "gauge", lambda name, value: sent.update({name: value}))
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
    monkeypatch.setattr(alerts, "import_string", lambda path: notifier)
    for _ in range(2):
        (found,) = alerts.watch("default", {"run_id": "r"})
        assert found["name"] == "oldest_initiated_compaction"
    assert gauges["compactor.default.initiated"] == 1
    assert gauges["compactor.default.alarms"] == 1
    (heard,) = HEARD
    assert (heard["metastore"], heard["run_id"], len(heard["alarms"])) == ("default", "r", 1)
    late.metastore.endings.abort_request(late.metastore.entries.queue()[0].id)
    assert alerts.watch("default", {}) == []
    assert json.loads(variables[alerts.variable("default")]) == []
    assert gauges["compactor.default.alarms"] == 0
    request_compaction(late, table="t")
    alerts.watch("default", {})
    assert len(HEARD) == 2


@pytest.mark.usefixtures("late", "gauges", "variables")
def test_without_a_notifier_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert len(alerts.watch("default", {})) == 1
    assert "a request has waited for" in caplog.text


@pytest.mark.parametrize(
    ("path", "message"), [("no.such.thing", "cannot be imported"), ("pathlib.Path", "an instance of a notifier")]
)
def test_a_bad_notifier_is_named(monkeypatch: pytest.MonkeyPatch, path: str, message: str) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__NOTIFIER", path)
    with pytest.raises(BadSetting, match=message):
        alerts.configured_notifier()


def test_a_notifier_of_airflow_works(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk import BaseNotifier

    class Noting(BaseNotifier):
        def notify(self, context: Any) -> None:
            HEARD.append(context)

    monkeypatch.setenv("AIRFLOW__COMPACTOR__NOTIFIER", "site.alerts.noting")
    monkeypatch.setattr(alerts, "import_string", lambda path: Noting())
    assert callable(alerts.configured_notifier())
