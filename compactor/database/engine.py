"""A database as two kinds of transactions: one that writes and one that only reads.

SQLite: every writing transaction is ``BEGIN IMMEDIATE`` (a deferred one lets two writers read the same counter),
WAL, ``foreign_keys=ON``, ``synchronous=FULL``; connections are not pooled, so no lock outlives its transaction.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, ProgrammingError

from compactor.database.retry import ATTEMPTS, PAUSE_SECONDS, is_busy
from compactor.errors import BadSetting, CommitUnknown, DatabaseUnavailable, NotSupported

_log = logging.getLogger(__name__)

BUSY_TIMEOUT_SECONDS = 60.0
_WRITES = "compactor_writes"
_SECRETS = ("password", "passwd", "pwd", "sslpassword", "secret", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stamp:
    """What a file looked like; used where SQLite itself cannot lock."""

    size: int
    modified_ns: int


class Database:
    """One database. Made by ``open_database``; holds no connection open between two transactions."""

    def __init__(
        self,
        url: URL,
        *,
        read_only: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        attempts: int = ATTEMPTS,
    ) -> None:
        self.read_only = read_only
        self.path = Path(url.database or "").absolute()
        self.url = masked(url)
        self._sleep = sleep
        self._attempts = attempts
        self._engine = self._make_engine()

    @property
    def engine(self) -> Engine:
        """For schema tools; everybody else uses ``read`` and ``write``."""
        return self._engine

    @property
    def kind(self) -> str:
        """``sqlite``: the name under which dialects are looked up."""
        return self._engine.dialect.name

    @property
    def exists(self) -> bool:
        """Whether there is a database to connect to."""
        return self.path.is_file() and self.path.stat().st_size > 0

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A writing transaction: committed at the end, rolled back when the body raises.

        Raises:
            DatabaseUnavailable: the database cannot be opened, is read-only, or stayed busy.
            CommitUnknown: the commit itself failed, so that nobody knows whether it happened.
        """
        if self.read_only:
            raise DatabaseUnavailable(f"database {self.url} is open read-only and something was to be written to it")
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
        if not self.exists:
            raise DatabaseUnavailable(
                f"database {self.url}: there is no such file, or it is empty; check the URL, or make it with "
                "`compactor metastore init`"
            )
        before = self._stamp() if self._without_locks() else None
        conn = self._begin(writes=False)
        try:
            with self._said_plainly():
                yield conn
        finally:
            self._end(conn)
        if before is not None and before != self._stamp():
            raise DatabaseUnavailable(f"database {self.url} was written while it was read without locks; read it again")

    def close(self) -> None:
        """Let go of everything; using the database again opens it again."""
        self._engine.dispose()

    def _begin(self, *, writes: bool) -> Connection:
        for attempt in range(1, self._attempts + 1):
            conn: Connection | None = None
            try:
                conn = self._engine.connect()
                conn = conn.execution_options(**{_WRITES: writes})
                conn.begin()
                return conn
            except DBAPIError as error:
                if conn is not None:
                    conn.close()
                if not is_busy(error) or attempt == self._attempts:
                    raise DatabaseUnavailable(f"database {self.url}: {_reason(error)}") from error
                _log.warning("database busy, beginning again", extra={"database": self.url, "attempt": attempt})
                self._sleep(PAUSE_SECONDS * attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    @contextmanager
    def _said_plainly(self) -> Iterator[None]:
        """A database that fails under a statement is unavailable; a broken constraint is a bug and stays what it is."""
        try:
            yield
        except DBAPIError as error:
            if isinstance(error, IntegrityError | ProgrammingError):
                raise
            raise DatabaseUnavailable(f"database {self.url}: {_reason(error)}") from error

    def _commit(self, conn: Connection) -> None:
        try:
            conn.commit()
        except DBAPIError as error:
            raise CommitUnknown(
                f"database {self.url}: the answer to a commit was lost ({_reason(error)}); nothing may be removed "
                "before the database has been asked what happened"
            ) from error

    def _end(self, conn: Connection) -> None:
        try:
            conn.close()  # rolls back whatever is not committed
        except DBAPIError as error:
            _log.warning("closing a connection failed: %s", _reason(error), extra={"database": self.url})

    def _make_engine(self) -> Engine:
        engine = create_engine("sqlite://", creator=self._connect, poolclass=NullPool)
        event.listen(engine, "begin", _begin_transaction)
        return engine

    def _connect(self) -> sqlite3.Connection:
        place = quote(os.fspath(self.path))
        mode = "immutable=1" if self._without_locks() else "mode=ro" if self.read_only else "mode=rwc"
        conn = sqlite3.connect(f"file:{place}?{mode}", uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)
        try:
            conn.execute("PRAGMA foreign_keys=ON")
            conn.execute("PRAGMA synchronous=FULL")
            if not self.read_only:
                _use_wal(conn)
        except BaseException:
            conn.close()
            raise
        return conn

    def _without_locks(self) -> bool:
        """Whether the only way to read is without locks: nobody has it open, and we may not make the lock files."""
        if not self.read_only or Path(f"{self.path}-wal").exists():
            return False
        return not os.access(self.path.parent, os.W_OK) or not os.access(self.path, os.W_OK)

    def _stamp(self) -> _Stamp:
        stat = self.path.stat()
        return _Stamp(size=stat.st_size, modified_ns=stat.st_mtime_ns)


def open_database(url: str, *, read_only: bool = False) -> Database:
    """The database at ``url`` (``sqlite:////absolute/path``). Connects when the first transaction begins.

    Raises:
        BadSetting: ``url`` is no URL of a database; the message never repeats it, since it may hold a password.
        NotSupported: a database that this release does not know.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise BadSetting("a database URL is malformed; wanted is for example sqlite:////var/lib/metastore.db") from None
    kind = parsed.get_backend_name()
    if kind != "sqlite":
        raise NotSupported(
            f"database {masked(parsed)}: {kind} is not supported by this release; supported is SQLite, as "
            "sqlite:////absolute/path"
        )
    if not parsed.database or parsed.database == ":memory:":
        raise NotSupported(
            f"database {masked(parsed)}: a database in memory is lost between two transactions; name a file"
        )
    return Database(parsed, read_only=read_only)


def masked(url: URL) -> str:
    """``url`` as it may be logged: no password, wherever it stands."""
    hidden = {key: "***" for key in url.query if any(secret in key.lower() for secret in _SECRETS)}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def _begin_transaction(conn: Connection) -> None:
    writes = conn.get_execution_options().get(_WRITES, True)
    conn.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _use_wal(conn: sqlite3.Connection) -> None:
    """Write-ahead logging, which a file keeps for good. Switching waits for no lock by itself, so it is repeated."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            if conn.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                return
            conn.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _reason(error: DBAPIError) -> str:
    original: Any = error.orig
    return f"{type(original).__name__}: {original}"
