"""The tables that programs of the model write, and their rows in each form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.site.site import Site
from compactor.tables.table import Table
from tests.model import reader
from tests.model.programs.versions import Row

DAYS = ("x", "y")
PARTITIONED, OTHERS = ("p",), ("t", "b")
TABLES = (*PARTITIONED, *OTHERS)


def make_tables(site: Site, location: Path) -> None:
    """Creates ``t``, ``b`` in two buckets by id, and ``p`` partitioned by day, all with the columns of ``Row``."""
    site.metastore.embedded_catalog.create_database("default", str(location))
    columns = [Column(name="id", type="int"), Column(name="note", type="string"), Column(name="serial", type="bigint")]
    day = Column(name="day", type="string")
    plain = NewTable(
        "default",
        "t",
        str(location / "t"),
        [*columns, day],
        parameters={"transactional": "true", "bucketing_version": "2"},
    )
    bucketed = replace(plain, name="b", location=str(location / "b"), buckets=2, bucket_columns=["id"])
    partitioned = replace(plain, name="p", location=str(location / "p"), columns=columns, partition_keys=[day])
    for new in (plain, bucketed, partitioned):
        Path(new.location).mkdir()
        table = site.metastore.embedded_catalog.create_table(new)
    for value in DAYS:
        Path(site.metastore.embedded_catalog.add_partition(table, [value]).location).mkdir(parents=True)


def arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([row._asdict() for row in rows])


def of_arrow(table: pa.Table) -> list[Row]:
    return sorted(named(table), key=repr)


def named(table: pa.Table) -> list[Row]:
    return [Row(**row) for row in table.select(Row._fields).to_pylist()]


def rows_of(table: Table, where: str | None) -> list[Row]:
    return of_arrow(table.scan(where).to_arrow())


def slow_rows(site: Site, name: str) -> list[Row]:
    """Returns what the slow reader shows of the files, by Hive's rules."""
    txns = site.metastore.transactions.snapshot()
    snapshot = reader.Snapshot.of(str(txns), str(site.metastore.write_ids.valid("default", name, txns)))
    table = site.metastore.catalog.table("default", name)
    kinds = [column.type for column in table.columns]
    parts = {part.values[0]: part.location for part in site.metastore.catalog.partitions(table)}
    found = [
        Row(*row, *((day,) if day else ()))
        for day, location in (parts or {"": table.location}).items()
        for _, row in reader.read_rows(Path(location), snapshot, kinds)
    ]
    return sorted(found, key=repr)
