"""Which of the rights that a mode needs the database's user has not."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sqlalchemy import Dialect as SqlDialect
from sqlalchemy import Table, delete, false, insert, select, update

from compactor.database.engine import Database
from compactor.metastore.dialects import Dialect
from compactor.metastore.tables import TRANSACTION_TABLES


def missing(database: Database, dialect: Dialect) -> tuple[str, ...]:
    """``INSERT on TXNS`` and so on; empty where everything may be written. Nothing is written to find out.

    Raises:
        DatabaseUnavailable: the database is not there, or one of the tables is not.
    """
    if database.kind == "sqlite":
        return () if os.access(database.path, os.W_OK) else (f"writing the file {database.path}",)
    sql = database.engine.dialect
    return tuple(
        f"{verb} on {table.name}"
        for table in TRANSACTION_TABLES
        if dialect.has(table)
        for verb, statement in _statements(table, sql)
        if database.denies(statement)
    )


def _statements(table: Table, sql: SqlDialect) -> Iterator[tuple[str, str]]:
    column = next(iter(table.c))
    nothing = select(column).where(false())
    for verb, statement in (
        ("INSERT", insert(table).from_select([column.name], nothing, include_defaults=False)),
        ("UPDATE", update(table).where(false()).values({column.name: column})),
        ("DELETE", delete(table).where(false())),
    ):
        yield verb, str(statement.compile(dialect=sql, compile_kwargs={"literal_binds": True}))
