"""Finds the partitions that need a major compaction before an upgrade from Hive 2 to Hive 3 or later.

Hive 2 writes update and delete events between rows (ACID version 1), or delete deltas of the first bucket codec; Hive 3
reads neither correctly. A major compaction by Hive 2 leaves only rows, which every Hive reads. So each partition with
updates or deletes since its last major compaction needs another one, as Hive's own pre-upgrade tool demands.
``hive2.major`` can run it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from compactor.acid.bucket import is_v1
from compactor.acid.names import Base, BucketFile, Delta, DeltaKind, parse_directory, parse_file
from compactor.base.errors import CompactorError, failing_alone
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.read import Catalog
from compactor.metastore.catalog.values import Partition, Table
from compactor.orc.codecs import arrow_codec
from compactor.orc.format.tail import KeyStatistics, Tail, key_statistics, read_tail
from compactor.orc.io.source import Source
from compactor.rows.keys import INSERT, to_numbers
from compactor.rows.remote_source import open_source
from compactor.site.finding import Finding, Level, ok
from compactor.site.site import path_of
from compactor.storage.protocol import Storage

_BESIDE_HIVE_2 = (
    "`compactor --set compactor.mode=compact doctor --before-hive-3 --compact`, or in Hive 2, before the upgrade: "
)
_AFTERWARDS = (
    "this metastore is a later Hive's, in which the meaning of such events is uncertain: restore database and files from "
    "before the upgrade, and run there, in Hive 2: "
)
_OPERATION, _BUCKET = 0, 2  #: positions of these key columns


@dataclass(frozen=True, slots=True, kw_only=True)
class OldPartition:
    """A partition, or a table without partitions, and the location of its files."""

    table: Table
    partition: Partition | None

    @property
    def entity(self) -> Entity:
        name = self.partition.name if self.partition else None
        return Entity(database=self.table.database, table=self.table.name, partition=name)

    @property
    def location(self) -> str:
        return self.partition.location if self.partition else self.table.location

    @property
    def statement(self) -> str:
        """The statement for a major compaction: ``ALTER TABLE d.t PARTITION (p='1') COMPACT 'major'``."""
        spec = ""
        if self.partition is not None:
            pairs = zip(self.table.partition_keys, self.partition.values, strict=False)
            named = ", ".join(f"{key.name}='{_quote(value)}'" for key, value in pairs)
            spec = f" PARTITION ({named})"
        return f"ALTER TABLE {self.table.database}.{self.table.name}{spec} COMPACT 'major'"


def before_hive_3(catalog: Catalog, storage: Storage, *, is_upgraded: bool) -> list[Finding]:
    """Returns a finding for each partition or unpartitioned table that needs a major compaction.

    Writes nothing.

    Args:
        is_upgraded: true if the metastore belongs to a later Hive already, which needs another remedy.
    """
    findings: list[Finding] = []
    looked_at = 0
    for place in list_old_partitions(catalog):
        looked_at += 1
        finding = check_partition(storage, place, is_upgraded=is_upgraded)
        if finding is not None:
            findings.append(finding)
    return findings or [report_nothing_needed(looked_at)]


def report_nothing_needed(looked_at: int) -> Finding:
    return ok("before Hive 3", f"none of {looked_at} directories of full ACID tables needs a major compaction")


def check_partition(storage: Storage, place: OldPartition, *, is_upgraded: bool = False) -> Finding | None:
    """Returns the finding of a partition that needs a major compaction or cannot be checked.

    Returns None if it is fine.
    """
    try:
        with failing_alone(place.entity):
            description = next(misread_files(storage, path_of(storage, place.table, place.partition)), None)
    except CompactorError as error:
        return Finding(level=Level.FAIL, subject=str(place.entity), found=str(error), wanted="files that can be read")
    if description is None:
        return None
    return Finding(
        level=Level.FAIL,
        subject=str(place.entity),
        found=description,
        wanted="no update or delete event of Hive 2 since the last major compaction",
        fix=(_AFTERWARDS if is_upgraded else _BESIDE_HIVE_2) + place.statement,
    )


def list_old_partitions(catalog: Catalog) -> Iterator[OldPartition]:
    """Yields every partition of every full ACID table, and every such table without partitions."""
    for table in catalog.tables():
        if not table.is_full_acid:
            continue
        if not table.partition_keys:
            yield OldPartition(table=table, partition=None)
            continue
        for partition in catalog.partitions(table):
            yield OldPartition(table=table, partition=partition)


def _quote(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def misread_files(storage: Storage, path: str) -> Iterator[str]:
    """Yields a description of each file above the newest base that Hive 3 reads wrongly.

    Raises:
        BadFile, BadName, StorageError: a file or directory cannot be read.
    """
    listing = storage.listing(path)
    parsed = [(name, acid) for name in listing.directories if (acid := parse_directory(name)) is not None]
    newest = max((acid.write_id for _, acid in parsed if isinstance(acid, Base)), default=0)
    above = {name: acid for name, acid in parsed if isinstance(acid, Delta) and acid.max_write_id > newest}
    for file in sorted(listing.files, key=lambda file: file.path):
        delta = above.get(file.path.partition("/")[0])
        if delta is None or not file.length or not isinstance(parse_file(file.name), BucketFile):
            continue
        with closing(open_source(storage, f"{path}/{file.path}")) as source:
            if (description := _describe_misread(source, delta.kind)) is not None:
                yield f"{file.path} {description}"


def _describe_misread(source: Source, kind: DeltaKind) -> str | None:
    tail = read_tail(source)
    if not tail.is_acid:
        return None
    for stripe in range(len(tail.stripes)):
        known = key_statistics(tail, stripe)
        operation, bucket = _find_largest(known) if known is not None else _decode_largest(source, tail, stripe)
        if kind is DeltaKind.INSERT and operation != INSERT:
            return "holds update or delete events between rows (ACID version 1)"
        if kind is DeltaKind.DELETE and not is_v1(bucket):
            return "holds delete events of the first bucket codec"
    return None


def _find_largest(known: KeyStatistics) -> tuple[int, int]:
    return known.operation.maximum, known.bucket.maximum


def _decode_largest(source: Source, tail: Tail, stripe: int) -> tuple[int, int]:
    operation, bucket = INSERT, 0
    for batch in arrow_codec.read_batches(source, tail, columns=(_OPERATION, _BUCKET), stripes=[stripe]):
        if batch.num_rows:
            operation = max(operation, int(np.max(to_numbers(batch.column(0)))))
            bucket = max(bucket, int(np.max(to_numbers(batch.column(1)))))
    return operation, bucket
