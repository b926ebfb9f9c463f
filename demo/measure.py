"""Measures the cost of reading a table: directories, files, bytes and seconds, with a checksum of the rows."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from compactor.acid.directory import acid_directory
from compactor.acid.names import known_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, Target
from demo.report import TableFigures
from demo.snapshot_reader import ROW_ID_COLUMNS, read_snapshot

_AT_ONCE = 1 << 16  #: rows converted to text at a time


def measure(site: Site, database: str, name: str) -> TableFigures:
    """Measures the table as seen by a reader of the newest snapshot."""
    table = site.metastore.catalog.table(database, name)
    targets = list(_list_targets(site, table))
    txns = site.metastore.transactions.snapshot()
    write_ids = site.write_ids(table, txns)
    listings = [site.storage.listing(target.location) for target in targets]
    files = [file for listing in listings for file in listing.files]
    start = time.perf_counter()
    read = [read_rows(site, target, txns, write_ids) for target in targets]
    seconds = time.perf_counter() - start
    return TableFigures(
        table=f"{database}.{name}",
        partitions=len(targets) if table.partition_keys else 0,
        directories=sum(known_directory(name) is not None for listing in listings for name in listing.directories),
        files=len(files),
        bytes=sum(file.length for file in files),
        rows=sum(rows.num_rows for rows in read),
        seconds=seconds,
        checksum=digest_rows(read),
    )


def _list_targets(site: Site, table: Table) -> Iterator[Target]:
    names: Sequence[str | None] = [None]
    if table.partition_keys:
        names = sorted(partition.name for partition in site.metastore.catalog.partitions(table))
    for name in names:
        yield site.target(Entity(database=table.database, table=table.name, partition=name))


def read_rows(site: Site, target: Target, txns: ValidTxnList, write_ids: ValidWriteIdList) -> pa.Table:
    """Reads every visible row of one location, with its ROW__ID in front."""
    directory = acid_directory(site.storage.listing(target.location), write_ids, txns)
    batches = list(read_snapshot(target.location, directory, write_ids, target.row_type, site.storage))
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in ROW_ID_COLUMNS})


def digest_rows(parts: list[pa.Table]) -> str:
    """Returns a digest of all values, including ROW__IDs, independent of the order of reading."""
    digest = hashlib.sha256()
    for rows in parts:
        digest.update(f"{rows.num_rows} rows\n".encode())
        ordered = rows.sort_by([(name, "ascending") for name in ROW_ID_COLUMNS])
        for batch in ordered.to_batches(max_chunksize=_AT_ONCE):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                digest.update(repr(row).encode())
    return digest.hexdigest()
