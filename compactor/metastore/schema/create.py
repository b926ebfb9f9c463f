"""Hive 4's schema in an empty database and as SQL text."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Dialect as SqlDialect
from sqlalchemy import Table, inspect
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import Database
from compactor.metastore.schema import views
from compactor.metastore.schema.hive3 import Postgres31
from compactor.metastore.schema.tables import SCHEMA_VERSION, SEEDS, VERSION, metadata


def create(database: Database) -> None:
    """Creates every table with its first rows; does nothing if the schema is already there.

    MySQL commits each table at once. VERSION comes last, as everywhere, so that an interrupted run is noticed.

    Raises:
        DatabaseUnavailable: the database has some of the tables but no VERSION, so it is not a metastore.
    """
    with database.write() as conn:
        present = {name.upper() for name in inspect(conn).get_table_names()}
        if VERSION.name in present:
            return
        if clash := sorted(present & set(metadata.tables)):
            raise DatabaseUnavailable(
                f"database {database.url} has tables {', '.join(clash)} but no VERSION; it is no complete metastore, "
                "use another database"
            )
        for table in _ordered():
            table.create(conn, checkfirst=False)
            for row in _first_rows(table):
                conn.execute(table.insert().values(**row))
        for statement in views.statements(database.kind):
            conn.exec_driver_sql(statement.replace("%", _PERCENT.get(database.kind, "%")))


def schema_sql(kind: str) -> str:
    """Returns the tables, indexes and first rows as SQL of one kind of database."""
    dialect = _DIALECTS[kind]
    parts = [f"-- Hive's metastore schema {SCHEMA_VERSION}. Rendered by `python -m compactor.metastore.schema.create`."]
    for table in _ordered():
        parts.append(str(CreateTable(table).compile(dialect=dialect)).strip() + ";")
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        parts.extend(str(CreateIndex(index).compile(dialect=dialect)).strip() + ";" for index in indexes)
        for row in _first_rows(table):
            compiled = table.insert().values(**row).compile(dialect=dialect, compile_kwargs={"literal_binds": True})
            parts.append(str(compiled).partition(" RETURNING ")[0] + ";")
    if kind == "mysql":
        parts.insert(1, "SET sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO');")
    return "\n\n".join(_tidy(part) for part in parts) + "\n"


def views_sql(kind: str, *, hive3: bool = False) -> str:
    """Returns the reporting views as SQL of one kind of database; over Hive 3.1's schema if requested."""
    schema = "Hive 3.1's metastore schema" if hive3 else "Hive's metastore schema"
    head = f"-- Reporting views over {schema}. Rendered by `python -m compactor.metastore.schema.create`."
    lacking = frozenset(name.partition(".")[2] for name in Postgres31.missing_columns) if hive3 else frozenset()
    statements = views.statements(kind, lacking=lacking, quoted=not hive3)
    return "\n\n".join((head, *(f"{statement};" for statement in statements))) + "\n"


def _ordered() -> list[Table]:
    """Returns the tables in order of their references, VERSION last: a schema without it is incomplete.

    They get the options that only their creation needs. To take an option, SQLAlchemy imports the database's dialect.
    """
    for table in metadata.tables.values():
        table.dialect_kwargs.update(mysql_engine="InnoDB", mysql_default_charset="latin1")
        for index in table.indexes:
            if index.name in _HASH_INDEXES:
                index.dialect_kwargs["postgresql_using"] = "hash"
    return [*(table for table in metadata.sorted_tables if table is not VERSION), VERSION]


def _first_rows(table: Table) -> list[Mapping[str, Any]]:
    return [row for owner, row in SEEDS if owner is table]


_HASH_INDEXES = ("TC_TXNID_INDEX", "HL_TXNID_INDEX")  #: on PostgreSQL
#: For rendering only: it connects to no database.
_DIALECTS: dict[str, SqlDialect] = {
    "sqlite": sqlite.dialect(),
    "postgresql": postgresql.dialect(),  # type: ignore[no-untyped-call]  # SQLAlchemy's
    "mysql": mysql.dialect(),
}
_OF_HIVE3 = ("postgresql", "mysql")  #: where there are metastores of Hive 3.1
#: The spelling of a percent sign in a statement, where the driver takes a single one for a parameter.
_PERCENT = {"postgresql": "%%", "mysql": "%%"}


def _tidy(sql: str) -> str:
    return "\n".join(line.rstrip().replace("\t", "  ") for line in sql.splitlines())


def main(directory: Path) -> None:
    """Writes the files of every kind into ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind in _DIALECTS:
        (directory / f"hive-schema-{SCHEMA_VERSION}.{kind}.sql").write_text(schema_sql(kind), encoding="utf-8")
        (directory / f"views.{kind}.sql").write_text(views_sql(kind), encoding="utf-8")
        if kind in _OF_HIVE3:
            (directory / f"views-3.1.{kind}.sql").write_text(views_sql(kind, hive3=True), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("sql"))
