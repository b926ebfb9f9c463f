"""The database's clock, the only one that writes a time into the metastore or into our state."""

from __future__ import annotations

from typing import cast

from sqlalchemy import Connection, text

from compactor.database.prepared import send

#: Epoch milliseconds at this statement. The transaction may have begun earlier and waited for a lock.
_NOW = {
    # Julian day of 1970-01-01T00:00Z times milliseconds of a day. SQLite's ``unixepoch`` has no milliseconds everywhere.
    "sqlite": text("SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"),
    "postgresql": text("SELECT CAST(ROUND(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)"),
    "mysql": text("SELECT CAST(ROUND(UNIX_TIMESTAMP(SYSDATE(3)) * 1000) AS SIGNED)"),
}


def now_ms(conn: Connection) -> int:
    """Returns the current time in epoch milliseconds of the database's clock."""
    return cast(int, send(conn, _NOW[conn.dialect.name], {}).scalar())
