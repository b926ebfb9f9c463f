"""The operators with the oldest Airflow that ``pyproject.toml`` allows, and the connection of Airflow's Spark provider.

All other tests run with the newest Airflow.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".tools" / "bin" / "uv"
_TESTS = [
    f"tests/unit/airflow/test_{name}.py"
    for name in ("operators", "spark_launch", "hooks", "compact_table", "sensors", "dags")
]
_NO_SPARK = "tests/unit/airflow/test_operators.py::test_spark_submit_is_else_the_one_beside_python"
_PROVIDER = "apache-airflow-providers-apache-spark"
#: The oldest release that describes the form of its connection as data, and the newest.
_PROVIDERS = (f"{_PROVIDER}==5.6.0", _PROVIDER)
_FIELDS = """
import json
from airflow.providers.apache.spark.get_provider_info import get_provider_info
from compactor.airflow.spark_launch import READ_FIELDS, UNREAD_FIELDS
types = {form["connection-type"]: form for form in get_provider_info()["connection-types"]}
print(json.dumps([sorted(types["spark"]["conn-fields"]), sorted(READ_FIELDS), sorted(UNREAD_FIELDS)]))
"""
Run = Callable[..., str]


def find_lower_bound() -> str:
    """Returns the oldest release that the extra ``airflow`` allows, as pip's requirement."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["airflow"]
    (bound,) = (
        re.fullmatch(r"(apache-airflow)>=([0-9]+\.[0-9]+\.[0-9]+)(?:,.*)?", requirement) for requirement in extra
    )
    assert bound is not None, extra
    return f"{bound[1]}=={bound[2]}"


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """The Python of an environment with the oldest Airflow, and how to run a program next to it."""
    folder = tmp_path_factory.mktemp("oldest")
    python = folder / "venv" / "bin" / "python"
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"UV_SYSTEM_CERTS": "true", "AIRFLOW_HOME": str(folder / "airflow")}

    def run(*line: str | Path) -> str:
        ended = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{line}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
        return ended.stdout

    run(UV, "venv", "--python", sys.executable, folder / "venv")
    tools = ("pytest", "pytest-xdist", "hypothesis", "requests", "apache-airflow-providers-openlineage")
    run(UV, "pip", "install", "--python", python, find_lower_bound(), *tools, "-e", ROOT)
    return python, run


def test_the_operators_run_with_the_oldest_airflow(oldest: tuple[Path, Run]) -> None:
    """No Spark provider is installed: the operators start spark-submit themselves."""
    python, run = oldest
    run(
        python,
        "-c",
        "import importlib.util as u, airflow.providers; assert not u.find_spec('airflow.providers.apache')",
    )
    output = run(
        *(python, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", "ignore"),
        *("--deselect", _NO_SPARK, *_TESTS),
    )
    assert re.search(r"\b\d+ passed", output)
    assert "failed" not in output


@pytest.mark.parametrize("provider", _PROVIDERS)
def test_the_fields_of_the_providers_connection_are_known(oldest: tuple[Path, Run], provider: str) -> None:
    """A new field of the form is either read by us or left to the provider's operators, knowingly."""
    python, run = oldest
    run(UV, "pip", "install", "--python", python, "--no-deps", "--reinstall", provider)
    form, read, unread = map(set, json.loads(run(python, "-c", _FIELDS)))
    assert form - unread == read
