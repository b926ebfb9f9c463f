"""The same tests over every kind of metastore database, each with the schema that Hive's own scripts make."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from compactor.database.engine import open_database
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema import create
from compactor.state.state_database import OwnState
from compactor.state.state_upgrade import init
from tests.support import servers
from tests.support.places import Place

#: Server, and version of Hive's schema, by the name of the store.
SERVERS = {
    "postgres4": ("postgresql", "4.0.0"),
    "postgres12": ("postgresql-12", "4.0.0"),
    "postgres18": ("postgresql-18", "4.0.0"),
    "mariadb4": ("mysql", "4.0.0"),
    "mariadb118": ("mariadb-11.8", "4.0.0"),
    "mysql97": ("mysql-9.7", "4.0.0"),
    "postgres31": ("postgresql", "3.1.0"),
    "mariadb31": ("mysql", "3.1.0"),
}
STORES = ("sqlite", *SERVERS)
HIVE3 = ("postgres31", "mariadb31")
HIVE4 = tuple(store for store in STORES if store not in HIVE3)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs every test on every store, except those limited to one Hive by their fixtures.

    ``usefixtures("hive4")``: features of Hive 4 only, such as its types of transactions and its TXN_LOCK_TBL.
    """
    if "store" in metafunc.fixturenames:
        of_hive = {"hive4": HIVE4, "hive3": HIVE3, "one_hive3": HIVE3[:1], "two_stores": HIVE4[:2]}
        chosen = next((stores for name, stores in of_hive.items() if name in metafunc.fixturenames), STORES)
        metafunc.parametrize("store", chosen, indirect=True)


@pytest.fixture
def hive4() -> None:
    """Marks a test for Hive 4's schema only."""


@pytest.fixture
def hive3() -> None:
    """Marks a test for Hive 3.1's schema only."""


@pytest.fixture
def one_hive3() -> None:
    """Marks a test for one of Hive 3.1's schemas: the test is about files."""


@pytest.fixture
def two_stores() -> None:
    """Marks a test for the embedded store and one server: the test is about files, and takes long."""


@pytest.fixture(scope="session")
def fresh_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema and nothing else, to be copied."""
    path = tmp_path_factory.mktemp("fresh") / "metastore.db"
    database = open_database(f"sqlite:///{path}")
    create.create(database)
    database.close()
    return path


@pytest.fixture(scope="session")
def server() -> Iterator[Callable[[str], servers.Server]]:
    """The server of a name, started when the first test asks for it."""
    running: dict[str, servers.Server] = {}
    with ExitStack() as stack:

        def get(name: str) -> servers.Server:
            if name not in running:
                running[name] = stack.enter_context(servers.start(name))
            return running[name]

        yield get


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A database with the schema of Hive's own scripts, used by one test after the other."""

    url: str
    rows: servers.Rows
    metastore: Metastore
    state: OwnState


@pytest.fixture(scope="session")
def server_store(server: Callable[[str], servers.Server]) -> Iterator[Callable[[str], Store]]:
    """Yields the store of a name in ``SERVERS``, made when the first test asks for it."""
    made: dict[str, Store] = {}

    def get(name: str) -> Store:
        if name not in made:
            of, version = SERVERS[name]
            url = server(of).make(name, servers.hive_schema(server(of).kind, version))
            state = init(url)
            metastore = open_metastore("default", url)
            metastore.queue.set_extra_columns(state.kept_columns("default"))
            made[name] = Store(url=url, rows=servers.Rows(url), metastore=metastore, state=state)
        return made[name]

    yield get
    for store in made.values():
        store.metastore.close()
        store.state.close()
        store.rows.close()


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    """The name of the store under test."""
    return str(request.param)


@pytest.fixture
def url(store: str, tmp_path: Path, fresh_sqlite: Path, server_store: Callable[[str], Store]) -> Iterator[str]:
    """URL of a fresh metastore of the kind under test."""
    if store == "sqlite":
        shutil.copyfile(fresh_sqlite, tmp_path / "metastore.db")
        yield f"sqlite:///{tmp_path / 'metastore.db'}"
    else:
        used = server_store(store)
        yield used.url
        used.rows.restore()


@pytest.fixture
def metastore(store: str, url: str, server_store: Callable[[str], Store]) -> Iterator[Metastore]:
    """A fresh metastore with the database ``default``."""
    opened = open_metastore("default", url) if store == "sqlite" else server_store(store).metastore
    opened.embedded_catalog.create_database("default", "/warehouse")
    yield opened
    if store == "sqlite":
        opened.close()


@pytest.fixture
def state(store: str, server_store: Callable[[str], Store], metastore: Metastore, url: str) -> Iterator[OwnState]:
    """Our own state in the same database."""
    opened = init(url) if store == "sqlite" else server_store(store).state
    yield opened
    if store == "sqlite":
        opened.close()


@pytest.fixture(params=servers.NAMES)
def place(request: pytest.FixtureRequest, server: Callable[[str], servers.Server]) -> Iterator[Place]:
    running, name = server(request.param), "trouble"
    yield Place(server=running, name=name, url=running.make(name, servers.hive_schema(running.kind, "4.0.0")))
    running.drop(name)
    if running.kind == "postgresql":
        running.sql("DROP ROLE IF EXISTS reader;", "postgres")
