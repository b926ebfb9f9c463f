"""A real Airflow database for ``dag.test()``, and small metastores for its tasks to work on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demo.demo_folder import DemoPaths
from tests.support.airflow_home import migrate, prepare

HOME = prepare()
HERE = Path(__file__).resolve().parent
#: What libraries of Airflow warn of among themselves; nothing of ours can be done about it.
FOREIGN = ("ignore:Using `httpx` with `starlette.testclient` is deprecated",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            for warning in FOREIGN:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def airflow_database() -> Path:
    """Airflow's tables, made once."""
    migrate()
    return HOME


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoPaths:
    """An empty embedded metastore that the tasks find by Airflow's configuration."""
    made = DemoPaths(folder=tmp_path / "place")
    made.make()
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", str(made.config))
    monkeypatch.setenv("AIRFLOW__COMPACTOR__POLL_SECONDS", "0.05")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    return made


@pytest.fixture
def run_dag(airflow_database: Path) -> Callable[..., Any]:
    """Runs a DAG of ``dags/compaction.py`` in this process, deferral and all; the DAG run is returned."""

    def run(dag_id: str, **conf: Any) -> Any:
        from compactor.airflow.dags import compaction_dags

        metastore = dag_id.partition("__")[2] or "default"
        (dag,) = (dag for dag in compaction_dags(metastore) if dag.dag_id == dag_id)
        return dag.test(run_conf=conf or None)

    return run
