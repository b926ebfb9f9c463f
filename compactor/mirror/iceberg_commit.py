"""Commits a snapshot to a mirror's Iceberg table: files added and removed, by name.

PyIceberg's own appends and deletes are not used: they try a stale commit again, and choose files by expressions. Here the
commit requires the head from which the pass began, and is never tried again (PROTOCOL 15.2).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.catalog import Catalog
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from compactor.base.errors import MirrorStopped
from compactor.mirror.catalogs import catalog_errors

_CODEC: AvroCompressionCodec = "deflate"
_MOST_MANIFESTS = 64  #: of one kind in a snapshot; more are merged into one


@dataclass(frozen=True, kw_only=True)
class NewSnapshot:
    """The content of a commit. ``removed`` are paths of data files and of files with position deletes."""

    added: Sequence[DataFile]
    removed: Collection[str]
    properties: Mapping[str, str]  #: of the summary
    schema: Schema | None  #: the new schema if it changes
    prefix: str  #: begins the names of the files that this commit writes in the metadata directory


def commit_snapshot(catalog: Catalog, table: Table, new: NewSnapshot) -> Snapshot:
    """Commits ``new`` to the head of ``table`` as it was loaded, and returns the snapshot.

    Raises:
        MirrorStopped: the head is another one meanwhile, or names other files than the file map.
        CommitUnknown: the answer was lost.
        CatalogUnavailable: the catalog does not answer, or refuses.
    """
    what = ".".join(table.name())
    with catalog_errors(what):
        writer = _SnapshotWriter(table, new)
        snapshot = writer.write()
        catalog.commit_table(table, writer.requirements(), writer.updates(snapshot))
    return snapshot


def head_totals(snapshot: Snapshot | None) -> tuple[int, int]:
    """Returns the rows of all data files and of all position deletes that a snapshot's summary counts."""
    if snapshot is None or snapshot.summary is None:
        return 0, 0
    return int(snapshot.summary["total-records"] or 0), int(snapshot.summary["total-position-deletes"] or 0)


class _DeleteManifestWriter(ManifestWriterV2):
    """Writes a manifest of files with position deletes, which PyIceberg 0.12 has no writer for."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _SnapshotWriter:
    def __init__(self, table: Table, new: NewSnapshot) -> None:
        self._table, self._new = table, new
        self._metadata, self._io = table.metadata, table.io
        self._head = self._metadata.current_snapshot()
        self._id = self._metadata.new_snapshot_id()
        self._schema = table.schema() if new.schema is None else new.schema
        self._removed: list[DataFile] = []
        self._count = 0

    def write(self) -> Snapshot:
        """Writes manifests and their list, and returns the snapshot, which nothing names yet."""
        manifests = [*self._write_added(), *self._merge(self._existing())]
        missing = set(self._new.removed) - {file.file_path for file in self._removed}
        if missing:
            raise MirrorStopped(
                f"{'.'.join(self._table.name())}: the head does not name {len(missing)} files of the file map, such as "
                f"{min(missing)}; `compactor mirror rebuild` begins a new copy"
            )
        path = f"{self._directory}/{self._new.prefix}-snap-{self._id}.avro"
        sequence_number = self._metadata.next_sequence_number()
        with write_manifest_list(
            format_version=2,
            output_file=self._io.new_output(path),
            snapshot_id=self._id,
            parent_snapshot_id=None if self._head is None else self._head.snapshot_id,
            sequence_number=sequence_number,
            avro_compression=_CODEC,
        ) as writer:
            writer.add_manifests(manifests)
        return Snapshot.model_validate(
            {
                "snapshot-id": self._id,
                "parent-snapshot-id": None if self._head is None else self._head.snapshot_id,
                "manifest-list": path,
                "sequence-number": sequence_number,
                "timestamp-ms": max(int(time.time() * 1000), self._metadata.last_updated_ms),
                "summary": self._summary(),
                "schema-id": self._schema.schema_id,
            }
        )

    @property
    def _directory(self) -> str:
        return f"{self._table.location().rstrip('/')}/metadata"

    def _write_added(self) -> Iterator[ManifestFile]:
        for content in (DataFileContent.DATA, DataFileContent.POSITION_DELETES):
            files = [file for file in self._new.added if file.content is content]
            if not files:
                continue
            with self._writer(content is DataFileContent.DATA, self._metadata.spec()) as writer:
                for file in files:
                    entry = ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED, snapshot_id=self._id, data_file=file
                    )
                    writer.add_entry(entry)
            yield writer.to_manifest_file()

    def _existing(self) -> Iterator[ManifestFile]:
        """Yields the manifests of the head, those with removed files written again."""
        for manifest in self._head.manifests(self._io) if self._head is not None else ():
            if not manifest.has_added_files() and not manifest.has_existing_files():
                continue
            if not self._new.removed:
                yield manifest
                continue
            entries = manifest.fetch_manifest_entry(self._io)
            hit = {entry.data_file.file_path for entry in entries} & set(self._new.removed)
            if not hit:
                yield manifest
                continue
            with self._writer_like(manifest) as writer:
                for entry in entries:
                    if entry.data_file.file_path in hit:
                        self._removed.append(entry.data_file)
                        writer.delete(entry)
                    else:
                        writer.existing(entry)
            yield writer.to_manifest_file()

    def _merge(self, manifests: Iterable[ManifestFile]) -> Iterator[ManifestFile]:
        """Yields ``manifests``; those of one kind are merged into one if there are many."""
        kept = list(manifests)
        for content in (ManifestContent.DATA, ManifestContent.DELETES):
            of_kind = [manifest for manifest in kept if manifest.content is content]
            old = [manifest for manifest in of_kind if manifest.added_snapshot_id != self._id]
            if len(of_kind) <= _MOST_MANIFESTS or len({manifest.partition_spec_id for manifest in old}) != 1:
                yield from of_kind
                continue
            yield from (manifest for manifest in of_kind if manifest.added_snapshot_id == self._id)
            with self._writer_like(old[0]) as writer:
                for manifest in old:
                    for entry in manifest.fetch_manifest_entry(self._io):
                        writer.existing(entry)
            yield writer.to_manifest_file()

    def _writer_like(self, manifest: ManifestFile) -> ManifestWriter:
        spec = self._metadata.specs()[manifest.partition_spec_id]
        return self._writer(manifest.content is ManifestContent.DATA, spec)

    def _writer(self, is_data: bool, spec: PartitionSpec) -> ManifestWriter:
        kind = ManifestWriterV2 if is_data else _DeleteManifestWriter
        return kind(spec, self._schema, self._new_output(), self._id, _CODEC)

    def _new_output(self) -> OutputFile:
        self._count += 1
        return self._io.new_output(f"{self._directory}/{self._new.prefix}-m{self._count}.avro")

    def _summary(self) -> Summary:
        collector = SnapshotSummaryCollector()
        for file in self._new.added:
            collector.add_file(file, self._schema, self._metadata.spec())
        for file in self._removed:
            collector.remove_file(file, self._schema, self._metadata.specs()[file.spec_id])
        summary = Summary(self._operation(), **collector.build(), **self._new.properties)
        previous = None if self._head is None else self._head.summary
        return update_snapshot_summaries(summary, previous)

    def _operation(self) -> Operation:
        added_data = any(file.content is DataFileContent.DATA for file in self._new.added)
        if not self._removed and len(self._new.added) == sum(
            1 for file in self._new.added if file.content is DataFileContent.DATA
        ):
            return Operation.APPEND
        return Operation.OVERWRITE if added_data else Operation.DELETE

    def requirements(self) -> tuple[TableRequirement, ...]:
        """Returns what must still be true of the table when the catalog commits."""
        head = None if self._head is None else self._head.snapshot_id
        return (
            AssertTableUUID(uuid=self._metadata.table_uuid),
            AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": head}),
            AssertCurrentSchemaId.model_validate({"current-schema-id": self._metadata.current_schema_id}),
        )

    def updates(self, snapshot: Snapshot) -> tuple[TableUpdate, ...]:
        """Returns the changes of the table's metadata."""
        schema: tuple[TableUpdate, ...] = ()
        if self._new.schema is not None:
            current = SetCurrentSchemaUpdate.model_validate({"schema-id": -1})
            schema = (AddSchemaUpdate(schema=self._new.schema), current)
        head = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot.snapshot_id}
        return (*schema, AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(head))
