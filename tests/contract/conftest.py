"""The same tests over every kind of metastore database, each with the schema that Hive's own scripts make."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compactor.database.engine import open_database
from compactor.metastore import schema
from compactor.metastore.store import Metastore
from tests.support import servers

#: Kind of server, and version of Hive's schema, by the name of the store.
SERVERS = {
    "postgres4": ("postgresql", "4.0.0"),
    "mariadb4": ("mysql", "4.0.0"),
    "postgres31": ("postgresql", "3.1.0"),
    "mariadb31": ("mysql", "3.1.0"),
}
STORES = ("sqlite", *SERVERS)
HIVE4 = ("sqlite", "postgres4", "mariadb4")
HIVE3 = ("postgres31", "mariadb31")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test runs on every store, but for those that say of which Hive they are.

    ``usefixtures("hive4")``: what Hive 3.1's schema has no room for. ``test_hive3`` asserts that it is refused there.
    """
    if "store" in metafunc.fixturenames:
        of_hive = {"hive4": HIVE4, "hive3": HIVE3}
        chosen = next((stores for name, stores in of_hive.items() if name in metafunc.fixturenames), STORES)
        metafunc.parametrize("store", chosen, indirect=True)


@pytest.fixture
def hive4() -> None:
    """Marks a test for Hive 4's schema only."""


@pytest.fixture
def hive3() -> None:
    """Marks a test for Hive 3.1's schema only."""


@pytest.fixture(scope="session")
def fresh_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema and nothing else, to be copied."""
    path = tmp_path_factory.mktemp("fresh") / "metastore.db"
    database = open_database(f"sqlite:///{path}")
    schema.create(database)
    database.close()
    return path


@pytest.fixture(scope="session")
def server() -> Iterator[Callable[[str], servers.Server]]:
    """The server of a kind, started when the first test asks for it."""
    running: dict[str, servers.Server] = {}
    with ExitStack() as stack:

        def get(kind: str) -> servers.Server:
            if kind not in running:
                start = servers.postgres if kind == "postgresql" else servers.mariadb
                running[kind] = stack.enter_context(start())
            return running[kind]

        yield get


@pytest.fixture(scope="session")
def hive_database(server: Callable[[str], servers.Server]) -> Callable[[str], tuple[str, servers.Rows]]:
    """The database of a store with the schema of Hive's own scripts, made once; its URL and its first rows."""
    made: dict[str, tuple[str, servers.Rows]] = {}

    def get(store: str) -> tuple[str, servers.Rows]:
        if store not in made:
            kind, version = SERVERS[store]
            url = server(kind).make(store, servers.hive_schema(kind, version))
            made[store] = url, servers.Rows(url)
        return made[store]

    return get


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    """The name of the store under test."""
    return str(request.param)


@pytest.fixture
def url(store: str, tmp_path: Path, fresh_sqlite: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a fresh metastore of the kind under test is."""
    if store == "sqlite":
        shutil.copyfile(fresh_sqlite, tmp_path / "metastore.db")
        yield f"sqlite:///{tmp_path / 'metastore.db'}"
        return
    address, rows = request.getfixturevalue("hive_database")(store)
    yield address
    rows.restore()


@pytest.fixture
def metastore(url: str) -> Iterator[Metastore]:
    """A fresh metastore with the database ``default``."""
    database = open_database(url)
    version = schema.version(database)
    assert version is not None
    opened = Metastore("default", database, version)
    opened.catalog.create_database("default", "/warehouse")
    yield opened
    opened.close()
