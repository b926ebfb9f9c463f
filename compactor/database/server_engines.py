"""Engines of database servers: one pool per process, with every connection set up in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sqlalchemy import Engine, QueuePool, create_engine, event
from sqlalchemy.engine import URL

from compactor.base.errors import NotSupported
from compactor.database.backend import masked

_POOL_SIZE, _OVERFLOW = 5, 10  #: connections that stay open, and more that may be open at the same time
_RECYCLED_SECONDS = 1_800  #: below the idle time-outs of servers and firewalls
_WAIT_SECONDS = 30  #: for a connection of the pool


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


def server_engine(url: URL, *, extra: str, on_connect: tuple[str, ...], connect_args: Mapping[str, Any]) -> Engine:
    """Returns an engine whose connections have run ``on_connect``.

    The driver runs in autocommit, and ``Database`` begins each transaction with a statement of its own. That statement
    fails on a dead connection of the pool, which is then discarded, so connections need no test of their own.

    Raises:
        NotSupported: the driver is not installed; ``extra`` is the extra that installs it.
    """
    try:
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

    def set_up(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            for statement in on_connect:
                cursor.execute(statement)

    event.listen(engine, "connect", set_up, insert=True)  # before SQLAlchemy detects how quotes are read
    return engine
