"""The login that docker-compose.yaml makes for Hive, by a real server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import open_database
from tests.support.servers import postgres

SCRIPT = (Path(__file__).parents[2] / "docker" / "metastore-role.sql").read_text(encoding="utf-8")


def test_the_metastores_login_reaches_its_own_database_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres() as server:
        server.make("airflow", "CREATE TABLE connection (secret text);")
        for password in ("old", "ne'w $(id) \\"):
            monkeypatch.setenv("METASTORE_PASSWORD", password)
            server.sql(SCRIPT, "airflow")
        rights = "rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls, rolcanlogin"
        found = server.sql(f"SELECT {rights} FROM pg_roles WHERE rolname = 'metastore';", "postgres")
        assert found.strip() == "f|f|f|f|f|t"
        url = f"postgresql+psycopg://metastore:{{}}@/{{}}?host={server.folder}"
        own = url.format("ne'w%20$(id)%20%5C", "metastore")
        with closing(open_database(own)) as database, database.write() as connection:
            connection.exec_driver_sql("CREATE TABLE mine (a int)")
        for refused in (url.format("ne'w%20$(id)%20%5C", "airflow"), url.format("old", "metastore")):
            with closing(open_database(refused)) as database, pytest.raises(DatabaseUnavailable), database.read():
                raise AssertionError("it was reached")
