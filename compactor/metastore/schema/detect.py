"""The dialect that fits a metastore's database and schema version."""

from __future__ import annotations

from compactor.base.errors import NotSupported
from compactor.metastore.schema.dialect import Dialect, MySQL4, Postgres4
from compactor.metastore.schema.hive2 import is_hive_2
from compactor.metastore.schema.hive3 import MySQL31, Postgres31

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
