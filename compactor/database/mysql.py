"""MySQL and MariaDB through PyMySQL."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from compactor.database.server_engines import Server, server_engine
from compactor.database.trouble import Trouble

#: Error numbers of the server's reference. This one means that a savepoint does not exist: a deadlock inside it has
#: rolled everything back, and SQLAlchemy raises this error in place of the deadlock.
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
    # One answer may take several statements. Values that are read this way are never written back.
    begin_read: tuple[str, ...] = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    )

    def make_engine(self) -> Engine:
        """See ``Backend``."""
        on_connect = (
            # With the default REPEATABLE READ, MAX(TXN_ID) would be as of the transaction's first statement.
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            # Hive's SQL quotes names with double quotes. Without strict mode MySQL truncates long values silently.
            # NO_AUTO_VALUE_ON_ZERO keeps row 0 of TXNS at 0.
            "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'",
        )
        # SQLAlchemy makes the driver count matched rows, so an UPDATE that changes nothing still counts its row.
        args = {"autocommit": True, "charset": "utf8mb4"}
        return server_engine(self._url, extra="mysql", on_connect=on_connect, connect_args=args)

    def trouble(self, error: DBAPIError) -> Trouble:
        """See ``Backend``."""
        code = _code(error)
        trouble = next((trouble for codes, trouble in _MEANING if code in codes), Trouble.OTHER)
        return Trouble.LOST if trouble is Trouble.OTHER and error.connection_invalidated else trouble

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
