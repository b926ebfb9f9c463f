"""An ACID table of many small row groups, with bloom filters, beside the plain values of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyorc
from pyorc.enums import CompressionKind

from compactor.acid import bucket
from compactor.acid.names import ACID_VERSION, ACID_VERSION_FILE
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.site.site import Site
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction

Row = Mapping[str, Any]
COLUMNS = {
    "i": "int",
    "n": "decimal(12,2)",
    "f": "double",
    "s": "string",
    "c": "char(4)",
    "d": "date",
    "t": "timestamp",
    "b": "boolean",
    "l": "array<int>",
}
STRIDE = 100


def make_rows(count: int) -> list[Row]:
    """Returns rows in which every column has NULLs, and most rise slowly, so that row groups differ."""
    return [
        {
            "i": None if n % 11 == 0 else n // 3,
            "n": None if n % 13 == 0 else Decimal(n) / 4,
            "f": None if n % 7 == 0 else float("nan") if n % 17 == 0 else n / 8,
            "s": None if n % 5 == 0 else f"key {n // 10:04d}",
            "c": None if n % 19 == 0 else ("ab", "ab c", "b")[n // 250 % 3],
            "d": None if n % 23 == 0 else date.fromordinal(date(2026, 1, 1).toordinal() + n // 50),
            "t": None if n % 29 == 0 else datetime(2026, 1, 1 + n // 600, n // 30 % 24, n % 30),
            "b": None if n % 3 == 0 else n % 400 < 200,
            "l": None if n % 4 == 0 else [n],
        }
        for n in range(count)
    ]


def make(site: Site, warehouse: Path, name: str = "scanned") -> Table:
    """Creates the table, empty."""
    if "default" not in site.metastore.catalog.databases():
        site.metastore.embedded_catalog.create_database("default", str(warehouse))
    location = warehouse / name
    location.mkdir()
    columns = [Column(name=column, type=kind) for column, kind in COLUMNS.items()]
    new = NewTable("default", name, str(location), columns, parameters={"transactional": "true"})
    return site.metastore.embedded_catalog.create_table(new)


def insert(site: Site, table: Table, values: Sequence[Row], *, blooms: Sequence[str] = ("i", "s", "d")) -> None:
    """Inserts rows as a transaction; the file has row groups of ``STRIDE`` rows."""
    with transaction(site) as txn:
        made = txn.begin_statement(Entity(database=table.database, table=table.name), WriteOperation.INSERT)
        folder = Path(made.location) / f"delta_{made.write_id:07d}_{made.write_id:07d}_{made.statement_id:04d}"
        folder.mkdir()
        (folder / ACID_VERSION_FILE).write_bytes(ACID_VERSION)
        write(folder / "bucket_00000", table.row_type, values, made.write_id, made.statement_id, blooms)


def write(
    path: Path, row_type: str, values: Sequence[Row], write_id: int, statement_id: int, blooms: Sequence[str]
) -> None:
    names = list(COLUMNS)
    acid = "operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint"
    filtered = [7 + _offset(name) for name in blooms]
    with path.open("wb") as file:
        writer = pyorc.Writer(
            file,
            f"struct<{acid},row:{row_type}>",
            stripe_size=4096,
            row_index_stride=STRIDE,
            compression=CompressionKind.ZLIB,
            compression_block_size=65536,
            bloom_filter_columns=filtered,
            batch_size=100,
        )
        number = bucket.encode(0, statement_id)
        for row_id, row in enumerate(values):
            writer.write((0, write_id, number, row_id, write_id, tuple(row[name] for name in names)))
        writer.close()


def _offset(name: str) -> int:
    """Returns the id of a column, from that of the first; the only one with parts is the last."""
    return list(COLUMNS).index(name)
