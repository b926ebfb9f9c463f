"""SQLite with ``BEGIN IMMEDIATE``, WAL, ``foreign_keys=ON`` and ``synchronous=FULL``.

A deferred transaction would let two writers read the same counter. Connections that may write stay open between
transactions, and are discarded if their file was replaced. Connections that only read are opened each time, because
the way in which a file may be read can change.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

from sqlalchemy import Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError, IntegrityError, ProgrammingError

from compactor.database.backend import Trouble
from compactor.database.text_hash import add_text_hash

BUSY_TIMEOUT_SECONDS = 60.0
_POOL_SIZE = 5  #: connections of a process that stay open
_FILE = "compactor_file"
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

#: Held by the writer of a file: a metastore and our own state are often one file. Cleared in a forked process.
_WRITERS: WeakValueDictionary[Path, threading.Lock] = WeakValueDictionary()
os.register_at_fork(after_in_child=_WRITERS.clear)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stamp:
    """Size and time of a file, used where SQLite cannot lock."""

    size: int
    modified_ns: int


class SqliteBackend:
    """A SQLite database in a file; see ``Backend``."""

    kind = "sqlite"
    begin_write: tuple[str, ...] = ("BEGIN IMMEDIATE",)
    begin_read: tuple[str, ...] = ("BEGIN",)

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self._read_only = read_only

    def make_engine(self) -> Engine:
        """Returns an engine for the connections of all threads; see ``Backend``."""
        self._writer = _WRITERS.setdefault(self.path, threading.Lock())
        if self._read_only:
            return create_engine("sqlite://", creator=self._connect, poolclass=NullPool)
        engine = create_engine(
            "sqlite://",
            creator=self._connect,
            poolclass=QueuePool,
            pool_size=_POOL_SIZE,
            max_overflow=-1,
            pool_use_lifo=True,
        )
        place = self.path
        event.listen(engine, "connect", lambda _, record: record.info.update({_FILE: _file(place)}))
        event.listen(engine, "checkout", lambda _, record, __: _must_be_same_file(place, record.info.get(_FILE)))
        return engine

    @contextmanager
    def turn(self) -> Iterator[None]:
        """See ``Backend``. After the time-out the transaction begins anyway, and SQLite refuses it."""
        writer = self._writer
        is_first = writer.acquire(timeout=BUSY_TIMEOUT_SECONDS)
        try:
            yield
        finally:
            if is_first:
                writer.release()

    def absent(self) -> str | None:
        """See ``Backend``."""
        if self.path.is_file() and self.path.stat().st_size > 0:
            return None
        return (
            "there is no such file, or it is empty; check the URL, or make a metastore there with `compactor metastore "
            "init`, our own state with `compactor state init`"
        )

    def stamp(self) -> object:
        """Returns the file's size and time if it is read without locks; see ``Backend``."""
        if not self._without_locks():
            return None
        stat = self.path.stat()
        return _Stamp(size=stat.st_size, modified_ns=stat.st_mtime_ns)

    def trouble(self, error: DBAPIError) -> Trouble:
        """See ``Backend``."""
        if isinstance(error, IntegrityError | ProgrammingError):
            return Trouble.BUG
        code: int | None = getattr(error.orig, "sqlite_errorcode", None)
        return Trouble.BUSY if code is not None and code & 0xFF in _BUSY else Trouble.OTHER

    def is_rolled_back(self, error: DBAPIError) -> bool:
        """Returns false: a failed commit leaves the transaction open or ends it, depending on the error."""
        return False

    def _connect(self) -> sqlite3.Connection:
        place = quote(os.fspath(self.path))
        mode = "immutable=1" if self._without_locks() else "mode=ro" if self._read_only else "mode=rwc"
        conn = sqlite3.connect(
            f"file:{place}?{mode}",
            uri=True,
            timeout=BUSY_TIMEOUT_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # a kept connection is used by one thread after the other, never by two at once
        )
        try:
            conn.execute("PRAGMA foreign_keys=ON")
            conn.execute("PRAGMA synchronous=FULL")
            add_text_hash(conn)
            if not self._read_only:
                _use_wal(conn)
        except BaseException:
            conn.close()
            raise
        return conn

    def _without_locks(self) -> bool:
        """Returns true if the file must be read without locks.

        It is not open, and we may not create lock files.
        """
        if not self._read_only or Path(f"{self.path}-wal").exists():
            return False
        return not os.access(self.path.parent, os.W_OK) or not os.access(self.path, os.W_OK)


def _file(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _must_be_same_file(path: Path, known: tuple[int, int] | None) -> None:
    if known is None or _file(path) != known:
        raise DisconnectionError(f"{path} is no longer the file that the connection has open")


def _use_wal(conn: Any) -> None:
    """Switches a file to write-ahead logging for good.

    Repeats that, because switching does not wait for locks.
    """
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
