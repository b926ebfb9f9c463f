"""A database as two kinds of transactions: one that writes and one that only reads."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, TimeoutError

from compactor.database.backend import Backend, masked, secrets
from compactor.database.mysql import MySQLBackend
from compactor.database.postgres import PostgresBackend
from compactor.database.prepared import send_text
from compactor.database.retry import ATTEMPTS, PAUSE_SECONDS
from compactor.database.sqlite import SqliteBackend
from compactor.database.trouble import Retryable, Trouble
from compactor.errors import BadSetting, CommitUnknown, DatabaseUnavailable, NotSupported, TryAgain

__all__ = ["Database", "masked", "open_database"]

_log = logging.getLogger(__name__)

_WRITES = "compactor_writes"
#: Drivers by the names that a URL may have; a plain name means the one that the extras install.
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mysql+pymysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
}


class Database:
    """One database. Made by ``open_database``; holds no transaction open between two of its own.

    Connections are kept for the next transaction and belong to one process: after a fork the child makes its own.
    """

    def __init__(
        self,
        url: URL,
        *,
        read_only: bool = False,
        retryable: str = "",
        sleep: Callable[[float], None] = time.sleep,
        attempts: int = ATTEMPTS,
    ) -> None:
        self.read_only = read_only
        self.path = Path(url.database or "").absolute()
        self.url = masked(url)
        self._secrets = secrets(url)
        self._backend = _backend(url, read_only)
        self._retryable = Retryable(retryable)
        self._sleep = sleep
        self._attempts = attempts
        self._adapted: list[Callable[[Dialect], None]] = []
        self._start()

    @property
    def engine(self) -> Engine:
        """For schema tools and what a dialect adds to it; everybody else uses ``read`` and ``write``."""
        self._own()
        return self._engine

    @property
    def kind(self) -> str:
        """``sqlite``, ``postgresql`` or ``mysql``: the name under which dialects are looked up."""
        return self._backend.kind

    @property
    def exists(self) -> bool:
        """Whether there is a database to connect to; of a server only connecting tells."""
        return self._backend.absent() is None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A writing transaction: committed at the end, rolled back when the body raises.

        Raises:
            DatabaseUnavailable: the database cannot be opened, is read-only, or stayed busy.
            TryAgain: it was rolled back for another transaction's sake, or the connection was lost within it.
            CommitUnknown: the commit itself failed, so that nobody knows whether it happened.
        """
        if self.read_only:
            raise DatabaseUnavailable(f"database {self.url} is open read-only and something was to be written to it")
        self._own()
        with self._backend.turn():
            conn = self._begin(writes=True)
            try:
                with self._said_plainly():
                    yield conn
                self._commit(conn)
            finally:
                self._end(conn)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A reading transaction: every statement in it sees the same instant. Nothing written in it is kept.

        Raises:
            DatabaseUnavailable: the database is not there or cannot be opened.
        """
        if absent := self._backend.absent():
            raise DatabaseUnavailable(f"database {self.url}: {absent}")
        before = self._backend.stamp()
        conn = self._begin(writes=False)
        try:
            with self._said_plainly():
                yield conn
        finally:
            self._end(conn)
        if before is not None and before != self._backend.stamp():
            raise DatabaseUnavailable(f"database {self.url} was written while it was read without locks; read it again")

    def denies(self, statement: str) -> bool:
        """Whether this user may not do what ``statement`` does. Nothing is done: the database only explains it.

        Raises:
            DatabaseUnavailable: the database is not there, or has no such table.
        """
        try:
            with self.read() as conn:
                conn.exec_driver_sql(f"EXPLAIN {statement}").close()
        except DatabaseUnavailable as error:
            cause = error.__cause__
            trouble = self._trouble(cause) if isinstance(cause, DBAPIError) else Trouble.LOST
            if trouble is Trouble.DENIED:
                return True
            if trouble is not Trouble.OTHER:  # MariaDB explains no writing in a reading transaction, once it is allowed
                raise
        return False

    def adapt(self, change: Callable[[Dialect], None]) -> None:
        """Have ``change`` alter how this database's statements are written, from the next transaction on."""
        self._adapted.append(change)
        change(self.engine.dialect)

    def close(self) -> None:
        """Let go of everything; using the database again opens it again."""
        self.engine.dispose()

    def _own(self) -> None:
        """In a process that was forked off nothing of the parent's is used."""
        if self._process != os.getpid():
            _ABANDONED.append(self._engine)  # the parent's connections: to close them here would end them there
            self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._engine = self._backend.make_engine()
        event.listen(self._engine, "begin", _Beginning(self._backend))
        for change in self._adapted:
            change(self._engine.dialect)
        weakref.finalize(self, self._engine.dispose).atexit = False

    def _begin(self, *, writes: bool) -> Connection:
        for attempt in range(1, self._attempts + 1):
            conn: Connection | None = None
            try:
                conn = self.engine.connect()
                conn = conn.execution_options(**{_WRITES: writes})
                conn.begin()
                return conn
            except (DBAPIError, TimeoutError, DisconnectionError) as error:
                if conn is not None:
                    conn.close()
                if not self._is_passing(error) or attempt == self._attempts:
                    raise DatabaseUnavailable(f"database {self.url}: {self._reason(error)}") from error
                _log.warning("database busy, beginning again", extra={"database": self.url, "attempt": attempt})
                self._sleep(PAUSE_SECONDS * attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _is_passing(self, error: Exception) -> bool:
        return not isinstance(error, DBAPIError) or self._trouble(error) in (Trouble.BUSY, Trouble.LOST)

    def _trouble(self, error: DBAPIError) -> Trouble:
        return Trouble.BUSY if self._retryable.matches(error) else self._backend.trouble(error)

    @contextmanager
    def _said_plainly(self) -> Iterator[None]:
        """A database that fails under a statement is unavailable; a broken constraint is a bug and stays what it is."""
        try:
            yield
        except DBAPIError as error:
            trouble = self._trouble(error)
            if trouble is Trouble.BUG:
                raise
            text = f"database {self.url}: {self._reason(error)}{trouble.advice}"
            kind = TryAgain if trouble in (Trouble.BUSY, Trouble.LOST) else DatabaseUnavailable
            raise kind(text) from error

    def _commit(self, conn: Connection) -> None:
        try:
            conn.commit()
        except DBAPIError as error:
            if self._backend.is_rolled_back(error):
                raise TryAgain(f"database {self.url}: nothing was committed ({self._reason(error)})") from error
            raise CommitUnknown(
                f"database {self.url}: the answer to a commit was lost ({self._reason(error)}); nothing may be removed "
                "before the database has been asked what happened"
            ) from error

    def _end(self, conn: Connection) -> None:
        try:
            conn.close()  # rolls back whatever is not committed
        except DBAPIError as error:
            conn.invalidate()
            _log.warning("closing a connection failed: %s", self._reason(error), extra={"database": self.url})

    def _reason(self, error: Exception) -> str:
        original: Any = getattr(error, "orig", None) or error
        text = " ".join(f"{type(original).__name__}: {original}".split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


#: Engines of a parent process. They are kept, since collecting them would close connections that the parent uses.
_ABANDONED: list[Engine] = []


class _Beginning:
    """Begins a transaction by statements of our own; knows no ``Database``, so that one nobody uses goes at once."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __call__(self, conn: Connection) -> None:
        writes = conn.get_execution_options().get(_WRITES, True)
        for statement in self._backend.begin_write if writes else self._backend.begin_read:
            send_text(conn, statement)


def open_database(url: str, *, read_only: bool = False, retryable: str = "") -> Database:
    """The database at ``url``; connects when the first transaction begins.

    ``sqlite:////absolute/path``, ``postgresql+psycopg://user:password@host/name`` or
    ``mysql+pymysql://user:password@host/name``; what stands in the query goes to the driver, as its options for TLS.
    ``retryable`` are patterns of errors that are worth another try, as ``hive.txn.retryable.sqlex.regex`` has them.

    Raises:
        BadSetting: ``url`` is no URL of a database; the message never repeats it, since it may hold a password.
        NotSupported: a database that this release does not know, or one whose driver is not installed.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise BadSetting("a database URL is malformed; wanted is for example sqlite:////var/lib/metastore.db") from None
    if parsed.drivername in _DRIVERS:
        parsed = parsed.set(drivername=_DRIVERS[parsed.drivername])
        if not parsed.database:
            raise BadSetting(f"database {masked(parsed)}: the URL names no database; wanted is …://host/name")
        return Database(parsed, read_only=read_only, retryable=retryable)
    if parsed.get_backend_name() != "sqlite":
        raise NotSupported(
            f"database {masked(parsed)}: {parsed.drivername} is not supported; supported is SQLite, as "
            "sqlite:////absolute/path, postgresql+psycopg://host/name and mysql+pymysql://host/name (MariaDB too)"
        )
    if not parsed.database or parsed.database == ":memory:":
        raise NotSupported(
            f"database {masked(parsed)}: a database in memory is lost between two transactions; name a file"
        )
    return Database(parsed, read_only=read_only, retryable=retryable)


def _backend(url: URL, read_only: bool) -> Backend:
    if url.drivername == "postgresql+psycopg":
        return PostgresBackend(url)
    if url.drivername == "mysql+pymysql":
        return MySQLBackend(url)
    return SqliteBackend(Path(url.database or "").absolute(), read_only=read_only)
