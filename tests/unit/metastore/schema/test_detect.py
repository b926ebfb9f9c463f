from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import DatabaseUnavailable, NotSupported
from compactor.database.engine import open_database
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema.detect import dialect_for


def test_a_database_without_metastore_says_what_to_do(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with pytest.raises(DatabaseUnavailable, match="compactor metastore init"):
        open_metastore("default", url)
    with open_database(url).write() as conn:
        conn.exec_driver_sql("CREATE TABLE other (a)")
    with pytest.raises(DatabaseUnavailable, match="compactor metastore init"):
        open_metastore("default", url)


def test_other_schemas_are_refused_by_name(metastore: Metastore) -> None:
    with metastore.database.write() as conn:
        conn.exec_driver_sql("UPDATE VERSION SET SCHEMA_VERSION = '3.1.0'")
    with pytest.raises(NotSupported, match=r"schema 3\.1\.0 is not supported; supported is sqlite"):
        open_metastore("default", f"sqlite:///{metastore.database.path}")
    assert dialect_for("sqlite", "4.1.0", "x").database == "sqlite"
