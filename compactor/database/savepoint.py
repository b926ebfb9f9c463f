"""A part of a transaction that may fail without the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from compactor.database.prepared import send_text


@contextmanager
def savepoint(conn: Connection, name: str, on_failure: Callable[[Exception], object]) -> Iterator[None]:
    """Runs the body under a savepoint; if it fails, undoes only its changes and passes the error to ``on_failure``.

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
        on_failure(error)
    else:
        send_text(conn, f"RELEASE SAVEPOINT {name}")
