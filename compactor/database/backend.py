"""Differences between kinds of databases: connecting, beginning a transaction, the meaning of an error."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol
from urllib.parse import unquote

from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from compactor.base.redaction import redact, secrets_in
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
    """Returns ``url`` as it may be shown."""
    return redact(_written(url))


def secrets_of(url: URL) -> tuple[str, ...]:
    """Returns the passwords in ``url``, wherever they are, however short: what the driver says may repeat them."""
    return secrets_in(_written(url))


def _written(url: URL) -> str:
    return unquote(url.render_as_string(hide_password=False))
