"""Fixtures that every test may ask for. Nothing in here starts Spark, Airflow or a server."""

from __future__ import annotations

import copy
import gc
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.support.sizes import WHOLE, WHOLE_FOLDERS, WHOLE_IDS

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from compactor.metastore.metastore import Metastore
    from compactor.site.site import Site
    from tests.support.kept_tables import KeptTables

# The same examples in every run, so that red is red for everybody; HYPOTHESIS_PROFILE=search looks for new ones.
_SAME = {"derandomize": True, "deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("short", max_examples=25, **_SAME)
settings.register_profile("whole", max_examples=100, **_SAME)
settings.register_profile("search", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "whole" if WHOLE else "short"))

# A developer's own metastore is no test material.
for _name in [name for name in os.environ if name.startswith("COMPACTOR_")]:
    del os.environ[_name]


_MEMORY = Path("/dev/shm")


def pytest_configure(config: pytest.Config) -> None:
    """Temporary directories in memory where there is such a place: what is tested syncs to disk at every step."""
    if config.option.basetemp is None and os.access(_MEMORY, os.W_OK):
        config.option.basetemp = tempfile.mkdtemp(prefix="compactor-tests-", dir=_MEMORY)
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


#: What shares a server, a cluster or Airflow's database with others: tests whose scope is the same run one after the
#: other in one worker. The first pattern that matches a test's id names its scope, and scopes begin in this order: the
#: longest first, so that they overlap with what is short. Any other file is a scope of its own, or each of its tests is
#: where one takes minutes in `make test-all`.
_SCOPES = tuple(
    (re.compile(pattern), scope)
    for pattern, scope in (
        (r"tests/integration/airflow/test_(demo|system|first_hour|your_own_dags)", "a whole Airflow"),
        (r"tests/integration/page/", "page"),
        (r"tests/live/", "live"),
        (r"tests/cluster/kerberos/", "Kerberos"),
        (r"tests/cluster/yarn/", "YARN"),
        (r"tests/contract/.*\[.*(mariadb|mysql)", "contract: MariaDB"),
        (r"tests/contract/.*\[.*postgres", "contract: PostgreSQL"),
        (r"tests/contract/test_history\.py", "contract: PostgreSQL"),
        (r"tests/crash/.*\[hive3", "crash: PostgreSQL"),
        (r"tests/storage/.*(\[.*(hdfs|httpfs)|_data_node_)|tests/storage/test_hdfs", "storage: HDFS"),
        (r"tests/storage/(test_abfs|.*\[.*abfs)", "storage: Azure"),
        (r"tests/storage/.*\[.*\bgs\b", "storage: Google"),
        (r"tests/storage/.*\[.*ozone", "storage: Ozone"),
        (r"tests/storage/.*\[.*\blocal\b", "storage: local"),
        (r"tests/storage/", "storage: S3"),
        (r"tests/(unit|integration)/airflow/|tests/security/page/", "Airflow in process"),
        (r"tests/integration/locks/", "ZooKeeper"),
        (r"tests/integration/spark/", "Spark"),
        (r"tests/judges/", "judges"),
        (r"tests/torture/test_memory", "memory"),
        (r"tests/unit/orc/codecs/test_recompress", "recompress"),
        (r"tests/unit/demo/test_tables", "demo"),
    )
)

_LONG = re.compile(r"tests/(crash|model|packaging|torture)/")

_WHOLE_MARK = "what is marked whole, and the servers of WHOLE_IDS"
#: A real Hive and a real Trino beside us, and environments that pip fills.
_LIVE_FOLDERS = ("tests/live", "tests/packaging")


def _left_out() -> dict[str, str]:
    """The folders and marks that do not run, each with what brings it back."""
    live = {} if os.environ.get("LIVE") != "0" else dict.fromkeys(_LIVE_FOLDERS, "LIVE=0")
    whole = {} if WHOLE else dict.fromkeys((*WHOLE_FOLDERS, _WHOLE_MARK), "only make test-all (WHOLE=1) runs them")
    return whole | live


def pytest_report_header() -> list[str]:
    """Names what is left out."""
    reasons: dict[str, list[str]] = {}
    for what, why in _left_out().items():
        reasons.setdefault(why, []).append(what)
    return [f"deselected, {why}: {', '.join(what)}" for why, what in reasons.items()]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves folders out before their modules are imported."""
    if not collection_path.is_dir():
        return None
    return collection_path.relative_to(config.rootpath).as_posix() in _left_out() or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what is left out, and puts what is shared first."""
    if not WHOLE:
        gone = {item for item in items if _is_whole(item)}
        config.hook.pytest_deselected(items=list(gone))
        items[:] = [item for item in items if item not in gone]
    ranks = {scope: rank for rank, (_, scope) in reversed(list(enumerate(_SCOPES)))}
    items.sort(key=lambda item: ranks.get(_scope(item.nodeid), len(_SCOPES)))


def _is_whole(item: pytest.Item) -> bool:
    if item.get_closest_marker("smoke") is not None:
        return False
    return item.get_closest_marker("whole") is not None or WHOLE_IDS.match(item.nodeid) is not None


@cache
def _scope(nodeid: str) -> str:
    alone = nodeid if _LONG.match(nodeid) else nodeid.partition("::")[0]
    return next((scope for pattern, scope in _SCOPES if pattern.match(nodeid)), alone)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Downloads of later tests come while others run; the first worker sees to it."""
    gc.freeze()  # thousands of collected tests stay to the end: no later collection of garbage looks at them again
    if getattr(session.config, "workerinput", {}).get("workerid", "gw0") != "gw0" or session.config.option.collectonly:
        return
    folders = {"/".join(item.nodeid.split("/")[:2]) for item in session.items}
    if folders & {"tests/cluster", "tests/contract", "tests/crash", "tests/judges", "tests/live", "tests/storage"}:
        from tests.support import ahead

        session.config.add_cleanup(ahead.begin(folders))


class _Scopes(LoadScopeScheduling):
    """With ``-n`` the tests of a scope stay together; any worker takes any scope."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _Scopes(config, log)


@pytest.fixture(scope="session", autouse=True)
def _compiled_statements() -> Iterator[None]:
    """One cache of compiled statements for all files of SQLite: nearly every test opens a file of its own.

    Statements are kept by dialect. A schema that adapts its dialect, as Hive 2's does, gets one of its own.
    """
    import sqlalchemy

    from compactor.database import sqlite
    from compactor.database.engine import Database

    first = sqlalchemy.create_engine("sqlite://")
    first.connect().close()  # which tells the dialect what it speaks to

    def create_engine(*args: Any, **options: Any) -> Engine:
        engine = sqlalchemy.create_engine(*args, **options)
        engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
        return engine

    original = Database.adapt

    def adapt(database: Database, change: Callable[[Any], None]) -> None:
        adapted = copy.copy(first.dialect)
        if database.engine.dialect is first.dialect:
            change(adapted)
            if vars(adapted) != vars(first.dialect):
                database.engine.dialect = copy.copy(first.dialect)
        original(database, change)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "create_engine", create_engine)
        patch.setattr(Database, "adapt", adapt)
        yield
    first.dispose()


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
    from compactor.state import state_upgrade

    path = tmp_path_factory.mktemp("empty") / "metastore.db"
    database = open_database(f"sqlite:///{path}")
    create.create(database)
    state_upgrade.upgrade(database)
    database.close()
    return path


@pytest.fixture
def metastore(empty_metastore: Path, metastore_url: str, tmp_path: Path) -> Iterator[Metastore]:
    """A fresh embedded metastore in a real file."""
    # here, so that tests of what is pure start without SQLAlchemy
    from compactor.metastore.metastore import open_metastore

    shutil.copyfile(empty_metastore, tmp_path / "metastore.db")
    opened = open_metastore("default", metastore_url)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def kept_tables(tmp_path_factory: pytest.TempPathFactory) -> KeptTables:
    """Tables that a function makes once."""
    from tests.support.kept_tables import KeptTables

    return KeptTables(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def deployment(metastore: Metastore, metastore_url: str, warehouse: Path) -> Iterator[Site]:
    """The embedded default over ``metastore`` and ``warehouse``: everything that a pass needs, mode ``clean``."""
    from compactor.site.deployment import configure, open_site

    environment = {"COMPACTOR_METASTORE_URL": metastore_url, "COMPACTOR_WAREHOUSE": str(warehouse)}
    with open_site(configure(metastore.name, environment=environment)) as site:
        yield site
