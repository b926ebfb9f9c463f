"""Differences between kinds of databases: how to connect, begin a transaction and read an error."""

from __future__ import annotations

import enum
import re
from contextlib import AbstractContextManager
from typing import Protocol
from urllib.parse import unquote

from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from compactor.base.redaction import find_secrets, redact

WRITES = "compactor_writes"  #: execution option of a connection: whether its transaction writes


class Trouble(enum.Enum):
    """Kinds of errors."""

    BUSY = "busy"  #: rolled back in favour of another transaction, or blocked by a lock: repeat the transaction
    LOST = "lost"  #: no connection, or it broke: repeat the transaction unless it was committing
    READ_ONLY = "read-only"  #: the server accepts no write, since another one took over: connect again, as if lost
    POOLED = "pooled"  #: a pooler gave a transaction another session, which lacks prepared statements or has others
    DENIED = "denied"
    MISSING = "missing"
    UNSTORABLE = "unstorable"  #: a text has characters that a column cannot hold
    BUG = "bug"  #: a broken constraint or a wrong statement, which is our fault
    OTHER = "other"

    @property
    def advice(self) -> str:
        """Advice to append to the database's own message."""
        return _ADVICE.get(self, "")


_ADVICE = {
    Trouble.DENIED: "; grant this user what is missing, or use mode observe, which only reads",
    Trouble.UNSTORABLE: "; a name has characters that the column's character set does not have: use another name, or give "
    "the column a character set that has them (utf8mb4 on MySQL)",
    Trouble.POOLED: "; behind a pooler in transaction mode, remove prepare_threshold from the URL's options",
    Trouble.READ_ONLY: "; this server is a standby, or is being replaced: the URL has to name the one that accepts writes",
    Trouble.MISSING: "; the schema is not the one that VERSION names, or another one comes first on the search path",
}


#: Messages of the Kerberos library in errors of PostgreSQL, and the advice for each.
_LOG_IN = {
    "No Kerberos credentials available": "log in with kinit as this user, or name a keytab in KRB5_CLIENT_KTNAME",
    "Ticket expired": "log in again with kinit; a keytab in KRB5_CLIENT_KTNAME logs in automatically",
    "Clock skew too great": "set the clocks of this machine, the KDC and the database by NTP",
    "not found in Kerberos database": "host must be as in the server's principal, postgres/HOST (else krbsrvname)",
    "Cannot contact any KDC": "check kdc of this realm in krb5.conf",
    "GSSAPI authentication failed for user": "pg_hba.conf or pg_ident.conf does not map this principal to the URL's user",
}


def log_in_advice(message: str) -> str:
    """Returns advice on a failed log-in by Kerberos; an empty text for other messages."""
    return next((f"; {advice}" for text, advice in _LOG_IN.items() if text in message), "")


class Retryable:
    """Patterns of a site's own errors that are worth another try (``hive.txn.retryable.sqlex.regex``)."""

    def __init__(self, patterns: str = "") -> None:
        """Splits ``patterns`` at commas that are not followed by a blank, as Hive does."""
        self._patterns = tuple(re.compile(pattern) for pattern in re.split(r",(?=\S)", patterns) if pattern)

    def matches(self, error: DBAPIError) -> bool:
        """Returns true if a pattern matches the message, the SQLSTATE, or the text that Hive builds from both."""
        if not self._patterns:
            return False
        original = error.orig
        args: tuple[object, ...] = getattr(original, "args", ())
        code = args[0] if args and isinstance(args[0], int) else 0
        message = str(args[-1] if code else original)
        state = str(getattr(original, "sqlstate", None) or "")
        texts = (message, state, f"{message} (SQLState={state}, ErrorCode={code})")
        return any(pattern.search(text) for pattern in self._patterns for text in texts)


class Backend(Protocol):
    """A database of one kind at one place."""

    kind: str  #: the name under which dialects are looked up
    begin_write: tuple[str, ...]  #: statements that begin a writing transaction
    begin_read: tuple[str, ...]  #: statements that begin a transaction that sees a single instant and keeps no write

    def make_engine(self) -> Engine:
        """Returns a new engine with its own pool, not yet connected.

        Raises:
            NotSupported: its driver is not installed.
        """
        ...

    def turn(self) -> AbstractContextManager[None]:
        """Returns a context in which a writing transaction begins and ends.

        Where only one may be open at a time, the threads of this process wait here for each other. Otherwise they would
        poll the database, which is idle during their pauses.
        """
        ...

    def absent(self) -> str | None:
        """Returns why the database certainly does not exist; None if it may exist, which connecting shows."""
        ...

    def stamp(self) -> object:
        """Returns a value that changes if somebody writes.

        It is constant where the database itself isolates readers.
        """
        ...

    def trouble(self, error: DBAPIError) -> Trouble:
        """Returns the meaning of ``error``."""
        ...

    def is_rolled_back(self, error: DBAPIError) -> bool:
        """Returns true if a commit that failed with ``error`` has certainly changed nothing."""
        ...


def masked(url: URL) -> str:
    """Returns ``url`` as text without its passwords."""
    return redact(_written(url))


def secrets_of(url: URL) -> tuple[str, ...]:
    """Returns every password in ``url``, however short, because messages of the driver may repeat them."""
    return find_secrets(_written(url))


def _written(url: URL) -> str:
    return unquote(url.render_as_string(hide_password=False))
