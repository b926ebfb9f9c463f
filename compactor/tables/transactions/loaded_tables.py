"""Compares tables as programs have loaded them with their current state (PROTOCOL 14.25)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compactor.base.errors import NotFound, Refused
from compactor.orc.format.java_zones import DEFAULT_ZONE

if TYPE_CHECKING:
    from compactor.metastore.catalog.read import Catalog
    from compactor.metastore.catalog.values import Table

#: suffixes of the properties that decide how rows are read and written, such as
#: ``compactorthreshold.compactor.orc.default.timezone``
_DECIDING = ("bucketing_version", DEFAULT_ZONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """The identity, place and columns of a table at the time when a program loaded it; can be serialized.

    ``layout`` is the number of buckets, the bucketing columns and the sort columns. ``properties`` are those that decide how
    rows are read and written.
    """

    id: int
    database: str
    name: str
    location: str
    row_type: str
    partition_keys: tuple[tuple[str, str], ...]
    layout: tuple[int, tuple[str, ...], tuple[str, ...]]
    properties: tuple[tuple[str, str], ...]

    @classmethod
    def from_table(cls, table: Table) -> LoadedTable:
        return cls(
            id=table.id,
            database=table.database,
            name=table.name,
            location=table.location,
            row_type=table.row_type,
            partition_keys=tuple((key.name, key.type) for key in table.partition_keys),
            layout=(table.buckets, tuple(table.bucket_columns), tuple(table.sort_columns)),
            properties=tuple(
                sorted((key, text) for key, text in table.parameters.items() if key.lower().endswith(_DECIDING))
            ),
        )

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


def reload(catalog: Catalog, loaded: LoadedTable) -> Table:
    """Returns the current state of the table that was loaded. Only a lock on its name keeps it so.

    Raises:
        NotFound: the table is gone, or another one has its name.
        Refused: its columns, buckets, deciding properties or location have changed.
    """
    table = find_loaded(catalog, loaded)
    must_be_as_loaded(loaded, table, catalog)
    return table


def find_loaded(catalog: Catalog, loaded: LoadedTable) -> Table:
    """Returns the table that was loaded, whatever columns it has now.

    Raises:
        NotFound: the table is gone, or another one has its name.
    """
    try:
        table = catalog.table(loaded.database, loaded.name)
    except NotFound as error:
        raise NotFound(f"{loaded}: {_describe_fate(catalog, loaded)}; load it again") from error
    _must_be_the_same(loaded, table, catalog)
    return table


def must_be_as_loaded(loaded: LoadedTable, table: Table, catalog: Catalog) -> None:
    """Refuses ``table`` if it differs from the one that was loaded.

    It was read from ``catalog`` under its lock.

    Raises:
        NotFound, Refused: as for ``reload``.
    """
    _must_be_the_same(loaded, table, catalog)
    now = LoadedTable.from_table(table)
    if now == loaded:
        return
    if replace(now, properties=loaded.properties) == loaded:
        raise Refused(
            f"{loaded}: {' or '.join(_DECIDING)} was altered since it was loaded (now {dict(now.properties)}, was "
            f"{dict(loaded.properties)}); load it again"
        )
    raise Refused(
        f"{loaded}: its columns, buckets or location were altered since it was loaded (its rows are "
        f"{table.row_type}, were {loaded.row_type}); load it again"
    )


def _must_be_the_same(loaded: LoadedTable, table: Table, catalog: Catalog) -> None:
    if table.id != loaded.id:
        raise NotFound(
            f"{loaded}: {_describe_fate(catalog, loaded)}, and another table (id {table.id}, was {loaded.id}) has its name; "
            "load it again"
        )


def _describe_fate(catalog: Catalog, loaded: LoadedTable) -> str:
    place = catalog.places_by_id([loaded.id], []).get((loaded.id, None))
    if place is None:
        return "was dropped since it was loaded"
    return f"was renamed to {place[0]} since it was loaded"
