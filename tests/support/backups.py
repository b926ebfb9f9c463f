"""Copies of an embedded metastore, as a site's backup makes them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


class Backup:
    """A copy of the metastore's database, which can be put back."""

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
