"""The first row of a counter or a mutex, which two transactions may try to write at the same time."""

from __future__ import annotations

from sqlalchemy import Connection, Insert
from sqlalchemy.exc import IntegrityError


def inserted(conn: Connection, row: Insert) -> bool:
    """Inserts ``row``; returns false if another transaction has just committed one with its key.

    A row that does not exist cannot be locked, so the unique key decides. The caller's transaction goes on.
    """
    try:
        with conn.begin_nested():
            conn.execute(row)
    except IntegrityError:
        return False
    return True
