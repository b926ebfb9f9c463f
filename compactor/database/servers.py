"""Servers of databases: PostgreSQL through psycopg, MySQL and MariaDB through PyMySQL."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sqlalchemy import Engine, QueuePool, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from compactor.base.errors import NotSupported
from compactor.database.backend import Trouble, masked

_POOL_SIZE, _OVERFLOW = 5, 10  #: connections that stay open, and more that may be open at the same time
_RECYCLED_SECONDS = 1_800  #: below the idle time-outs of servers and firewalls
_WAIT_SECONDS = 30  #: for a connection of the pool


class Server:
    """The common part of the backends of all servers; see ``Backend``."""

    def __init__(self, url: URL) -> None:
        self._url = url

    def turn(self) -> AbstractContextManager[None]:
        """See ``Backend``; the server lets writers wait."""
        return nullcontext()

    def absent(self) -> str | None:
        """See ``Backend``."""
        return None

    def stamp(self) -> object:
        """See ``Backend``."""
        return None


def server_engine(url: URL, *, extra: str, on_connect: tuple[str, ...], connect_args: Mapping[str, Any]) -> Engine:
    """Returns an engine whose connections have run ``on_connect``.

    The driver runs in autocommit, and ``Database`` begins each transaction with a statement of its own. That statement
    fails on a dead connection of the pool, which is then discarded, so connections need no test of their own.

    Raises:
        NotSupported: the driver is not installed; ``extra`` is the extra that installs it.
    """
    try:
        engine = create_engine(
            url,
            poolclass=QueuePool,
            pool_size=_POOL_SIZE,
            max_overflow=_OVERFLOW,
            pool_timeout=_WAIT_SECONDS,
            pool_recycle=_RECYCLED_SECONDS,
            pool_use_lifo=True,
            pool_reset_on_return=None,  # ``Database`` ends every transaction that it begins
            connect_args=dict(connect_args),
        )
    except ModuleNotFoundError as error:
        raise NotSupported(
            f"database {masked(url)}: the driver {error.name} is not installed; run `pip install hive-compactor[{extra}]`"
        ) from error

    def set_up(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            for statement in on_connect:
                cursor.execute(statement)

    event.listen(engine, "connect", set_up, insert=True)  # before SQLAlchemy detects how quotes are read
    return engine


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


#: Classes of SQLSTATE (Appendix A of its manual).
_POSTGRES_BUSY = ("40", "55P03")  # rolled back (deadlock, serialization); a lock that NOWAIT did not get
_POSTGRES_LOST = (
    "08",
    "57P01",
    "57P02",
    "57P03",
    "53300",
)  # connection; shut down, crashed, starting up; too many clients
_POSTGRES_DENIED = ("42501", "28")
_POSTGRES_MISSING = ("42P01", "42703", "3F000", "3D000")


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
        return next((trouble for codes, trouble in _POSTGRES_MEANING if state.startswith(codes)), Trouble.OTHER)

    def is_rolled_back(self, error: DBAPIError) -> bool:
        """See ``Backend``."""
        state = getattr(error.orig, "sqlstate", None) or ""
        return state.startswith(("40", "23")) and state != "40003"  # 40003: statement completion unknown


_POSTGRES_MEANING = (
    (_POSTGRES_BUSY, Trouble.BUSY),
    (_POSTGRES_LOST, Trouble.LOST),
    (_POSTGRES_DENIED, Trouble.DENIED),
    (_POSTGRES_MISSING, Trouble.MISSING),
    (("42P07",), Trouble.OTHER),  # a table of that name already exists
    (("22", "23", "42"), Trouble.BUG),
)


def _is_operational(error: DBAPIError) -> bool:
    return type(error.orig).__name__ in ("OperationalError", "InterfaceError", "AdminShutdown", "ConnectionTimeout")
