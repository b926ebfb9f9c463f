"""What every test may ask for. Nothing in here starts Spark, Airflow or a server."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from compactor.metastore.store import Metastore
    from compactor.service.site import Site

# The same examples in every run, so that red is red for everybody; HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A developer's own metastore is no test material.
for _name in [name for name in os.environ if name.startswith("COMPACTOR_")]:
    del os.environ[_name]


_MEMORY = Path("/dev/shm")


def pytest_configure(config: pytest.Config) -> None:
    """Temporary directories in memory where there is such a place: what is tested syncs to disk at every step."""
    if config.option.basetemp is None and os.access(_MEMORY, os.W_OK):
        config.option.basetemp = tempfile.mkdtemp(prefix="compactor-tests-", dir=_MEMORY)
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


#: Where tests share what is dear to start (servers, Airflow's database): one worker takes all of a folder or file. They come
#: before all others and in this order: what takes long soon, and what needs downloads when those have come meanwhile.
_TOGETHER = (
    "tests/integration/airflow",
    "tests/integration/page",
    "tests/storage",
    "tests/live",
    "tests/contract",
    "tests/integration/locks",
    "tests/integration/spark",
    "tests/unit/airflow/page",
    "tests/unit/airflow/test_dags.py",
    "tests/torture/test_memory.py",
    "tests/unit/orc/codecs/test_recompress.py",
    "tests/unit/demo/test_tables.py",
)

#: Costs minutes and downloads: a real Hive and a real Trino beside us, and environments that pip fills.
_LIVE = ("tests/live", "tests/packaging")
_WITHOUT_LIVE = os.environ.get("LIVE") == "0"


def pytest_report_header() -> list[str]:
    """What is left out is said."""
    return [f"LIVE=0: {', '.join(_LIVE)} are deselected"] if _WITHOUT_LIVE else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """``LIVE=0`` leaves the dear ones out. What is shared comes first."""
    live = [config.rootpath / folder for folder in _LIVE]
    left_out = [item for item in items if _WITHOUT_LIVE and any(map(item.path.is_relative_to, live))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    return next((rank for rank, place in enumerate(_TOGETHER) if nodeid.startswith(place)), len(_TOGETHER))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What the tests are going to download comes while others run; the first worker sees to it."""
    if getattr(session.config, "workerinput", {}).get("workerid", "gw0") != "gw0" or session.config.option.collectonly:
        return
    folders = {"/".join(item.nodeid.split("/")[:2]) for item in session.items}
    if folders & {"tests/contract", "tests/crash", "tests/live", "tests/storage"}:
        from tests.support import ahead

        session.config.add_cleanup(ahead.begin(folders))


class _Together(LoadScopeScheduling):
    """With ``-n`` the tests of some folders and files stay together; any worker takes any other test."""

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in _TOGETHER if nodeid.startswith(place)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _Together(config, log)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """An empty directory for tables."""
    path = tmp_path / "warehouse"
    path.mkdir()
    return path


@pytest.fixture
def metastore_url(tmp_path: Path) -> str:
    """Where ``metastore`` has its database."""
    return f"sqlite:///{tmp_path / 'metastore.db'}"


@pytest.fixture(scope="session")
def empty_metastore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with an empty metastore and state in it; made once, since that takes longer than most tests."""
    from compactor.database.engine import open_database
    from compactor.metastore.schema import create
    from compactor.state import store

    path = tmp_path_factory.mktemp("empty") / "metastore.db"
    database = open_database(f"sqlite:///{path}")
    create.create(database)
    store.upgrade(database)
    database.close()
    return path


@pytest.fixture
def metastore(empty_metastore: Path, metastore_url: str, tmp_path: Path) -> Iterator[Metastore]:
    """A fresh embedded metastore in a real file."""
    # here, so that tests of what is pure start without SQLAlchemy
    from compactor.metastore.store import open_metastore

    shutil.copyfile(empty_metastore, tmp_path / "metastore.db")
    opened = open_metastore("default", metastore_url)
    yield opened
    opened.close()


@pytest.fixture
def deployment(metastore: Metastore, metastore_url: str, warehouse: Path) -> Iterator[Site]:
    """The embedded default over ``metastore`` and ``warehouse``: everything that a pass needs, mode ``clean``."""
    from compactor.deployment import configure, open_site

    environment = {"COMPACTOR_METASTORE_URL": metastore_url, "COMPACTOR_WAREHOUSE": str(warehouse)}
    with open_site(configure(metastore.name, environment=environment)) as site:
        yield site
