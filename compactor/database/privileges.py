"""The privileges that the database's user lacks to write some tables."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from sqlalchemy import Dialect as SqlDialect
from sqlalchemy import Table, bindparam, delete, false, insert, select, text, update

from compactor.database.engine import Database

#: Sequences behind column defaults whose ``nextval`` is denied. Sequences of identity columns need no privilege.
_SEQUENCES = text(
    "SELECT DISTINCT s.relname FROM pg_attrdef a"
    " JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid AND d.refclassid = 'pg_class'::regclass"
    " JOIN pg_class s ON s.oid = d.refobjid"
    " JOIN pg_class t ON t.oid = a.adrelid"
    " WHERE t.relname IN :names AND pg_table_is_visible(t.oid)"
    " AND CASE WHEN s.relkind = 'S' THEN NOT has_sequence_privilege(s.oid, 'USAGE, UPDATE') ELSE FALSE END"
    " ORDER BY s.relname"
).bindparams(bindparam("names", expanding=True))

VERBS = ("INSERT", "UPDATE", "DELETE")


def missing(database: Database, tables: Collection[Table], verbs: Collection[str] = VERBS) -> tuple[str, ...]:
    """Returns the missing privileges, such as ``INSERT on TXNS`` or ``USAGE on sequence TXNS_TXN_ID_seq``.

    The check writes nothing.

    Args:
        verbs: the privileges to check.

    Raises:
        DatabaseUnavailable: the database or one of the tables does not exist.
    """
    if database.kind == "sqlite":
        return () if os.access(database.path, os.W_OK) else (f"writing the file {database.path}",)
    sql = database.engine.dialect
    denied = tuple(
        f"{verb} on {table.name}"
        for table in tables
        for verb, statement in _statements(table, sql)
        if verb in verbs and database.denies(statement)
    )
    return (*denied, *_sequences(database, tables)) if database.kind == "postgresql" else denied


def _statements(table: Table, sql: SqlDialect) -> Iterator[tuple[str, str]]:
    column = next(iter(table.c))
    nothing = select(column).where(false())
    for verb, statement in (
        ("INSERT", insert(table).from_select([column.name], nothing, include_defaults=False)),
        ("UPDATE", update(table).where(false()).values({column.name: column})),
        ("DELETE", delete(table).where(false())),
    ):
        yield verb, str(statement.compile(dialect=sql, compile_kwargs={"literal_binds": True}))


def _sequences(database: Database, tables: Collection[Table]) -> tuple[str, ...]:
    with database.read() as conn:
        denied = conn.execute(_SEQUENCES, {"names": [table.name for table in tables]}).scalars()
        return tuple(f"USAGE on sequence {name}" for name in denied)
