"""One AIRFLOW_HOME for a whole test session, set before anything imports Airflow."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_MARK = "COMPACTOR_TEST_AIRFLOW_HOME"


def prepare() -> Path:
    """Makes the home and points the environment at it; every call uses the same one.

    Raises:
        RuntimeError: Airflow is imported already, with whatever home it found.
    """
    if _MARK in os.environ:
        return Path(os.environ[_MARK])
    if "airflow" in sys.modules:
        raise RuntimeError("airflow is imported already; call prepare() in a conftest.py, before the first import")
    home = Path(tempfile.mkdtemp(prefix="compactor-airflow-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in [name for name in os.environ if name.startswith("AIRFLOW_")]:
        del os.environ[name]
    os.environ.update(
        {
            _MARK: str(home),
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(_ROOT / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
            "AIRFLOW__API_AUTH__JWT_SECRET": "of the tests alone " * 4,
        }
    )
    return home


def migrate() -> None:
    """Creates Airflow's tables in the home if they are missing."""
    home = prepare()
    if not (home / "airflow.db").exists():
        subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True, cwd=home)
