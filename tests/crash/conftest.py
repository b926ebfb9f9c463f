"""A deployment over the embedded metastore, or over one of Hive 3.1 on PostgreSQL with our state beside its tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.state.state_upgrade import init
from tests.support import servers

EMBEDDED, HIVE3 = "embedded", "hive3"


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
