from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from compactor.airflow import operators
from compactor.airflow.operators import APPLICATION, CompactionSubmitOperator, driver_environment, spark_binary


def submit(**more: Any) -> CompactionSubmitOperator:
    values = {"metastore": "archive", "batch_id": 41, "queue_name": "etl", "run_as": "hive", "conf": {"spark.x": "1"}}
    return CompactionSubmitOperator(task_id="compact", **values | more)


def command(operator: CompactionSubmitOperator) -> list[str]:
    return list(operator._get_hook()._build_spark_submit_command(operator.application))


@pytest.fixture
def no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    from airflow.sdk.exceptions import AirflowNotFoundException

    def missing(*_: Any) -> None:
        raise AirflowNotFoundException("The conn_id `spark_default` isn't defined")

    monkeypatch.setattr(operators.BaseHook, "get_connection", missing)


def test_the_command_line_has_names_and_numbers_only(no_connection: None) -> None:
    line = command(submit())
    assert line[-5:] == [str(APPLICATION), "--metastore", "archive", "--batch", "41"]
    assert line[line.index("--queue") + 1] == "etl"
    assert line[line.index("--proxy-user") + 1] == "hive"
    assert "spark.x=1" in line


def test_without_a_connection_spark_runs_here(no_connection: None) -> None:
    line = command(submit())
    assert line[line.index("--master") + 1] == "local[*]"


def test_a_connection_says_which_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "spark://m", "port": 7077}')
    line = command(submit())
    assert line[line.index("--master") + 1] == "spark://m:7077"
    assert line[line.index("--queue") + 1] == "etl"


def test_no_queue_and_no_user_leave_them_out(no_connection: None) -> None:
    line = command(submit(queue_name=None, run_as=None))
    assert "--queue" not in line
    assert "--proxy-user" not in line


def test_a_table_property_is_never_rendered_as_a_template() -> None:
    """``conf`` holds values of table properties; a template in one would read Airflow's variables and connections."""
    assert tuple(CompactionSubmitOperator.template_fields) == ()
    with DAG("d", schedule=None):
        operator = submit(conf={"spark.executor.memory": "{{ var.value.secret }}"})
    operator.render_template_fields({}, operator.get_template_env())
    assert operator.conf == {"spark.executor.memory": "{{ var.value.secret }}"}


def test_the_application_stands_alone_in_its_folder() -> None:
    """spark-submit puts the folder on sys.path: a neighbour named like a module would hide it."""
    assert [p.name for p in APPLICATION.parent.glob("*.py") if p.name != "__init__.py"] == ["worker.py"]


def test_the_driver_learns_where_the_configuration_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    assert driver_environment() == {"PYSPARK_PYTHON": sys.executable}
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", "/etc/c.toml")
    assert driver_environment()["COMPACTOR_CONFIG"] == "/etc/c.toml"


def test_spark_submit_is_the_one_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    binary = tmp_path / "spark-submit"
    binary.touch(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert spark_binary() == "spark-submit"


def test_spark_submit_is_else_the_one_beside_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert spark_binary() == str(Path(sys.executable).with_name("spark-submit"))


def test_an_absolute_path_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__SPARK_BINARY", "/opt/spark/bin/spark-submit")
    assert spark_binary() == "/opt/spark/bin/spark-submit"
