"""Tables that take longer to make than to copy: made by the first test that needs one, copied by all others."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import func, update

from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import DBS, SDS
from compactor.site.site import Site

T = TypeVar("T")


class KeptTables:
    """Copies of warehouses with their embedded metastores, by the function that made them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._results: dict[Path, tuple[str, Any]] = {}  #: the first warehouse, and what the function returned

    def get(self, site: Site, warehouse: Path, make: Callable[[Site, Path], T]) -> T:
        """Returns what ``make(site, warehouse)`` returns. Copies all that it makes if it was called before."""
        database, place = site.metastore.database, self._folder / f"{make.__module__}.{make.__qualname__}"
        if not database.path.exists():  # of a server
            return make(site, warehouse)
        memory = Path(f"{database.path}.memory")
        if place not in self._results:
            self._results[place] = str(warehouse), make(site, warehouse)
            place.mkdir()
            shutil.copytree(warehouse, place / "warehouse")
            _copy_rows(database.path, place / "metastore.db")
            if memory.exists():
                shutil.copytree(memory, place / "memory")
            return cast(T, self._results[place][1])
        shutil.copytree(place / "warehouse", warehouse, dirs_exist_ok=True)
        _copy_rows(place / "metastore.db", database.path)
        if (place / "memory").exists():
            shutil.copytree(place / "memory", memory, dirs_exist_ok=True)
        former, result = self._results[place]
        with database.write() as conn:
            for column in (DBS.c.DB_LOCATION_URI, SDS.c.LOCATION):
                conn.execute(update(column.table).values({column: func.replace(column, former, str(warehouse))}))
        if isinstance(result, Table):  # it has the first warehouse's location
            result = site.metastore.catalog.table(result.database, result.name)
        return cast(T, result)


def _copy_rows(source: Path, target: Path) -> None:
    """Copies the rows of one database file into another that may be open."""
    with closing(sqlite3.connect(source)) as former, closing(sqlite3.connect(target)) as copy:
        former.backup(copy)
