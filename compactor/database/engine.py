"""A database with two kinds of transactions: one that writes and one that only reads."""

from __future__ import annotations

import functools
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import Connection, Dialect, Engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, TimeoutError

from compactor.base.errors import BadSetting, CommitUnknown, DatabaseUnavailable, NotSupported, Refused, TryAgain
from compactor.base.redaction import HIDDEN
from compactor.database.backend import WRITES, Backend, Retryable, Trouble, log_in_advice, masked, secrets_of
from compactor.database.servers import MySQLBackend, PostgresBackend
from compactor.database.sqlite import SqliteBackend

_P = ParamSpec("_P")
_T = TypeVar("_T")

ATTEMPTS = 3  #: attempts to begin a transaction; in each the driver waits for a lock or a connection
PAUSE_SECONDS = 0.2  #: the first pause; each further one is longer by the same time

BODY_ATTEMPTS = 10  #: ``hive.hmshandler.retry.attempts``
BODY_PAUSE_SECONDS = 0.05

#: What is logged before a transaction begins again, by the trouble that another attempt may cure.
_AGAIN = {
    Trouble.BUSY: "database busy, beginning again",
    Trouble.LOST: "no connection to the database, connecting again",
    Trouble.READ_ONLY: "the database accepts no writes, connecting again",
}
_PASSING = frozenset(_AGAIN)


def retried(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Repeats ``method``, one whole transaction, if the database rolled it back in favour of another.

    A failed commit raises CommitUnknown and is never repeated, because only the database knows what happened.
    """

    @functools.wraps(method)
    def repeated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for attempt in range(1, BODY_ATTEMPTS):
            try:
                return method(*args, **kwargs)
            except TryAgain as error:
                _log.info("%s is repeated: %s", method.__qualname__, error, extra={"attempt": attempt})
                time.sleep(BODY_PAUSE_SECONDS * attempt)
        return method(*args, **kwargs)

    return repeated


_log = logging.getLogger(__name__)

#: The driver for each name that a URL may have; a plain name means the driver that the extras install.
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mysql+pymysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
}


class Database:
    """One database. Created by ``open_database``; no transaction stays open between two calls.

    Connections are kept for the next transaction and belong to one process: after a fork the child opens its own.
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
        self._secrets = secrets_of(url)
        self._backend = _backend(url, read_only)
        self._retryable = Retryable(retryable)
        self._sleep = sleep
        self._attempts = attempts
        self._changes: list[Callable[[Dialect], None]] = []
        self._start()

    @property
    def engine(self) -> Engine:
        """The engine, for schema tools and dialects; all other code uses ``read`` and ``write``."""
        self._restart_after_fork()
        return self._engine

    @property
    def kind(self) -> str:
        """``sqlite``, ``postgresql`` or ``mysql``: the name under which dialects are looked up."""
        return self._backend.kind

    @property
    def exists(self) -> bool:
        """False if there certainly is no database; of a server, only connecting shows it."""
        return self._backend.absent() is None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Runs the body in a writing transaction, committed at the end and rolled back if the body raises.

        Raises:
            DatabaseUnavailable: the database cannot be opened, is read-only, or stays busy.
            Refused: a name has characters that a column cannot hold.
            TryAgain: another transaction was preferred and this one rolled back, or the connection was lost.
            CommitUnknown: the commit itself failed, so nobody knows whether it happened.
        """
        if self.read_only:
            raise DatabaseUnavailable(
                f"database {self.url} is open read-only and cannot be written; open it for writing"
            )
        self._restart_after_fork()
        with self._backend.turn():
            conn = self._begin(writes=True)
            try:
                with self._translate_errors():
                    yield conn
                self._commit(conn)
            finally:
                self._end(conn)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Runs the body in a reading transaction.

        Every statement sees the same instant, and writes are rolled back.

        Raises:
            DatabaseUnavailable: the database does not exist or cannot be opened.
        """
        if absent := self._backend.absent():
            raise DatabaseUnavailable(f"database {self.url}: {absent}")
        before = self._backend.stamp()
        conn = self._begin(writes=False)
        try:
            with self._translate_errors():
                yield conn
        finally:
            self._end(conn)
        if before is not None and before != self._backend.stamp():
            raise DatabaseUnavailable(f"database {self.url} was written while it was read without locks; read it again")

    def denies(self, statement: str) -> bool:
        """Returns true if this user may not run ``statement``, which the database only explains.

        Raises:
            DatabaseUnavailable: the database or the table does not exist.
        """
        try:
            with self.read() as conn:
                conn.exec_driver_sql(f"EXPLAIN {statement}").close()
        except DatabaseUnavailable as error:
            cause = error.__cause__
            trouble = self._trouble(cause) if isinstance(cause, DBAPIError) else Trouble.LOST
            if trouble is Trouble.DENIED:
                return True
            # MariaDB refuses to explain a write in a reading transaction, but only to a user who may write.
            if trouble is not Trouble.OTHER:
                raise
        return False

    def adapt(self, change: Callable[[Dialect], None]) -> None:
        """Applies ``change`` to the SQL dialect of this database, from the next transaction on."""
        self._changes.append(change)
        change(self.engine.dialect)

    def close(self) -> None:
        """Closes all connections; the next use opens new ones."""
        self.engine.dispose()

    def _restart_after_fork(self) -> None:
        """Makes a new engine in a forked process, which must not use its parent's connections."""
        if self._process != os.getpid():
            _ABANDONED.append(self._engine)  # closing the connections here would close the parent's
            self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._engine = self._backend.make_engine()
        event.listen(self._engine, "begin", _Beginning(self._backend))
        for change in self._changes:
            change(self._engine.dialect)
        weakref.finalize(self, self._engine.dispose).atexit = False

    def _begin(self, *, writes: bool) -> Connection:
        for attempt in range(1, self._attempts + 1):
            conn: Connection | None = None
            try:
                conn = self.engine.connect()
                conn = conn.execution_options(**{WRITES: writes})
                conn.begin()
                return conn
            except (DBAPIError, TimeoutError, DisconnectionError) as error:
                if conn is not None:
                    conn.close()
                trouble = self._trouble(error) if isinstance(error, DBAPIError) else Trouble.BUSY
                if trouble not in _PASSING or attempt == self._attempts:
                    advice = trouble.advice if trouble in (Trouble.READ_ONLY, Trouble.POOLED) else ""
                    raise DatabaseUnavailable(f"database {self.url}: {self._reason(error)}{advice}") from error
                about = {"database": self.url, "attempt": attempt}
                _log.warning("%s: %s", _AGAIN[trouble], self._reason(error), extra=about)
                self._sleep(PAUSE_SECONDS * attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _trouble(self, error: DBAPIError) -> Trouble:
        return Trouble.BUSY if self._retryable.matches(error) else self._backend.trouble(error)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raises our errors in place of the driver's, except for bugs such as a broken constraint."""
        try:
            yield
        except DBAPIError as error:
            trouble = self._trouble(error)
            if trouble is Trouble.BUG:
                raise
            text = f"database {self.url}: {self._reason(error)}{trouble.advice}"
            if trouble is Trouble.UNSTORABLE:
                raise Refused(text) from error
            kind = TryAgain if trouble in _PASSING else DatabaseUnavailable
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
            if not conn.closed:
                conn.invalidate()
            _log.warning("closing a connection failed: %s", self._reason(error), extra={"database": self.url})

    def _reason(self, error: Exception) -> str:
        original: Any = getattr(error, "orig", None) or error
        text = " ".join(f"{type(original).__name__}: {original}".split())
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text + log_in_advice(text)


#: Engines of a parent process. Freeing them would close connections that the parent still uses.
_ABANDONED: list[Engine] = []


class _Beginning:
    """Begins a transaction by our own statements.

    Without a reference to ``Database``, which can be freed early.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __call__(self, conn: Connection) -> None:
        writes = conn.get_execution_options().get(WRITES, True)
        for statement in self._backend.begin_write if writes else self._backend.begin_read:
            conn.exec_driver_sql(statement)


def open_database(url: str, *, read_only: bool = False, retryable: str = "") -> Database:
    """Returns the database at ``url``, which connects when the first transaction begins.

    ``sqlite:////absolute/path``, ``postgresql+psycopg://user:password@host/name`` or
    ``mysql+pymysql://user:password@host/name``; the query string goes to the driver, for example with options for TLS.
    ``retryable`` has patterns of errors that are worth another try, as in ``hive.txn.retryable.sqlex.regex``.

    Raises:
        BadSetting: ``url`` is not the URL of a database. The message does not repeat it, as it may hold a password.
        NotSupported: this release does not know the kind of database, or its driver is not installed.
    """
    if url.strip().lower().startswith("jdbc:"):
        raise BadSetting(
            "a database URL is one of Java's (jdbc:…); expected postgresql+psycopg://user:password@host/name, or "
            "mysql+pymysql://user:password@host/name"
        )
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise BadSetting("a database URL is malformed; expected for example sqlite:////var/lib/metastore.db") from None
    shown = masked(parsed)
    if parsed.drivername in _DRIVERS:
        parsed = parsed.set(drivername=_DRIVERS[parsed.drivername])
        if not parsed.database:
            raise BadSetting(f"database {shown}: the URL names no database; expected …://host/name")
        return Database(parsed, read_only=read_only, retryable=retryable)
    if parsed.get_backend_name() != "sqlite":
        raise NotSupported(
            f"database {shown}: {parsed.drivername} is not supported; supported is SQLite, as "
            "sqlite:////absolute/path, postgresql+psycopg://host/name and mysql+pymysql://host/name (MariaDB too)"
        )
    if not parsed.database or parsed.database == ":memory:":
        raise NotSupported(f"database {shown}: a database in memory is lost between two transactions; name a file")
    return Database(parsed, read_only=read_only, retryable=retryable)


def make_folder(url: str) -> None:
    """Creates the folder of the SQLite file that ``url`` names; does nothing for a server.

    Raises:
        DatabaseUnavailable: the folder cannot be created.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return  # ``open_database`` refuses it in words
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return
    folder = Path(parsed.database).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnavailable(
            f"database {masked(parsed)}: its folder {folder} cannot be created: {error.strerror}; create it for this user, "
            "or name another one"
        ) from error


def _backend(url: URL, read_only: bool) -> Backend:
    if url.drivername == "postgresql+psycopg":
        return PostgresBackend(url)
    if url.drivername == "mysql+pymysql":
        return MySQLBackend(url)
    return SqliteBackend(Path(url.database or "").absolute(), read_only=read_only)
