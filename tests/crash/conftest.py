"""A deployment over the embedded metastore, or over one of Hive 3.1 on PostgreSQL with our state beside its tables."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, update

from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import DBS, SDS
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.state.state_database import init
from tests.support import servers

EMBEDDED, HIVE3 = "embedded", "hive3"
Kept = Callable[[Site, Path, str, Callable[[Site, Path], Table]], Table]


@pytest.fixture(scope="session")
def hive3() -> Iterator[tuple[str, servers.Rows]]:
    """A metastore of Hive 3.1's own schema, and its initial rows."""
    with servers.postgres() as server:
        url = server.make("crash", servers.hive_schema("postgresql", "3.1.0"))
        init(url).close()
        rows = servers.Rows(url)
        yield url, rows
        rows.close()


@pytest.fixture
def metastore_url(request: pytest.FixtureRequest, tmp_path: Path, empty_metastore: Path) -> Iterator[str]:
    """URL of a fresh metastore with state; of Hive 3.1 where the test's parameter ``store`` says so."""
    callspec = getattr(request.node, "callspec", None)
    if callspec is None or callspec.params.get("store", EMBEDDED) == EMBEDDED:
        shutil.copyfile(empty_metastore, tmp_path / "metastore.db")
        yield f"sqlite:///{tmp_path / 'metastore.db'}"
    else:
        url, rows = request.getfixturevalue("hive3")
        yield url
        rows.restore()


@pytest.fixture
def deployment(metastore_url: str, warehouse: Path) -> Iterator[Site]:
    """Everything that a pass needs, mode ``clean``."""
    environment = {"COMPACTOR_METASTORE_URL": metastore_url, "COMPACTOR_WAREHOUSE": str(warehouse)}
    with open_site(configure(flags={"compactor.mode": "clean"}, environment=environment)) as site:
        yield site


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Gives a test the table that a function makes: made once, and copied with an embedded metastore from then on."""
    folder = tmp_path_factory.mktemp("kept")

    def get(site: Site, warehouse: Path, name: str, make: Callable[[Site, Path], Table]) -> Table:
        database, place = site.metastore.database, folder / name
        if not database.path.exists():  # of a server
            return make(site, warehouse)
        if not place.exists():
            table = make(site, warehouse)
            shutil.copytree(warehouse, place / "warehouse")
            _copy(database.path, place / "metastore.db")
            shutil.copytree(f"{database.path}.memory", place / "memory")
            (place / "was").write_text(str(warehouse))
            return table
        shutil.copytree(place / "warehouse", warehouse, dirs_exist_ok=True)
        _copy(place / "metastore.db", database.path)
        shutil.copytree(place / "memory", f"{database.path}.memory")
        with database.write() as conn:
            for column in (DBS.c.DB_LOCATION_URI, SDS.c.LOCATION):
                moved = func.replace(column, (place / "was").read_text(), str(warehouse))
                conn.execute(update(column.table).values({column: moved}))
        return site.metastore.catalog.table("default", "t")

    return get


def _copy(source: Path, target: Path) -> None:
    """The rows of one database file, into another that may be open."""
    with closing(sqlite3.connect(source)) as of, closing(sqlite3.connect(target)) as to:
        of.backup(to)
