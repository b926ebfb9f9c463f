"""Insert-only tables of plain files, and what a reader that follows Hive's rules finds in them; of our code it uses only
the choice of directories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc, parquet

from compactor.acid.directory import acid_directory
from compactor.acid.names import Base, Delta, DeltaKind
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.rewrite.plan.file_format import FileFormat
from compactor.site.site import Site
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from tests.support.tables import entity_of

INPUTS = {
    FileFormat.ORC: "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    FileFormat.PARQUET: "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    FileFormat.TEXT: "org.apache.hadoop.mapred.TextInputFormat",
}
NUMBERS = (0, 1)


def make_insert_only(
    site: Site,
    warehouse: Path,
    file_format: FileFormat = FileFormat.ORC,
    name: str = "t",
    *,
    buckets: int = -1,
    input_format: str | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Table:
    """Creates ``default.<name>(a int, b string)``, empty."""
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
            parameters={"transactional": "true", "transactional_properties": "insert_only", **(parameters or {})},
            buckets=buckets,
            bucket_columns=("a",) if buckets > 0 else (),
            input_format=input_format or INPUTS[file_format],
        )
    )


def make_rows(values: Iterable[int]) -> pa.Table:
    """Returns rows ``(v, 'row v')``; every seventh text is NULL."""
    found = list(values)
    texts = [None if v % 7 == 0 else f"row {v}" for v in found]
    return pa.table({"a": pa.array(found, pa.int32()), "b": pa.array(texts, pa.string())})


def write_file(path: Path, file_format: FileFormat, table: pa.Table) -> None:
    """Writes one plain file as another writer would leave it."""
    if file_format is FileFormat.ORC:
        orc.write_table(table, path, compression="zlib")
    elif file_format is FileFormat.PARQUET:
        parquet.write_table(table, path, compression="snappy", write_page_index=True)
    else:
        lines = [
            "\x01".join("\\N" if cell is None else str(cell) for cell in row.values()) for row in table.to_pylist()
        ]
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())


class _Changed(Exception):
    """Makes a transaction abort."""


def insert(
    site: Site,
    table: Table,
    file_format: FileFormat,
    values: Iterable[int],
    *,
    commits: bool = True,
    overwrites: bool = False,
    numbers: tuple[int, ...] = NUMBERS,
) -> Path:
    """Inserts rows in one transaction, distributed over the files of ``numbers``; returns the directory."""
    found = list(values)
    directory = Path()
    with suppress(_Changed), transaction(site) as txn:
        statement = txn.begin_statement(entity_of(table), WriteOperation.INSERT)
        written = statement.write_id
        name = Delta(
            kind=DeltaKind.INSERT, min_write_id=written, max_write_id=written, statement_id=statement.statement_id
        ).name
        directory = Path(statement.location) / (Base(write_id=written).name if overwrites else name)
        directory.mkdir()
        for number in numbers:
            part = [v for v in found if v % len(numbers) == numbers.index(number)]
            if part:
                write_file(directory / f"{number:06d}_0", file_format, make_rows(part))
        if not commits:
            raise _Changed
    return directory


def story(site: Site, table: Table, file_format: FileFormat) -> None:
    """Runs inserts, one of them aborted."""
    for start in range(0, 60, 10):
        insert(site, table, file_format, range(start, start + 10))
    insert(site, table, file_format, range(1000, 1010), commits=False)
    insert(site, table, file_format, range(60, 70))


def read_file(path: Path, file_format: FileFormat) -> list[tuple[Any, ...]]:
    """Returns a file's rows as a reader other than ours reads them."""
    return read_content(path.read_bytes(), file_format)


def read_content(content: bytes, file_format: FileFormat) -> list[tuple[Any, ...]]:
    """Returns the rows of a file that holds ``content``, as a reader other than ours reads them."""
    if not content:
        return []
    if file_format is FileFormat.TEXT:
        lines = content.decode().splitlines()
        cells = (line.split("\x01") for line in lines)
        return [tuple(None if cell == "\\N" else cell for cell in row) for row in cells]
    source = pa.BufferReader(content)
    table = orc.read_table(source) if file_format is FileFormat.ORC else parquet.read_table(source)
    return [tuple(row.values()) for row in table.to_pylist()]


def rows_of(site: Site, table: Table, file_format: FileFormat) -> list[tuple[Any, ...]]:
    """Returns every row, sorted, as a new transaction sees it; the transaction is open during the read."""
    txn = site.metastore.transactions.open("reader", site.host)[0]
    try:
        target = site.target(entity_of(table))
        txns = site.metastore.transactions.snapshot(txn)
        directory = acid_directory(site.storage.listing(target.location), site.write_ids(table, txns), txns)
        parts = [*([directory.base] if directory.base else []), *directory.deltas]
        paths = [file.path for part in parts for file in (*part.files, *part.unnumbered)]
        contents = (site.storage.read(f"{target.location}/{path}") for path in paths)
        found = [row for content in contents for row in read_content(content, file_format)]
    finally:
        site.metastore.transactions.commit(txn)
    return sorted(found, key=repr)
