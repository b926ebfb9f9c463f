"""The schema that a metastore has, and the dialect for it."""

from __future__ import annotations

from sqlalchemy import inspect, select

from compactor.base.errors import NotSupported
from compactor.database.engine import Database
from compactor.metastore.schema.dialect import Dialect, MySQL4, Postgres4
from compactor.metastore.schema.hive3 import MySQL31, Postgres31
from compactor.metastore.schema.tables import VERSION

#: Schemas whose Hive goes by MIN_HISTORY_WRITE_ID unless told otherwise: it records there, by write IDs, what transactions
#: may read, and nothing in MIN_HISTORY_LEVEL; and it commits a compaction without holding TXN_LOCK_TBL.
BY_WRITE_IDS = frozenset({"4.2.0"})

DIALECTS: tuple[Dialect, ...] = (Dialect(), Postgres4(), Postgres31(), MySQL4(), MySQL31())


def dialect_for(database: str, schema_version: str, url: str) -> Dialect:
    """Returns the dialect for a kind of database and SCHEMA_VERSION; ``url`` is for the message.

    Raises:
        NotSupported: there is no dialect for it.
    """
    for dialect in DIALECTS:
        if dialect.database == database and schema_version in dialect.schema_versions:
            return dialect
    if is_hive_2(schema_version):
        raise NotSupported(
            f"metastore {url}: schema {schema_version} is Hive 2's, of which only `compactor doctor --before-hive-3` knows "
            "what to do; everything else is for Hive 3.1 and later"
        )
    known = ", ".join(f"{d.database} with schema {' or '.join(d.schema_versions)}" for d in DIALECTS)
    raise NotSupported(
        f"metastore {url}: {database} with schema {schema_version} is not supported; supported is {known}"
    )


def is_hive_2(schema_version: str) -> bool:
    """Returns true if this SCHEMA_VERSION is that of a Hive before 3."""
    return schema_version.startswith(("1.", "2."))


def dialect_of_any_hive(database: str, schema_version: str, url: str) -> Dialect:
    """Returns the dialect as ``dialect_for`` does, for the schema of Hive 2 too.

    Raises:
        NotSupported: there is no dialect for it.
    """
    if not is_hive_2(schema_version):
        return dialect_for(database, schema_version, url)
    # Few sites have a metastore of Hive 2, and only they load its tables.
    from compactor.metastore.schema.hive2 import hive_2_dialect

    return hive_2_dialect(database, schema_version, url)


def version(database: Database) -> str | None:
    """Returns SCHEMA_VERSION of the metastore in ``database``; None if there is none.

    Raises:
        DatabaseUnavailable: the database cannot be reached.
    """
    with database.read() as conn:
        if not inspect(conn).has_table(VERSION.name):
            return None
        return conn.execute(select(VERSION.c.SCHEMA_VERSION).order_by(VERSION.c.VER_ID)).scalars().first()
