"""Which partitions need a major compaction before Hive 2 gives way to Hive 3 or later.

Hive 2 writes update and delete events between rows (ACID version 1), or delete deltas of the first bucket codec; Hive 3
reads neither right. A major compaction by Hive 2 leaves rows only, which every Hive reads. So each partition needs one
that was updated or deleted from since its last, as Hive's own pre-upgrade tool demands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from compactor.acid.bucket import is_v1
from compactor.acid.names import Base, BucketFile, Delta, DeltaKind, parse_directory, parse_file
from compactor.compaction.entry import Entity
from compactor.errors import CompactorError
from compactor.metastore.catalog import Table
from compactor.orc import arrow_codec
from compactor.orc.source import Source
from compactor.orc.tail import KeyStatistics, Tail, key_statistics, read_tail
from compactor.rows.keys import INSERT, numbers
from compactor.rows.opening import open_source
from compactor.service.finding import Finding, Level, fine
from compactor.service.site import Site

_OPERATION, _BUCKET = 0, 2  #: places of these key columns


def before_hive_3(site: Site) -> list[Finding]:
    """A finding for each partition (or table without any) that still needs a major compaction. Nothing is written."""
    findings: list[Finding] = []
    looked_at = 0
    for table in site.metastore.catalog.tables():
        if not table.is_full_acid:
            continue
        for entity, location, spec in _places(site, table):
            looked_at += 1
            try:
                events = next(_with_events(site, location), None)
            except CompactorError as error:
                findings.append(
                    Finding(
                        level=Level.FAIL, subject=str(entity), found=str(error), wanted="files that can be looked at"
                    )
                )
                continue
            if events is not None:
                findings.append(_needed(entity, spec, events))
    return findings or [fine("before Hive 3", f"none of {looked_at} directories of full ACID tables needs a major")]


def _places(site: Site, table: Table) -> Iterator[tuple[Entity, str, str]]:
    """Each entity with its location and how Hive's statements name its partition."""
    if not table.partition_keys:
        yield Entity(database=table.database, table=table.name), table.location, ""
        return
    for partition in site.metastore.catalog.partitions(table):
        entity = Entity(database=table.database, table=table.name, partition=partition.name)
        pairs = zip(table.partition_keys, partition.values, strict=False)
        spec = ", ".join(f"{key.name}='{_quoted(value)}'" for key, value in pairs)
        yield entity, partition.location, f" PARTITION ({spec})"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def _needed(entity: Entity, spec: str, events: str) -> Finding:
    return Finding(
        level=Level.FAIL,
        subject=str(entity),
        found=events,
        wanted="no update or delete event of Hive 2 since the last major compaction",
        fix=f"in Hive 2, before the upgrade: ALTER TABLE {entity.database}.{entity.table}{spec} COMPACT 'major'",
    )


def _with_events(site: Site, location: str) -> Iterator[str]:
    """What is found in files that Hive 3 reads wrong, above the newest base.

    Raises:
        BadFile, BadName, StorageError: of what cannot be looked at.
    """
    path = site.storage.resolve(location)
    listing = site.storage.listing(path)
    parsed = [(name, acid) for name in listing.directories if (acid := parse_directory(name)) is not None]
    newest = max((acid.write_id for _, acid in parsed if isinstance(acid, Base)), default=0)
    above = {name: acid for name, acid in parsed if isinstance(acid, Delta) and acid.max_write_id > newest}
    for file in sorted(listing.files, key=lambda file: file.path):
        delta = above.get(file.path.partition("/")[0])
        if delta is None or not file.length or not isinstance(parse_file(file.name), BucketFile):
            continue
        with closing(open_source(site.storage, f"{path}/{file.path}")) as source:
            if (found := _events(source, delta.kind)) is not None:
                yield f"{file.path} {found}"


def _events(source: Source, kind: DeltaKind) -> str | None:
    tail = read_tail(source)
    if not tail.is_acid:
        return None
    for stripe in range(len(tail.stripes)):
        known = key_statistics(tail, stripe)
        operation, bucket = _largest(known) if known is not None else _decoded(source, tail, stripe)
        if kind is DeltaKind.INSERT and operation != INSERT:
            return "holds update or delete events between rows (ACID version 1)"
        if kind is DeltaKind.DELETE and not is_v1(bucket):
            return "holds delete events of the first bucket codec"
    return None


def _largest(known: KeyStatistics) -> tuple[int, int]:
    return known.operation.maximum, known.bucket.maximum


def _decoded(source: Source, tail: Tail, stripe: int) -> tuple[int, int]:
    operation, bucket = INSERT, 0
    for batch in arrow_codec.read_batches(source, tail, columns=(_OPERATION, _BUCKET), stripes=[stripe]):
        if batch.num_rows:
            operation = max(operation, int(np.max(numbers(batch.column(0)))))
            bucket = max(bucket, int(np.max(numbers(batch.column(1)))))
    return operation, bucket
