"""A mirrored table, and what PyIceberg reads of its mirror."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table as IcebergTable
from sqlalchemy import update

from compactor.metastore.schema.tables import COLUMNS_V2
from compactor.mirror.catalogs import open_catalog
from compactor.mirror.mirror_pass import PassResult
from compactor.mirror.mirrored_tables import NewMirror, add_mirror, run_mirrors
from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run
from compactor.tables.store import Store
from compactor.tables.table import Table
from tests.support.passes import clean_all


def with_catalog(site: Site, folder: Path, name: str = "lake") -> Site:
    """Returns the site with a catalog of PyIceberg in SQLite, whose tables lie in ``folder``."""
    folder.mkdir(exist_ok=True)
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    return replace(site, catalogs={name: properties})


@dataclass(frozen=True, kw_only=True)
class MirroredTable:
    """A table of a store, and its mirror in the catalog ``lake``."""

    site: Site
    name: str

    @property
    def table(self) -> Table:
        return Store(self.site).load_table(self.name)

    @property
    def iceberg(self) -> IcebergTable:
        """The mirror's table as a new reader loads it."""
        return open_catalog(self.site, "lake").load_table(self.name)

    def run(self) -> PassResult:
        """Runs one pass, which must succeed."""
        (outcome,) = run_mirrors(self.site, [self.name])
        if outcome.error is not None:
            raise outcome.error
        assert outcome.result is not None
        return outcome.result

    def shown(self) -> list[dict[str, Any]]:
        """Returns the rows that PyIceberg reads, in order."""
        return sort_rows(self.iceberg.scan().to_arrow())

    def expected(self) -> list[dict[str, Any]]:
        """Returns the table's rows, in order."""
        return sort_rows(self.table.scan(timestamps="us").to_arrow())

    def must_be_equal(self) -> None:
        """Runs a pass, and checks that PyIceberg then reads the table's rows."""
        self.run()
        assert self.shown() == self.expected()

    def compact(self, kind: str, *, cleans: bool = True, partition: str | None = None) -> None:
        self.table.compact(kind, here=True, wait=True, partition=partition)
        if cleans:
            clean_all(self.site)


def execute(site: Site, text: str) -> None:
    """Runs statements of SQL."""
    for answer in run(site, check_text(text)):
        for _ in answer.rows or ():
            pass


def change_column(site: Site, column: str, *, name: str | None = None, type: str | None = None) -> None:
    """Renames or widens the columns of this name as Hive does, whose statement this is."""
    values = {"COLUMN_NAME": name, "TYPE_NAME": type}
    with site.metastore.database.write() as conn:
        changed = update(COLUMNS_V2).where(column == COLUMNS_V2.c.COLUMN_NAME)
        conn.execute(changed.values({key: value for key, value in values.items() if value is not None}))


def sort_rows(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=repr)


def mirror_table(site: Site, folder: Path, name: str) -> MirroredTable:
    """Adds a mirror of ``name``."""
    site = with_catalog(site, folder)
    add_mirror(site, NewMirror(table=name, catalog="lake"))
    return MirroredTable(site=site, name=name)
