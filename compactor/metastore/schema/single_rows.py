"""The first row of a counter or a mutex, which two may want to write at the same time."""

from __future__ import annotations

from sqlalchemy import Connection, Insert
from sqlalchemy.exc import IntegrityError


def inserted(conn: Connection, row: Insert) -> bool:
    """Insert ``row``; False when its key is there, which another transaction has just committed.

    A row that is not there yet cannot be locked, so the unique key decides. The caller's transaction goes on.
    """
    try:
        with conn.begin_nested():
            conn.execute(row)
    except IntegrityError:
        return False
    return True
