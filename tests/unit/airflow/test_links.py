from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from compactor.airflow import tasks
from compactor.airflow.links import HistoryLink, SparkLink


def link(metastore: str, **more: Any) -> str:
    operator: Any = SimpleNamespace(metastore=metastore, **more)
    return HistoryLink().get_link(operator, ti_key=None)


def test_the_history_is_the_tables_or_the_metastores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert link("archive", table="a.t") == "/compactor/archive/history?find=a.t"
    assert link("archive") == link("archive", table=object()) == "/compactor/archive/history"
    assert link("a", table="x&y= z") == "/compactor/a/history?find=x%26y%3D+z"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://etl.example/airflow/")
    assert link("archive") == "/airflow/compactor/archive/history"


def test_an_application_without_a_page_has_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "tracking_url", lambda metastore, ids: None)
    operator: Any = SimpleNamespace(metastore="m", compactions=[1])
    assert SparkLink().get_link(operator, ti_key=None) == ""
