"""Differences between kinds of databases: connecting, beginning a transaction, the meaning of an error."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from compactor.database.trouble import Trouble


class Backend(Protocol):
    """A database of one kind at one place."""

    kind: str  #: the name under which dialects are looked up
    begin_write: tuple[str, ...]  #: statements that begin a writing transaction
    begin_read: tuple[str, ...]  #: statements that begin one that sees a single instant and keeps nothing

    def make_engine(self) -> Engine:
        """Returns a new engine with a pool of its own; it connects to nothing yet.

        Raises:
            NotSupported: its driver is not installed.
        """
        ...

    def turn(self) -> AbstractContextManager[None]:
        """Returns a context in which a writing transaction begins and ends.

        Where only one can be open, those of this process wait here for each other: a database that is polled, with
        pauses, would idle during the pauses.
        """
        ...

    def absent(self) -> str | None:
        """Returns the reason why there is nothing to read at this place; None if only connecting can show it."""
        ...

    def stamp(self) -> object:
        """Returns a value that must be equal before and after a reading transaction; constant if the database sees to it."""
        ...

    def trouble(self, error: DBAPIError) -> Trouble:
        """Returns the meaning of ``error``."""
        ...

    def is_rolled_back(self, error: DBAPIError) -> bool:
        """Returns true if a commit that failed with ``error`` has certainly changed nothing."""
        ...


def masked(url: URL) -> str:
    """Returns ``url`` as it may be logged: without passwords, wherever they are.

    In a URL written for another driver (``…://h/user/password@db``, ``…://h/db;password=x``) they are in the name of the
    database, or of the user.
    """
    hidden = {key: "***" for key in url.query if any(secret in key.lower() for secret in _SECRETS)}
    shown = url.update_query_dict(hidden)
    if _misplaced(url):
        shown = shown.set(database="***")
    if ":" in (url.username or ""):
        shown = shown.set(username="***")
    return shown.render_as_string(hide_password=True)


def _misplaced(url: URL) -> bool:
    """Returns true if the database's name may hold a password; a file's name may hold anything else."""
    return url.get_backend_name() != "sqlite" and any(mark in (url.database or "") for mark in "@;=&/")


def secrets(url: URL) -> tuple[str, ...]:
    """Returns the passwords in ``url``, which no message may repeat."""
    texts = [str(url.password or "")]
    if _misplaced(url):
        pieces = re.split(r"[@;=&/]", url.database or "")
        texts += [url.database or "", *(piece for piece in pieces if len(piece) > 2)]  # a letter is in every word
    if ":" in (url.username or ""):
        texts += [url.username or "", (url.username or "").partition(":")[2]]
    for key, value in url.query.items():
        if any(secret in key.lower() for secret in _SECRETS):
            texts.extend((value,) if isinstance(value, str) else value)
    return tuple(sorted({text for text in texts if text}, key=len, reverse=True))


_SECRETS = ("password", "passwd", "pwd", "sslpassword", "secret", "token")
