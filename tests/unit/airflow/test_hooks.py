from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from compactor.airflow import tasks
from compactor.airflow.hooks import CompactorHook
from compactor.airflow.operators import CompactionSubmitOperator
from compactor.airflow.options import CONNECTION_TYPE
from demo.demo_folder import DemoPaths

SECRET = "postgresql://hive:geheim@db/metastore"


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection for the metastore ``archive`` only."""
    found = {
        "conn_type": CONNECTION_TYPE,
        "password": SECRET,
        "host": "/warehouse",
        "extra": {"hive_conf": "/etc/hive"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_COMPACTOR_ARCHIVE", json.dumps(found))
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONN_ID", "compactor_{metastore}")


def test_without_a_connection_configuration_says_it_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = DemoPaths(folder=tmp_path / "demo")
    place.make()
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", str(place.config))
    hook = CompactorHook()
    assert hook.connection() == {}
    with hook.get_conn() as site:
        assert site.metastore.database.url == place.url
    assert hook.test_connection() == (True, "metastore default answers")


def test_airflow_makes_the_hook_of_a_connection_for_its_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form's button *Test* leads from the connection's type to the hook, and to an answer of the metastore."""
    place = DemoPaths(folder=tmp_path / "demo")
    place.make()
    said = {"conn_type": CONNECTION_TYPE, "password": place.url, "host": str(place.warehouse)}
    monkeypatch.setenv("AIRFLOW_CONN_TRIED", json.dumps(said))
    hook = Connection(conn_id="tried", conn_type=CONNECTION_TYPE).get_hook()
    assert hook.test_connection() == (True, "metastore default answers")


@pytest.mark.usefixtures("connection")
def test_a_connection_says_where_the_metastore_is() -> None:
    assert CompactorHook("archive").connection() == {"url": SECRET, "warehouse": "/warehouse", "hive_conf": "/etc/hive"}


@pytest.mark.usefixtures("connection")
def test_the_configuration_is_that_of_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is opened: there is no such database."""
    (tmp_path / "compactor.toml").write_text('[metastore.archive.settings]\n"compactor.page.readers" = 9\n', "utf-8")
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", str(tmp_path / "compactor.toml"))
    given = {"password": SECRET, "conn_type": CONNECTION_TYPE, "host": "/warehouse"}
    monkeypatch.setenv("AIRFLOW_CONN_COMPACTOR_ARCHIVE", json.dumps(given))
    found = CompactorHook("archive").configuration()
    assert (found.url, found.warehouse) == (SECRET, "/warehouse")
    assert found.settings.integer("compactor.page.readers") == 9


@pytest.mark.usefixtures("connection")
def test_a_configured_connection_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise AirflowNotFoundException("The conn_id isn't defined")

    monkeypatch.setattr(CompactorHook, "get_connection", missing)
    with pytest.raises(AirflowNotFoundException):
        CompactorHook("other").connection()


@pytest.mark.usefixtures("connection")
def test_the_driver_inherits_the_password_and_nobody_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not on the command line, in Spark's configuration, or in Airflow's record of the task."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "yarn"}')
    monkeypatch.setenv("AIRFLOW__COMPACTOR__DRIVER_LOGS", str(tmp_path))
    monkeypatch.setattr(tasks, "record_launch", lambda *launch: None)
    monkeypatch.setattr(CompactionSubmitOperator, "_secret_conf", lambda self: {})
    program = tmp_path / "spark-submit"
    program.write_text(f"#!/bin/sh\nenv > {tmp_path}/environment\n", "utf-8")
    program.chmod(0o755)
    operator = CompactionSubmitOperator(task_id="compact", metastore="archive", batch_id=1, spark_binary=str(program))
    operator._launch({"ti": None})
    environment = (tmp_path / "environment").read_text("utf-8")
    assert f"COMPACTOR_METASTORE_URL={SECRET}\n" in environment
    assert SECRET not in os.environ.values()
    line = operator.prepare_launch().command
    assert "geheim" not in " ".join(map(str, line))
    assert "geheim" not in repr(operator.env_vars)


@pytest.mark.usefixtures("connection")
def test_the_other_metastores_are_known_to_the_hook_and_to_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 11.13: one without a connection may be in compactor.toml, which drivers read themselves."""
    monkeypatch.setenv("AIRFLOW__COMPACTOR__METASTORES", "default,archive,third")
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", "sqlite:////x.db")
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONN_ID", "")
    assert [other.name for other in CompactorHook().configuration().others] == ["archive", "third"]
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONN_ID", "compactor_{metastore}")
    of_third = CompactorHook("third", conn_id="compactor_archive").driver_environment()
    others = json.loads(of_third["COMPACTOR_OTHER_METASTORES"])
    assert others == {"archive": {"url": SECRET, "warehouse": "/warehouse", "hive_conf": "/etc/hive"}}
    assert "COMPACTOR_OTHER_METASTORES" not in CompactorHook("archive").driver_environment()
