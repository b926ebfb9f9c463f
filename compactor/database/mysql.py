"""MySQL and MariaDB through PyMySQL."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from compactor.database.server_engines import Server, server_engine
from compactor.database.trouble import Trouble

#: Error numbers (the server's reference): a savepoint is not there, since a deadlock inside of it has rolled everything
#: back; SQLAlchemy then raises this in place of the deadlock.
_NO_SAVEPOINT = 1305
#: Deadlock and lock wait time-out; a row changed since it was read.
_BUSY = (1205, 1213, 1020, _NO_SAVEPOINT)
_LOST = (1040, 1053, 1152, 1158, 1159, 1160, 1161, 1203, 1927, 2002, 2003, 2006, 2013, 2055)
_DENIED = (1044, 1045, 1142, 1143, 1227, 1370, 1698)
_MISSING = (1049, 1054, 1146)
#: A broken constraint, a value that does not fit, a wrong statement.
_BUG = (1022, 1048, 1062, 1064, 1093, 1264, 1292, 1366, 1406, 1451, 1452)


class MySQLBackend(Server):
    """A database of a MySQL or MariaDB server."""

    kind = "mysql"
    begin_write: tuple[str, ...] = ("START TRANSACTION READ WRITE",)
    # Several statements make one answer here; values read this way are never written back.
    begin_read: tuple[str, ...] = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    )

    def make_engine(self) -> Engine:
        """See ``Backend``."""
        on_connect = (
            # Its default REPEATABLE READ would answer MAX(TXN_ID) as of the transaction's first statement.
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            # Hive's SQL has names in double quotes; without strict mode a value that is too long is cut silently.
            # Row 0 of TXNS stays row 0.
            "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'",
        )
        # SQLAlchemy asks for rows found, not rows changed: an UPDATE to the value already there has matched its row.
        args = {"autocommit": True, "charset": "utf8mb4"}
        return server_engine(self._url, extra="mysql", on_connect=on_connect, connect_args=args)

    def trouble(self, error: DBAPIError) -> Trouble:
        """See ``Backend``."""
        code = _code(error)
        found = next((found for codes, found in _MEANING if code in codes), Trouble.OTHER)
        return Trouble.LOST if found is Trouble.OTHER and error.connection_invalidated else found

    def is_rolled_back(self, error: DBAPIError) -> bool:
        """See ``Backend``."""
        return _code(error) in (1213, _NO_SAVEPOINT)


_MEANING = (
    (_BUSY, Trouble.BUSY),
    (_LOST, Trouble.LOST),
    (_DENIED, Trouble.DENIED),
    (_MISSING, Trouble.MISSING),
    (_BUG, Trouble.BUG),
)


def _code(error: DBAPIError) -> int:
    args = getattr(error.orig, "args", ())
    return args[0] if args and isinstance(args[0], int) else 0
