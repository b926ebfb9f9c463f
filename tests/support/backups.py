"""Copies of a metastore's database, as a site's backup makes them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sqlalchemy import update

from compactor.metastore.schema.tables import TXNS
from compactor.site.site import Site
from tests.support.servers import Rows, Server

HOUR_MS = 3_600_000


class Backup:
    """A copy of an embedded metastore's database, which can be put back."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._copy = sqlite3.connect(":memory:", check_same_thread=False)

    def take(self) -> None:
        """Copies the database as it is now."""
        with closing(sqlite3.connect(self._database)) as source:
            source.backup(self._copy)

    def restore(self) -> None:
        """Puts the copy back in place of the database."""
        with closing(sqlite3.connect(self._database)) as target:
            self._copy.backup(target)


class ServerBackup:
    """The same of a database on PostgreSQL. Transactions that are under way meanwhile are not in it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._rows: Rows | None = None

    def take(self) -> None:
        """Copies every row and counter as it is now."""
        self._rows = Rows(self._url)

    def restore(self) -> None:
        """Puts all of them back."""
        assert self._rows is not None, "nothing was copied"
        self._rows.restore()
        self._rows.close()


class DumpedBackup:
    """A dump of a PostgreSQL database by its own tool, consistent whatever is under way meanwhile."""

    def __init__(self, server: Server, database: str) -> None:
        self._server, self._database = server, database
        self._script: str | None = None

    def take(self) -> None:
        """Dumps the database as it is now."""
        self._script = self._server.copy(self._database)

    def restore(self) -> None:
        """Puts the dump in place of the database, which loses every connection."""
        assert self._script is not None, "nothing was dumped"
        self._server.drop(self._database)
        self._server.make(self._database, self._script)


def without_memory(site: Site) -> Site:
    """Returns the site with nothing remembered outside of its database: for rules that hold without that, too."""
    return replace(site, memory=None)


def hours_pass(site: Site, hours: int) -> None:
    """Makes every transaction older, so that nothing has been heard of it for ``hours``."""
    older = hours * HOUR_MS
    columns = {"TXN_STARTED": TXNS.c.TXN_STARTED - older, "TXN_LAST_HEARTBEAT": TXNS.c.TXN_LAST_HEARTBEAT - older}
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).values(**columns))
