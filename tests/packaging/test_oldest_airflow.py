"""The operators with the oldest Airflow and Spark provider that ``pyproject.toml`` allows.

All other tests run with the newest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".tools" / "bin" / "uv"
_TESTS = ("tests/unit/airflow/test_operators.py", "tests/unit/airflow/test_hooks.py")
_NO_SPARK = "tests/unit/airflow/test_operators.py::test_spark_submit_is_else_the_one_beside_python"


def lower_bounds() -> list[str]:
    """Returns the oldest releases that the extra ``airflow`` allows, as pip's requirements."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["airflow"]
    bounds = [re.fullmatch(r"([a-z-]+)>=([0-9.]+)(?:,.*)?", requirement) for requirement in extra]
    return [f"{bound[1]}=={bound[2]}.0" for bound in bounds if bound is not None]


def test_the_operators_run_with_the_oldest_provider(tmp_path: Path) -> None:
    """They build on names of the provider that are no interface, so both ends of what is allowed must have them."""
    bounds = lower_bounds()
    assert [bound.partition("==")[0] for bound in bounds] == ["apache-airflow", "apache-airflow-providers-apache-spark"]
    venv = tmp_path / "venv"
    (tmp_path / "overrides.txt").write_text("pyspark-client ; python_version < '3'\n", "utf-8")
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"UV_SYSTEM_CERTS": "true", "AIRFLOW_HOME": str(tmp_path / "airflow")}

    def run(*line: str | Path) -> str:
        ended = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{line}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
        return ended.stdout

    run(UV, "venv", "--python", sys.executable, venv)
    given = ("--override", tmp_path / "overrides.txt")
    tools = ("pytest", "pytest-xdist", "hypothesis", "requests", "apache-airflow-providers-openlineage")
    run(UV, "pip", "install", "--python", venv / "bin" / "python", *given, *bounds, *tools, "-e", ROOT)
    said = run(
        *(venv / "bin" / "python", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", "ignore"),
        *("--deselect", _NO_SPARK, *_TESTS),
    )
    assert re.search(r"\b\d+ passed", said)
    assert "failed" not in said
