"""The database's clock, the only one that writes a time into the metastore or into our state."""

from __future__ import annotations

from typing import cast

from sqlalchemy import Connection, text

#: Julian day of 1970-01-01T00:00Z times milliseconds of a day. SQLite's ``unixepoch`` has no milliseconds everywhere.
_NOW = {"sqlite": text("SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)")}


def now_ms(conn: Connection) -> int:
    """Now, in epoch milliseconds of the database's clock."""
    return cast(int, conn.execute(_NOW[conn.dialect.name]).scalar_one())
