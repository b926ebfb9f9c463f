"""Differences between kinds of databases: how to connect, begin a transaction and read an error."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol
from urllib.parse import unquote

from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from compactor.base.redaction import find_secrets, redact
from compactor.database.trouble import Trouble


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
        """Returns a value that changes if somebody writes; constant where the database itself isolates readers."""
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
