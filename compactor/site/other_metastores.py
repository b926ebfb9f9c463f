"""The other metastores in a site's configuration, and the locations of their tables (PROTOCOL 11.13)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from compactor.base.errors import BadSetting, CompactorError, DatabaseUnavailable
from compactor.database.engine import Database, open_database
from compactor.metastore.catalog.locations import Locations
from compactor.metastore.claim_token import ClaimToken
from compactor.metastore.schema import detect


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherMetastore:
    """Another metastore. ``locate`` returns its URL with the password, or None if it is unknown.

    ``locate`` may raise ``BadSetting``.
    """

    name: str
    locate: Callable[[], str | None]


class OtherMetastores:
    """Reads the tables of other metastores.

    Each database is opened when it is first needed, and stays open.

    Args:
        url: the URL of this metastore's own database, which may also be configured under another name.
        token: the token of this metastore.
    """

    def __init__(
        self, others: Sequence[OtherMetastore] = (), *, url: str = "", token: ClaimToken | None = None
    ) -> None:
        self._others = others
        self._url = url
        self._token = token
        self._open: dict[str, Database] = {}
        self._lock = threading.Lock()

    def locations(self) -> list[tuple[str, Locations]]:
        """Returns the name of each other metastore with the locations of its tables and partitions.

        Leaves out other names of this metastore's own database, and databases without a metastore.

        Raises:
            DatabaseUnavailable: a metastore cannot be reached now.
        """
        with self._lock:
            databases = [(other.name, self._database(other)) for other in self._others]
        return [(name, Locations(database)) for name, database in databases if database is not None]

    def close(self) -> None:
        """Closes every database."""
        with self._lock:
            for database in self._open.values():
                database.close()
            self._open.clear()

    def _database(self, other: OtherMetastore) -> Database | None:
        if (kept := self._open.get(other.name)) is not None:
            return kept
        try:
            url = other.locate()
            if url is None or _is_same(url, self._url):
                return None
            database = open_database(url, read_only=True)
            try:
                is_other = self._is_other_metastore(database)
            except BaseException:
                database.close()
                raise
        except CompactorError as error:
            raise DatabaseUnavailable(
                f"metastore {other.name}, which the configuration names, too, cannot be asked whether its tables lie in the "
                f"same directories: {error}. Nothing is compacted or removed until it can be; if it is no longer in use, "
                "remove it from the configuration"
            ) from error
        if not is_other:
            database.close()
            return None
        self._open[other.name] = database
        return database

    def _is_other_metastore(self, database: Database) -> bool:
        if not database.exists or (version := detect.version(database)) is None:
            return False
        database.adapt(detect.dialect_of_any_hive(database.kind, version, database.url).adapt)
        return self._token is None or not self._token.is_in_same_database(ClaimToken(database))


def _is_same(url: str, other_url: str) -> bool:
    """Returns true if two URLs certainly name the same database.

    Another user may have another schema in it.
    """
    try:
        return _place(make_url(url)) == _place(make_url(other_url))
    except (ArgumentError, ValueError) as error:
        raise BadSetting(f"its URL is malformed ({type(error).__name__})") from None


def _place(url: URL) -> tuple[object, ...]:
    host = (url.host or "").lower()
    return url.get_backend_name(), url.username, host, url.port, url.database, sorted(url.query.items())
