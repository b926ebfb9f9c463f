"""What differs between kinds of databases: how to connect, how a transaction begins, what an error means."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from compactor.database.trouble import Trouble


class Backend(Protocol):
    """One kind of database at one place."""

    kind: str  #: the name under which dialects are looked up
    begin_write: tuple[str, ...]  #: statements that begin a writing transaction
    begin_read: tuple[str, ...]  #: statements that begin one that sees one instant and keeps nothing

    def make_engine(self) -> Engine:
        """A new engine with a pool of its own; connects to nothing yet.

        Raises:
            NotSupported: its driver is not installed.
        """
        ...

    def turn(self) -> AbstractContextManager[None]:
        """A writing transaction begins and ends within it. Where only one can be open, those of this process wait here for
        each other: a database that is asked again and again, with pauses, idles in them."""
        ...

    def absent(self) -> str | None:
        """Why there is nothing to read at this place; None when that is only known by connecting."""
        ...

    def stamp(self) -> object:
        """What must be the same before and after a reading transaction; equal where the database itself sees to it."""
        ...

    def trouble(self, error: DBAPIError) -> Trouble:
        """What ``error`` means."""
        ...

    def is_rolled_back(self, error: DBAPIError) -> bool:
        """Whether a commit that failed with ``error`` has surely changed nothing."""
        ...


def masked(url: URL) -> str:
    """``url`` as it may be logged: no password, wherever it stands."""
    hidden = {key: "***" for key in url.query if any(secret in key.lower() for secret in _SECRETS)}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def secrets(url: URL) -> tuple[str, ...]:
    """The passwords in ``url``, which no message may repeat."""
    texts = [str(url.password or "")]
    for key, value in url.query.items():
        if any(secret in key.lower() for secret in _SECRETS):
            texts.extend((value,) if isinstance(value, str) else value)
    return tuple(text for text in texts if text)


_SECRETS = ("password", "passwd", "pwd", "sslpassword", "secret", "token")
