"""Servers of databases: PostgreSQL through psycopg, MySQL and MariaDB through PyMySQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sqlalchemy import Engine, ExceptionContext, QueuePool, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError

from compactor.base.errors import BadSetting, NotSupported
from compactor.database.backend import WRITES, Trouble, masked

_POOL_SIZE, _OVERFLOW = 5, 10  #: connections that stay open, and more that may be open at the same time
_RECYCLED_SECONDS = 1_800  #: below the idle time-outs of servers and firewalls
_WAIT_SECONDS = 30  #: for a connection of the pool
_LOOK_SECONDS = 10  #: between two looks at whether the server of a connection accepts writes
_LOOKED_AT = "compactor_looked_at"


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


def server_engine(
    url: URL,
    *,
    extra: str,
    on_connect: tuple[str, ...],
    connect_args: Mapping[str, Any],
    is_read_only: Callable[[DBAPIError], bool],
    read_only: str,
) -> Engine:
    """Returns an engine whose connections have run ``on_connect``.

    The driver runs in autocommit, and ``Database`` begins each transaction with a statement of its own. That statement
    fails on a dead connection of the pool, which is then discarded, so connections need no test of their own.
    ``is_read_only`` recognises a refused write, and the query ``read_only`` tells whether the server would refuse one.

    Raises:
        NotSupported: the driver is not installed; ``extra`` is the extra that installs it.
        BadSetting: an option of the URL is not what the driver expects.
    """
    try:
        with _understanding_options(url):
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

    def connect(dialect: Any, _: Any, args: Any, options: Any) -> Any:
        try:
            with _understanding_options(url):
                return dialect.connect(*args, **options)
        except RuntimeError as error:  # PyMySQL, of a log-in that needs RSA
            raise NotSupported(
                f"database {masked(url)}: {error}; run `pip install hive-compactor[{extra}]`, or connect with TLS"
            ) from error

    def set_up(connection: Any, _: Any) -> None:
        with _understanding_options(url), connection.cursor() as cursor:
            for statement in on_connect:
                cursor.execute(statement)

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "connect", set_up, insert=True)  # before SQLAlchemy detects how quotes are read
    _follow_primary(engine, is_read_only, read_only)
    return engine


def _follow_primary(engine: Engine, is_read_only: Callable[[DBAPIError], bool], read_only: str) -> None:
    """Makes ``engine`` discard all connections of the pool once their server accepts no writes.

    Its successor is at the same address.
    """

    def leave_replaced_server(connection: Any, record: Any, _: Any) -> None:
        """Asks the server of a connection that is about to be used, from time to time.

        Whoever only reads would stay with a replaced server, whose answers grow old. A new connection may be one to a
        standby, which is read for a while.
        """
        now = time.monotonic()
        if now - record.info.setdefault(_LOOKED_AT, now) < _LOOK_SECONDS:
            return
        record.info[_LOOKED_AT] = now
        try:
            with connection.cursor() as cursor:
                cursor.execute(read_only)
                (answer,) = cursor.fetchone()
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError(f"the server of a connection does not answer: {error}") from error
        if str(answer).lower() not in ("0", "off"):
            raise InvalidatePoolError("the server of a connection accepts no writes; another one may have taken over")

    def renew_after_failover(context: ExceptionContext) -> None:
        """Counts a connection as lost when its server refuses a write."""
        conn, error = context.connection, context.sqlalchemy_exception
        writes = conn is not None and conn.get_execution_options().get(WRITES, True)
        if writes and isinstance(error, DBAPIError) and is_read_only(error):
            context.is_disconnect = True

    event.listen(engine, "checkout", leave_replaced_server)
    event.listen(engine, "handle_error", renew_after_failover)


@contextmanager
def _understanding_options(url: URL) -> Iterator[None]:
    """Raises BadSetting for whatever SQLAlchemy and the driver raise of an option of the URL.

    The drivers turn every trouble with the network and the server into errors of their own. So these
    errors come from an option that SQLAlchemy or the driver does not know or cannot read.
    """
    try:
        yield
    except (ArgumentError, AttributeError, NotImplementedError, OSError, TypeError, ValueError) as error:
        raise BadSetting(
            f"database {masked(url)}: the driver does not accept an option of the URL: {error}; correct or remove it"
        ) from error


def _refused_write(error: DBAPIError) -> Trouble:
    """Returns the meaning of a write that a read-only server or transaction refused."""
    return Trouble.READ_ONLY if error.connection_invalidated else Trouble.OTHER


#: Error numbers of the server's reference. This one means that a savepoint does not exist: a deadlock inside it has
#: rolled everything back, and SQLAlchemy raises this error in place of the deadlock.
_NO_SAVEPOINT = 1305
_IDLE = 4031
#: A conflict with another primary: the commit failed, and the server has rolled it back (1180 of Galera, 3101 of group
#: replication). With any other error of the storage engine, 1180 is also what a server of Galera says that has lost the
#: others, and 3100 what one of a group says: the others may have the transaction, and then it comes back from them.
_FAILED_AT_COMMIT, _CONFLICT, _REFUSED_AT_COMMIT = 1180, "Got error 149 ", 3101
#: Deadlock and lock wait time-out; a row changed since it was read.
_BUSY = (1205, 1213, 1020, _NO_SAVEPOINT, _FAILED_AT_COMMIT, _REFUSED_AT_COMMIT)
#: Too many connections of all, of this user or in this hour (1040, 1203, 1226); a member of a cluster that is not in
#: service (1047, 3032); idle for too long (4031).
_LOST = (1040, 1047, 1053, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1927, 2002, 2003, 2006, 2013, 2055, 3032, _IDLE)
#: A standby, or a primary that was demoted. 1290 names the option; other options have nothing to do with it.
_READ_ONLY, _OPTION = 1836, 1290
_DENIED = (1044, 1045, 1142, 1143, 1227, 1370, 1698)
_MISSING = (1049, 1054, 1146)
#: A text that cannot be converted to a column's character set, or compared with it. 1366 is also given for numbers.
_UNSTORABLE, _WRONG_VALUE = (1267, 1271, 3854), 1366
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
            # NO_AUTO_VALUE_ON_ZERO keeps row 0 of TXNS at 0. In a zone with summer time UNIX_TIMESTAMP(SYSDATE()) is an hour
            # ahead in the first of the two hours that have one name.
            "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO',"
            " SESSION time_zone = '+00:00'",
        )
        # SQLAlchemy makes the driver count matched rows, so an UPDATE that changes nothing still counts its row.
        args = {"autocommit": True, "charset": "utf8mb4"}
        return server_engine(
            self._url,
            extra="mysql",
            on_connect=on_connect,
            connect_args=args,
            is_read_only=_mysql_is_read_only,
            read_only="SELECT @@GLOBAL.read_only",
        )

    def trouble(self, error: DBAPIError) -> Trouble:
        """See ``Backend``."""
        code = _code(error)
        if _mysql_is_read_only(error):
            return _refused_write(error)
        if code == _WRONG_VALUE and "string value" in str(error.orig):
            return Trouble.UNSTORABLE
        trouble = next((trouble for codes, trouble in _MEANING if code in codes), Trouble.OTHER)
        return Trouble.LOST if trouble is Trouble.OTHER and error.connection_invalidated else trouble

    def is_rolled_back(self, error: DBAPIError) -> bool:
        """See ``Backend``."""
        code = _code(error)
        if code == _FAILED_AT_COMMIT:
            return _CONFLICT in str(error.orig)
        return code in (1213, _NO_SAVEPOINT, _IDLE, _REFUSED_AT_COMMIT) or _mysql_is_read_only(error)


_MEANING = (
    (_BUSY, Trouble.BUSY),
    (_LOST, Trouble.LOST),
    (_DENIED, Trouble.DENIED),
    (_MISSING, Trouble.MISSING),
    (_UNSTORABLE, Trouble.UNSTORABLE),
    (_BUG, Trouble.BUG),
)


def _mysql_is_read_only(error: DBAPIError) -> bool:
    code = _code(error)
    return code == _READ_ONLY or (code == _OPTION and "read-only" in str(error.orig).replace("_", "-"))


def _code(error: DBAPIError) -> int:
    args = getattr(error.orig, "args", ())
    return args[0] if args and isinstance(args[0], int) else 0


#: Classes of SQLSTATE (Appendix A of its manual).
_POSTGRES_BUSY = ("40", "55P03")  # rolled back (deadlock, serialization); a lock that NOWAIT did not get
#: The session was idle for too long, within a transaction or not, or the transaction took too long.
_POSTGRES_IDLE = ("57P05", "25P03", "25P04")
#: Connection; shut down, crashed, starting up; too many clients.
_POSTGRES_LOST = ("08", "57P01", "57P02", "57P03", "53300", *_POSTGRES_IDLE)
_POSTGRES_POOLED = ("26000", "42P05")  # no such prepared statement, or another one of its name
_POSTGRES_PROTOCOL = "08P01"  # prepared with other parameters; PgBouncer also says so that it has lost the server
_POSTGRES_READ_ONLY = "25006"
_POSTGRES_UNSTORABLE = ("22P05", "22021")  # not in the database's encoding
_POSTGRES_DENIED = ("42501", "28")
_POSTGRES_MISSING = ("42P01", "42703", "3F000", "3D000")
_PREPARE = "prepare_threshold"  #: psycopg's option; None prepares nothing


class PostgresBackend(Server):
    """A database of a PostgreSQL server."""

    kind = "postgresql"
    # Without READ WRITE: a primary that is being replaced has default_transaction_read_only, and a standby has it always.
    begin_write: tuple[str, ...] = ("BEGIN ISOLATION LEVEL READ COMMITTED",)
    # One answer may take several statements. Values that are read this way are never written back.
    begin_read: tuple[str, ...] = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)

    def make_engine(self) -> Engine:
        """See ``Backend``."""
        on_connect = ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",)
        # Else it is the database's own, and psycopg returns bytes where that is SQL_ASCII. Hive's driver speaks UTF-8 too.
        args: dict[str, Any] = {"autocommit": True, "client_encoding": "UTF8"}
        if _PREPARE in self._url.query:
            args[_PREPARE] = self._prepare_threshold(self._url.query[_PREPARE])
        engine = server_engine(
            self._url.difference_update_query([_PREPARE]),
            extra="postgres",
            on_connect=on_connect,
            connect_args=args,
            is_read_only=_postgres_is_read_only,
            read_only="SHOW transaction_read_only",
        )
        if _PREPARE not in args:
            event.listen(engine, "connect", _prepare_nothing_behind_a_pooler)
        return engine

    def _prepare_threshold(self, option: object) -> int | None:
        text = str(option).strip().lower()
        if text in ("none", ""):
            return None
        if text.isascii() and text.isdecimal():
            return int(text)
        raise BadSetting(
            f"database {masked(self._url)}: {_PREPARE} is {option!r}; expected a number of executions after which a "
            "statement is prepared, or None, as behind PgBouncer in transaction mode"
        )

    def trouble(self, error: DBAPIError) -> Trouble:
        """See ``Backend``."""
        state = getattr(error.orig, "sqlstate", None)
        if _postgres_is_read_only(error):
            return _refused_write(error)
        if state is None:
            # The driver's own errors (no connection, or a broken one) have no SQLSTATE; a failed authentication neither.
            text = str(error.orig)
            if "NUL (0x00)" in text:  # psycopg's own refusal
                return Trouble.UNSTORABLE
            if "authentication failed" in text or "does not exist" in text:
                return Trouble.DENIED if "authentication" in text else Trouble.OTHER
            return Trouble.LOST if error.connection_invalidated or _is_operational(error) else Trouble.BUG
        if state == _POSTGRES_PROTOCOL and "prepared statement" in str(error.orig):
            return Trouble.POOLED
        return next((trouble for codes, trouble in _POSTGRES_MEANING if state.startswith(codes)), Trouble.OTHER)

    def is_rolled_back(self, error: DBAPIError) -> bool:
        """See ``Backend``."""
        state = getattr(error.orig, "sqlstate", None) or ""
        # 40003: statement completion unknown. A time-out ends a session before it reads the commit.
        return state.startswith(("40", "23", _POSTGRES_READ_ONLY, *_POSTGRES_IDLE)) and state != "40003"


def is_pooled(connection: Any) -> bool:
    """Returns true if a pooler stands between a connection of psycopg and the server.

    The pooler tells a process ID of its own.
    """
    with connection.cursor() as cursor:
        (process_id,) = cursor.execute("SELECT pg_backend_pid()").fetchone()
    return bool(process_id != connection.info.backend_pid)


def _prepare_nothing_behind_a_pooler(connection: Any, _: Any) -> None:
    """Turns off prepared statements where each transaction may get another session.

    There a name may stand for another client's statement, which would be executed in place of ours.
    """
    if is_pooled(connection):
        connection.prepare_threshold = None


_POSTGRES_MEANING = (
    (_POSTGRES_BUSY, Trouble.BUSY),
    (_POSTGRES_POOLED, Trouble.POOLED),
    (_POSTGRES_LOST, Trouble.LOST),
    (_POSTGRES_DENIED, Trouble.DENIED),
    (_POSTGRES_MISSING, Trouble.MISSING),
    (_POSTGRES_UNSTORABLE, Trouble.UNSTORABLE),
    (("42P07",), Trouble.OTHER),  # a table of that name already exists
    (("22", "23", "42"), Trouble.BUG),
)


def _postgres_is_read_only(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) == _POSTGRES_READ_ONLY


def _is_operational(error: DBAPIError) -> bool:
    return type(error.orig).__name__ in ("OperationalError", "InterfaceError", "AdminShutdown", "ConnectionTimeout")
