"""What differs between metastore databases and schema versions, as one object each.

A database that is not in ``_DIALECTS`` is refused when it is opened; nothing else asks which database it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select

from compactor.errors import NotSupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """SQLite with Hive 4's schema.

    Its writing transactions exclude one another from their first statement on (``BEGIN IMMEDIATE``), so a row lock
    and the lock on TXN_LOCK_TBL are already held; servers add them here.
    """

    database: str
    schema_versions: tuple[str, ...]

    def for_update(self, query: Select[Any]) -> Select[Any]:
        """``query`` so that the rows it finds stay locked until the end of the transaction."""
        return query

    def lock_transactions(self, conn: Connection, *, exclusive: bool) -> None:
        """Hold TXN_LOCK_TBL to the end of the transaction: shared to open, exclusive to commit (Hive 4)."""
        if not conn.in_transaction():
            raise AssertionError("TXN_LOCK_TBL is only held within a transaction")


_DIALECTS = (Dialect(database="sqlite", schema_versions=("4.0.0", "4.1.0", "4.2.0")),)


def dialect_for(database: str, schema_version: str, url: str) -> Dialect:
    """The dialect of a metastore as it was found.

    Raises:
        NotSupported: no dialect is made for it.
    """
    for dialect in _DIALECTS:
        if dialect.database == database and schema_version in dialect.schema_versions:
            return dialect
    known = ", ".join(f"{d.database} with schema {' or '.join(d.schema_versions)}" for d in _DIALECTS)
    raise NotSupported(
        f"metastore {url}: {database} with schema {schema_version} is not supported; supported is {known}"
    )
