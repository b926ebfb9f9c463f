"""A part of a transaction that may fail without the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from compactor.database.prepared import send_text


@contextmanager
def apart(conn: Connection, name: str, failed: Callable[[Exception], object]) -> Iterator[None]:
    """A block whose failure undoes what it did in the database, and nothing else; ``failed`` is told of it.

    Raises:
        DBAPIError: the connection is lost, or the database has undone the whole transaction.
    """
    send_text(conn, f"SAVEPOINT {name}")
    try:
        yield
    except Exception as error:
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            raise
        send_text(conn, f"ROLLBACK TO SAVEPOINT {name}")  # fails if the database has undone everything
        failed(error)
    else:
        send_text(conn, f"RELEASE SAVEPOINT {name}")
