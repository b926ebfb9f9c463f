"""Engines of database servers: one pool for each process, every connection set up alike."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sqlalchemy import Engine, QueuePool, create_engine, event
from sqlalchemy.engine import URL

from compactor.database.backend import masked
from compactor.errors import NotSupported

_KEPT, _MORE = 5, 10  #: connections that stay open, and how many more there may be at once
_RECYCLED_SECONDS = 1_800  #: below the idle time-outs of servers and firewalls
_WAIT_SECONDS = 30  #: for a connection of the pool


class Server:
    """What the backends of all servers have in common; see ``Backend``."""

    def __init__(self, url: URL) -> None:
        self._url = url

    def turn(self) -> AbstractContextManager[None]:
        """See ``Backend``; the server has them wait."""
        return nullcontext()

    def absent(self) -> str | None:
        """See ``Backend``."""
        return None

    def stamp(self) -> object:
        """See ``Backend``."""
        return None


def server_engine(url: URL, *, extra: str, on_connect: tuple[str, ...], connect_args: Mapping[str, Any]) -> Engine:
    """An engine whose connections have run ``on_connect``.

    The driver begins no transaction by itself (autocommit); ``Database`` begins each with a statement of its own,
    which finds out at once when a connection of the pool is dead: it is thrown away, and the transaction begins on
    another. So no statement is spent on asking whether a connection lives.

    Raises:
        NotSupported: the driver is not installed; ``extra`` is what brings it.
    """
    try:
        engine = create_engine(
            url,
            poolclass=QueuePool,
            pool_size=_KEPT,
            max_overflow=_MORE,
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

    event.listen(engine, "connect", set_up, insert=True)  # before SQLAlchemy looks at how quotes are read
    return engine
