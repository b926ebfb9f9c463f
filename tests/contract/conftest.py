"""The same tests over every kind of metastore database."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.database.engine import open_database
from compactor.metastore import schema
from compactor.metastore.store import Metastore, open_metastore

STORES = ("sqlite",)


@pytest.fixture(scope="session")
def fresh_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema and nothing else, to be copied."""
    path = tmp_path_factory.mktemp("fresh") / "metastore.db"
    database = open_database(f"sqlite:///{path}")
    schema.create(database)
    database.close()
    return path


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path, fresh_sqlite: Path) -> str:
    """Where a fresh metastore of the kind under test is."""
    assert request.param == "sqlite"
    shutil.copyfile(fresh_sqlite, tmp_path / "metastore.db")
    return f"sqlite:///{tmp_path / 'metastore.db'}"


@pytest.fixture
def metastore(url: str) -> Iterator[Metastore]:
    """A fresh metastore with the database ``default``."""
    opened = open_metastore("default", url)
    opened.catalog.create_database("default", "/warehouse")
    yield opened
    opened.close()
