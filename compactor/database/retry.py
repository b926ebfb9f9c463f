"""When a transaction that could not begin is tried again."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, TimeoutError

ATTEMPTS = 3  #: how often a transaction is begun; each time the driver itself waits for the busy timeout
PAUSE_SECONDS = 0.2  #: between two of them

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_busy(error: Exception) -> bool:
    """Whether another connection's lock, and nothing else, stood in the way."""
    if isinstance(error, TimeoutError):
        return True
    if not isinstance(error, DBAPIError) or not isinstance(error.orig, sqlite3.OperationalError):
        return False
    code: int | None = getattr(error.orig, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _BUSY
