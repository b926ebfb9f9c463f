"""A small partitioned table, written to as Hive does it, which may die before it has recorded a partition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from compactor.acid.directory import acid_directory
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.site.site import Site
from demo.snapshot_reader import read_snapshot
from tests.support.tables import entity_of, insert_as_hive


def make_partitioned(site: Site, warehouse: Path, name: str = "t", key: str = "int", **parameters: str) -> Table:
    """Creates ``default.<name>(a int, b string) partitioned by (p <key>)``, without a partition."""
    if "default" not in site.metastore.catalog.databases():
        site.metastore.embedded_catalog.create_database("default", str(warehouse))
    location = warehouse / name
    location.mkdir()
    return site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            name,
            str(location),
            [Column(name="a", type="int"), Column(name="b", type="string")],
            partition_keys=[Column(name="p", type=key)],
            parameters={"transactional": "true", **parameters},
        )
    )


def partition_of(table: Table, value: int | str) -> Entity:
    return replace(entity_of(table), partition=f"p={value}")


def add_partition(site: Site, table: Table, value: int | str, location: Path | None = None) -> None:
    """Adds the partition and its directory, if that does not exist."""
    part = site.metastore.embedded_catalog.add_partition(table, [str(value)], str(location) if location else None)
    Path(part.location).mkdir(exist_ok=True, parents=True)


def insert_into(
    site: Site,
    table: Table,
    value: int | str,
    rows: Iterable[int],
    *,
    commits: bool = True,
    recorded: bool = True,
    under: str | None = None,
    location: Path | None = None,
) -> None:
    """Inserts rows ``(v, 'row v')`` into ``p=value``; a dynamic INSERT that died early has not ``recorded`` it, and a static
    one of Hive has recorded it ``under`` another name."""
    entity = partition_of(table, value if under is None else under) if recorded else entity_of(table)
    where = location or Path(table.location) / f"p={value}"
    insert_as_hive(site, table, rows, recorded=entity, location=str(where), commits=commits)


def values_in(site: Site, table: Table, value: int | str) -> list[int]:
    """Returns the values of ``a`` that a reader who starts now sees in ``p=value``, sorted."""
    target = site.target(partition_of(table, value))
    txns = site.metastore.transactions.snapshot()
    write_ids = site.write_ids(target.table, txns)
    directory = acid_directory(site.storage.listing(target.location), write_ids, txns)
    batches = read_snapshot(target.location, directory, write_ids, target.row_type)
    return sorted(row["a"] for batch in batches for row in batch.to_pylist())
