from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from compactor.base.errors import BadSetting, DatabaseUnavailable, NotSupported
from compactor.database.engine import open_database
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema.tables import VERSION


def test_a_metastore_has_its_name_and_schema(metastore: Metastore, metastore_url: str) -> None:
    assert (metastore.name, metastore.schema_version) == ("default", "4.0.0")
    assert metastore.database.url == metastore_url


def test_its_clock_is_the_databases(metastore: Metastore) -> None:
    assert abs(metastore.now_ms() - time.time() * 1000) < 60_000


def test_a_database_without_one_says_what_to_do(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'empty.db'}"
    with open_database(url).write() as conn:
        conn.exec_driver_sql("CREATE TABLE x (a)")
    with pytest.raises(DatabaseUnavailable, match="compactor metastore init"):
        open_metastore("default", url)
    with pytest.raises(BadSetting):
        open_metastore("default", "nonsense")


@pytest.mark.parametrize("version", ["4.3.0", "9.9.0"])
def test_a_schema_of_an_unknown_release_is_refused(metastore: Metastore, metastore_url: str, version: str) -> None:
    """4.3 has columns more in the tables of transactions."""
    with metastore.database.write() as conn:
        conn.execute(VERSION.update().values(SCHEMA_VERSION=version))
    with pytest.raises(NotSupported, match=re.escape(f"schema {version} is not supported")):
        open_metastore("default", metastore_url)


def test_closed_and_used_again_it_opens_again(metastore: Metastore) -> None:
    metastore.close()
    assert metastore.transactions.newest() == 0
