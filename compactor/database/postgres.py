"""PostgreSQL through psycopg."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from compactor.database.server_engines import Server, server_engine
from compactor.database.trouble import Trouble

#: Classes of SQLSTATE (Appendix A of its manual).
_BUSY = ("40", "55P03")  # rolled back (deadlock, serialization); a lock that NOWAIT did not get
_LOST = ("08", "57P01", "57P02", "57P03", "53300")  # connection; shut down, crashed, starting up; too many clients
_DENIED = ("42501", "28")
_MISSING = ("42P01", "42703", "3F000", "3D000")


class PostgresBackend(Server):
    """A database of a PostgreSQL server."""

    kind = "postgresql"
    begin_write: tuple[str, ...] = ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",)
    # One answer may take several statements. Values that are read this way are never written back.
    begin_read: tuple[str, ...] = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)

    def make_engine(self) -> Engine:
        """See ``Backend``."""
        on_connect = ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",)
        return server_engine(self._url, extra="postgres", on_connect=on_connect, connect_args={"autocommit": True})

    def trouble(self, error: DBAPIError) -> Trouble:
        """See ``Backend``."""
        state = getattr(error.orig, "sqlstate", None)
        if state is None:
            # The driver's own errors (no connection, or a broken one) have no SQLSTATE; a failed authentication neither.
            text = str(error.orig)
            if "authentication failed" in text or "does not exist" in text:
                return Trouble.DENIED if "authentication" in text else Trouble.OTHER
            return Trouble.LOST if error.connection_invalidated or _is_operational(error) else Trouble.BUG
        return next((trouble for codes, trouble in _MEANING if state.startswith(codes)), Trouble.OTHER)

    def is_rolled_back(self, error: DBAPIError) -> bool:
        """See ``Backend``."""
        state = getattr(error.orig, "sqlstate", None) or ""
        return state.startswith(("40", "23")) and state != "40003"  # 40003: statement completion unknown


_MEANING = (
    (_BUSY, Trouble.BUSY),
    (_LOST, Trouble.LOST),
    (_DENIED, Trouble.DENIED),
    (_MISSING, Trouble.MISSING),
    (("42P07",), Trouble.OTHER),  # a table of that name already exists
    (("22", "23", "42"), Trouble.BUG),
)


def _is_operational(error: DBAPIError) -> bool:
    return type(error.orig).__name__ in ("OperationalError", "InterfaceError", "AdminShutdown", "ConnectionTimeout")
