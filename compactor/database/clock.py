"""The database's clock, the only one that writes a time into the metastore or into our state."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from sqlalchemy import Connection, DateTime, text

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


#: The time as a column of type TIMESTAMP without zone gets it from CURRENT_TIMESTAMP.
_LOCAL = {
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now') AS moment",
    "postgresql": "SELECT CAST(clock_timestamp() AS TIMESTAMP) AS moment",
    "mysql": "SELECT SYSDATE(3) AS moment",
}


def local_time(conn: Connection) -> datetime:
    """Returns the current time by the clock of the session's zone, without the zone."""
    query = text(_LOCAL[conn.dialect.name]).columns(moment=DateTime())
    return cast(datetime, conn.execute(query).scalar_one())


#: True while the server's own zone shows an hour (or half an hour) for the first or the second time.
_HOUR_OCCURS_TWICE = text(
    "SELECT CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', @@GLOBAL.time_zone) IN ("
    + ", ".join(
        f"CONVERT_TZ(UTC_TIMESTAMP() {change} MINUTE, '+00:00', @@GLOBAL.time_zone)"
        for change in ("- INTERVAL 60", "- INTERVAL 30", "+ INTERVAL 30", "+ INTERVAL 60")
    )
    + ")"
)


def silent_before_ms(conn: Connection, timeout_ms: int) -> int:
    """Returns the time before which a last heartbeat shows a client that is silent for too long.

    Too long is more than ``timeout_ms``.

    Hive writes heartbeats by its server's zone. On MySQL and MariaDB before 11.7 they are an hour ahead in the first of two
    hours of one name, in autumn. As long as these hours last, nobody is silent: the time is 0.
    """
    if conn.dialect.name == "mysql" and send(conn, _HOUR_OCCURS_TWICE, {}).scalar():
        return 0
    return now_ms(conn) - timeout_ms
