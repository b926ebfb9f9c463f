"""Hive 4's schema in an empty database, and the same as SQL text for people.

``python -m compactor.metastore.schema`` renders the files under ``sql/``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sqlalchemy import inspect, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from compactor.database.engine import Database
from compactor.errors import DatabaseUnavailable
from compactor.metastore import views
from compactor.metastore.tables import SCHEMA_VERSION, SEEDS, VERSION, metadata


def create(database: Database) -> None:
    """Make every table with its first rows; nothing where the schema is there already.

    Raises:
        DatabaseUnavailable: the database has some of the tables but no VERSION, so it is something else.
    """
    with database.write() as conn:
        present = set(inspect(conn).get_table_names())
        if "VERSION" in present:
            return
        if clash := sorted(present & set(metadata.tables)):
            raise DatabaseUnavailable(
                f"database {database.url} has tables {', '.join(clash)} but no VERSION; it is no complete metastore, "
                "use another file"
            )
        metadata.create_all(conn, checkfirst=False)
        for table, row in SEEDS:
            conn.execute(table.insert().values(**row))
        for statement in views.SQLITE:
            conn.exec_driver_sql(statement)


def version(database: Database) -> str | None:
    """SCHEMA_VERSION of the metastore in ``database``; None when there is none.

    Raises:
        DatabaseUnavailable: the database cannot be reached.
    """
    with database.read() as conn:
        if not inspect(conn).has_table(VERSION.name):
            return None
        return conn.execute(select(VERSION.c.SCHEMA_VERSION).order_by(VERSION.c.VER_ID)).scalars().first()


def schema_sql() -> str:
    """The tables, indexes and first rows as SQL of SQLite."""
    dialect = sqlite.dialect()
    parts = [
        f"-- Hive's metastore schema {SCHEMA_VERSION} for SQLite. Rendered by `python -m compactor.metastore.schema`."
    ]
    for table in metadata.sorted_tables:
        parts.append(str(CreateTable(table).compile(dialect=dialect)).strip() + ";")
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        parts.extend(str(CreateIndex(index).compile(dialect=dialect)).strip() + ";" for index in indexes)
    for table, row in SEEDS:
        insert = table.insert().values(**row)
        parts.append(str(insert.compile(dialect=dialect, compile_kwargs={"literal_binds": True})) + ";")
    return "\n\n".join(_tidy(part) for part in parts) + "\n"


def views_sql() -> str:
    """The reporting views as SQL of SQLite."""
    head = "-- Reporting views over Hive's metastore schema. Rendered by `python -m compactor.metastore.schema`."
    return "\n\n".join((head, *(f"{statement};" for statement in views.SQLITE))) + "\n"


def _tidy(sql: str) -> str:
    return "\n".join(line.rstrip().replace("\t", "  ") for line in sql.splitlines())


def main(directory: Path) -> None:
    """Write both files into ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"hive-schema-{SCHEMA_VERSION}.sqlite.sql").write_text(schema_sql(), encoding="utf-8")
    (directory / "views.sqlite.sql").write_text(views_sql(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("sql"))
