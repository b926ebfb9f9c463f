"""The page as Airflow mounts it, over a real embedded metastore; users of each role come with Airflow's own tokens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import compactor
from compactor.site.site import Site
from demo.demo_folder import DemoPaths
from tests.support import airflow_home

VIEWS = ("overview", "tables", "queue", "blocked", "history", "settings")
STATIC = Path(compactor.__file__).parent / "airflow" / "page" / "static"
HERE = Path(__file__).resolve().parent
#: What libraries of Airflow warn of among themselves; nothing of ours can be done about it.
FOREIGN = ("ignore:Using `httpx` with `starlette.testclient` is deprecated",)
Caller = Callable[[str | None], Any]
Audit = Callable[[], list[tuple[str, str, dict[str, Any]]]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    pass_over_foreign(items, HERE)


def pass_over_foreign(items: list[pytest.Item], folder: Path) -> None:
    for item in items:
        if folder in item.path.parents:
            for warning in FOREIGN:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def application() -> Any:
    """Airflow's own application with the plugin's page in it."""
    airflow_home.migrate()
    from airflow.api_fastapi.app import create_app

    return create_app(apps="core")


@pytest.fixture
def place(tmp_path: Path, empty_metastore: Path, monkeypatch: pytest.MonkeyPatch) -> DemoPaths:
    """An empty embedded metastore that the page finds by Airflow's configuration."""
    made = DemoPaths(folder=tmp_path / "place")
    made.warehouse.mkdir(parents=True)
    made.write_config()
    shutil.copyfile(empty_metastore, made.folder / "metastore.db")
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", str(made.config))
    return made


@pytest.fixture
def site(place: DemoPaths) -> Iterator[Site]:
    """The same metastore, for tests to change and to look into."""
    with place.site() as opened:
        yield opened


@pytest.fixture
def client(application: Any, place: DemoPaths) -> Caller:
    """A client of one role (``admin``, ``op``, ``user``, ``viewer``), or of nobody."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from starlette.testclient import TestClient

    def make(role: str | None) -> TestClient:
        made = TestClient(application, base_url="http://testserver", raise_server_exceptions=False)
        if role is not None:
            user = SimpleAuthManagerUser(username=f"{role}-1", role=role)
            made.headers["Authorization"] = f"Bearer {get_auth_manager().generate_jwt(user)}"
        return made

    return make


@pytest.fixture
def audit(application: Any) -> Audit:
    """The rows of Airflow's audit log since this test began: event, user and what about."""
    from airflow.models import Log
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    with create_session() as session:
        before = session.scalar(select(func.max(Log.id))) or 0

    def read() -> list[tuple[str, str, dict[str, Any]]]:
        with create_session() as session:
            rows = session.scalars(select(Log).where(Log.id > before).order_by(Log.id)).all()
            return [(row.event, row.owner, json.loads(row.extra or "{}")) for row in rows]

    return read
