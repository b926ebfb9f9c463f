from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import inspect

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import open_database
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import create, detect
from compactor.metastore.schema.tables import metadata

SQL = Path(__file__).parents[4] / "sql"


def test_the_files_are_what_is_rendered_now(tmp_path: Path) -> None:
    """`python -m compactor.metastore.schema.create` has been run after the last change."""
    create.main(tmp_path)
    rendered = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {path.name: path.read_text() for path in SQL.glob("*.sql")} == rendered


def test_the_rendered_sql_makes_the_same_schema(tmp_path: Path) -> None:
    by_sql, by_code = (open_database(f"sqlite:///{tmp_path / name}") for name in ("sql.db", "code.db"))
    create.create(by_code)
    with by_sql.write() as conn:
        for statement in (create.schema_sql("sqlite") + create.views_sql("sqlite")).split(";\n"):
            if statement.strip():
                conn.exec_driver_sql(statement)
    masters = []
    for database in (by_sql, by_code):
        with database.read() as conn:
            found = conn.exec_driver_sql("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").all()
            masters.append([(kind, name, " ".join((sql or "").split())) for kind, name, sql in found])
            assert conn.exec_driver_sql("SELECT COUNT(*) FROM TXNS").scalar_one() == 1
    assert masters[0] == masters[1]


def test_transaction_ids_are_never_reused_by_the_database(tmp_path: Path) -> None:
    """PROTOCOL 9: INTEGER PRIMARY KEY AUTOINCREMENT."""
    assert '"TXN_ID" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT' in create.schema_sql("sqlite")


def test_create_twice_is_once(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    create.create(metastore.database)
    assert metastore.transactions.state(txn) == "o"
    assert detect.version(metastore.database) == "4.0.0"


def test_half_a_schema_is_somebody_elses(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'x.db'}")
    with database.write() as conn:
        conn.exec_driver_sql("CREATE TABLE TBLS (a)")
    with pytest.raises(DatabaseUnavailable, match="TBLS but no VERSION"):
        create.create(database)


def test_every_table_of_hives_transactions_is_there(metastore: Metastore) -> None:
    with metastore.database.read() as conn:
        present = set(inspect(conn).get_table_names())
    assert set(metadata.tables) <= present
    assert len(metadata.tables) == 37


def test_views_speak_in_words(metastore: Metastore) -> None:
    metastore.transactions.open("u", "h")
    with metastore.database.read() as conn:
        row = conn.exec_driver_sql("SELECT * FROM COMPACTOR_V_TRANSACTIONS").one()
        assert (row.state, row.started_at[:2], row.started_at[-1]) == ("open", "20", "Z")
        for view in ("COMPACTIONS", "LOCKS", "ABORTED"):
            assert conn.exec_driver_sql(f"SELECT * FROM COMPACTOR_V_{view}").all() == []
