"""One pass over a mirrored table: all that the table shows and its mirror does not becomes one commit.

The head is read first, then a read transaction is opened, so that its snapshot sees all that the head shows. No state
outside of the Iceberg table decides what a pass does: one that died is repeated (PROTOCOL 15.8).
"""

from __future__ import annotations

import itertools
import logging
import secrets
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import MirrorStopped, NotFound, StorageError
from compactor.base.steps import MirrorStep, reach
from compactor.metastore.catalog.values import Table
from compactor.mirror.catalogs import catalog_errors
from compactor.mirror.data_files import DetachedFile, write_data_file
from compactor.mirror.file_changes import KeptFiles, LaterWriteIds, TaskChoice, choose_changes
from compactor.mirror.iceberg_commit import NewSnapshot, commit_snapshot, head_totals
from compactor.mirror.iceberg_schema import evolve_schema, partition_record
from compactor.mirror.manifest_entries import data_file_entry
from compactor.mirror.offset import (
    MIRROR,
    DeleteFileEntry,
    MirroredFile,
    Offset,
    checksum,
    encode_file_map,
    parse_offset,
    read_file_map,
    with_deletes,
)
from compactor.mirror.position_deletes import (
    delete_file_entry,
    deleted_positions,
    read_deleted_positions,
    write_position_deletes,
)
from compactor.mirror.visible_rows import open_input
from compactor.rewrite.full_acid.delete_events import Deletes, load_delete_events
from compactor.rewrite.full_acid.stripe_choice import choose_action
from compactor.rows.inputs import Input
from compactor.rows.keys import Numbers
from compactor.site.site import Site
from compactor.state.mirrors import Mirror
from compactor.tables.reading.scan_planning import ScanRequest, plan_scan
from compactor.tables.reading.scan_tasks import NOTHING, ScanPlan, ScanTask, write_id_range
from compactor.tables.schema import IN_PARTS
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import transaction

log = logging.getLogger(__name__)
DATA, METADATA = "data", "metadata"
THREADS = 4  #: file numbers that change at a time
NO_HEAD = "0"  #: stands for the id of the head while there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """The work of a pass. ``snapshot`` is None if there was nothing to commit."""

    snapshot: int | None
    commits: int = 0  #: write IDs of the table that the commit shows for the first time
    data_files: int = 0
    delete_files: int = 0
    removed_files: int = 0
    rows: int = 0  #: of the new data files
    deleted: int = 0  #: positions of the new files of deletes
    bytes: int = 0  #: of all new files
    cut: int = 0  #: timestamps that lost digits below a microsecond


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPass:
    """A pass whose transaction is still open: the mirror's ``head`` shows what ``txn`` sees of ``table``."""

    txn: Transaction
    table: Table
    head: int | None
    result: PassResult


def run_pass(site: Site, mirror: Mirror, catalog: Catalog) -> PassResult:
    """Brings the mirror up to date with one commit, or with none if it shows everything.

    Raises as ``open_pass`` does.
    """
    with open_pass(site, mirror, catalog) as ended:
        return ended.result


@contextmanager
def open_pass(site: Site, mirror: Mirror, catalog: Catalog) -> Iterator[EndedPass]:
    """Runs a pass, and keeps its transaction open until the block ends.

    Raises:
        MirrorStopped: the head is not ours, the table was re-created, or its metastore is an older copy.
        NotSupported: the table has a type or value that a mirror cannot have.
        SnapshotExpired: the pass took longer than compactor.read.max.age; a new one starts over.
        CommitUnknown, CatalogUnavailable: the catalog did not answer; a new pass finds out.
    """
    with catalog_errors(mirror.identifier):
        iceberg = catalog.load_table(mirror.identifier)
    offset = read_offset(mirror, iceberg)
    location = site.storage.resolve(iceberg.location())
    files = [] if offset is None else read_file_map(site.storage, location, offset, mirror.name)
    must_match_head(mirror, iceberg, files)
    with transaction(site, role="mirror") as txn:
        table = load_mirrored_table(txn, mirror)
        _must_have_partitions(mirror, iceberg, table)
        _must_have_token(txn, mirror, offset)
        plan = plan_scan(txn, table, ScanRequest(timestamps=IN_PARTS))
        _must_show_all(mirror, offset, plan.write_ids)
        work = _Pass(
            mirror=mirror,
            iceberg=iceberg,
            table=table,
            txn=txn,
            plan=plan,
            old=NOTHING if offset is None else offset.write_ids,
            location=location,
        )
        result = work.run(catalog, files)
        head = iceberg.metadata.current_snapshot()
        shown = result.snapshot if result.snapshot is not None else None if head is None else head.snapshot_id
        yield EndedPass(txn=txn, table=table, head=shown, result=result)


def read_offset(mirror: Mirror, iceberg: IcebergTable) -> Offset | None:
    """Returns the offset of the table's head; None before the first pass.

    Raises:
        MirrorStopped: the head, or the table, is not this mirror's (M2).
    """
    if iceberg.properties.get(MIRROR) != mirror.token:
        raise MirrorStopped(
            f"{mirror.name}: the table {mirror.identifier} in catalog {mirror.catalog} is not the one that `mirror add` "
            "created; nothing was written. `compactor mirror remove` forgets the mirror, `compactor mirror add` under "
            "another name begins a new one"
        )
    head = iceberg.metadata.current_snapshot()
    if head is None:
        if mirror.last_snapshot is not None:
            raise _foreign_head(mirror, "the table has no snapshot any more")
        return None
    offset = None if head.summary is None else parse_offset(head.summary.additional_properties, mirror.name)
    if offset is None or offset.mirror != mirror.token:
        raise _foreign_head(mirror, f"its newest snapshot {head.snapshot_id} is another program's")
    if mirror.last_snapshot is not None and not _descends(iceberg, head, mirror.last_snapshot):
        raise _foreign_head(
            mirror, f"its newest snapshot {head.snapshot_id} does not come after our last commit {mirror.last_snapshot}"
        )
    if offset.table_id != mirror.table_id:
        raise _foreign_head(mirror, f"its newest snapshot shows a table of id {offset.table_id}, not {mirror.table_id}")
    return offset


def _descends(iceberg: IcebergTable, head: Snapshot, ancestor: int) -> bool:
    snapshot: Snapshot | None = head
    while snapshot is not None:
        if ancestor in (snapshot.snapshot_id, snapshot.parent_snapshot_id):
            return True
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else iceberg.metadata.snapshot_by_id(parent)
    return False


def _foreign_head(mirror: Mirror, why: str) -> MirrorStopped:
    return MirrorStopped(
        f"{mirror.name}: a mirror is changed by Compactor alone, but of {mirror.identifier} in catalog {mirror.catalog}, "
        f"{why}; nothing was written. Roll the table back to our last commit"
        f"{'' if mirror.last_snapshot is None else f' ({mirror.last_snapshot})'}, or begin a new copy with "
        f"`compactor mirror rebuild {mirror.name}`"
    )


def must_match_head(mirror: Mirror, iceberg: IcebergTable, files: Sequence[MirroredFile]) -> None:
    """Checks that the head has as many rows and position deletes as the file map.

    Raises:
        MirrorStopped: it has not.
    """
    head = iceberg.metadata.current_snapshot()
    rows, deleted = sum(file.rows for file in files), sum(file.deleted for file in files)
    if (rows, deleted) != head_totals(head):
        raise _foreign_head(
            mirror, f"the newest snapshot counts {head_totals(head)} rows and deletes, the file map {rows, deleted}"
        )


def _must_have_partitions(mirror: Mirror, iceberg: IcebergTable, table: Table) -> None:
    """Checks that nobody has changed the partitions of the mirror's table, or upgraded its format (M2).

    Raises:
        MirrorStopped: somebody has.
    """
    expected = [key.name.lower() for key in table.partition_keys]
    fields = iceberg.spec().fields
    if [field.name for field in fields] != expected or not all(
        isinstance(field.transform, IdentityTransform) for field in fields
    ):
        raise _foreign_head(mirror, f"the partitions are now {iceberg.spec()}")
    if iceberg.format_version != 2:
        raise _foreign_head(mirror, f"the format version is now {iceberg.format_version}")


def load_mirrored_table(txn: Transaction, mirror: Mirror) -> Table:
    """Returns the mirrored table.

    Raises:
        MirrorStopped: it was dropped or renamed, or dropped and re-created (M3).
    """
    try:
        table = txn.site.metastore.catalog.table(mirror.database, mirror.table)
    except NotFound as error:
        raise MirrorStopped(
            f"{mirror.name}: the table is not in the metastore: it was renamed or dropped. Rename it back; or "
            f"forget the mirror with `compactor mirror remove {mirror.name}`, which keeps {mirror.identifier}, and add one "
            "of the renamed table with `compactor mirror add` and --as"
        ) from error
    if table.id != mirror.table_id:
        raise MirrorStopped(
            f"{mirror.name}: the table has id {table.id}, but {mirror.table_id} when its mirror was added: it was dropped "
            "and re-created, so the mirror shows another table; `compactor mirror rebuild` begins a new copy"
        )
    return table


def newest_token(site: Site) -> tuple[int, str] | None:
    """Returns number and text of the metastore's newest token; None if it has none."""
    tokens = [(token.number, token.text) for token in site.metastore.marks.tokens(site.name)]
    return max(tokens, default=None)


def _must_have_token(txn: Transaction, mirror: Mirror, offset: Offset | None) -> None:
    """Checks that the metastore is not an older copy than the one that the mirror has seen (M3).

    Raises:
        MirrorStopped: it is.
    """
    if txn.in_doubt is not None:
        raise _older(mirror, txn.in_doubt)
    if offset is None or offset.token is None:
        return
    token = newest_token(txn.site)
    number, text = offset.token
    if token is None or token[0] < number or (token[0] == number and token[1] != text):
        raise _older(mirror, f"it lacks the token {number} that the mirror has seen")


def _must_show_all(mirror: Mirror, offset: Offset | None, new: ValidWriteIdList) -> None:
    """Checks that a snapshot sees all write IDs that the mirror shows (M3).

    Raises:
        MirrorStopped: it does not.
    """
    if offset is None:
        return
    old = offset.write_ids
    if new.high_watermark < old.high_watermark:
        raise _older(mirror, f"its newest write ID is {new.high_watermark}, but the mirror shows {old.high_watermark}")
    lost = next((write_id for write_id in sorted(new.open | new.aborted) if old.is_valid(write_id)), None)
    if lost is not None:
        raise _older(mirror, f"write ID {lost} is open or aborted, but the mirror shows it")


def _older(mirror: Mirror, why: str) -> MirrorStopped:
    return MirrorStopped(
        f"{mirror.name}: the metastore is an older copy than the mirror has seen: {why}; nothing was written. Once you know "
        f"that it is right, `compactor mirror rebuild {mirror.name}` begins a new copy"
    )


@dataclass(kw_only=True)
class _Pass:
    """The work of one pass. ``files`` are the data files of the next snapshot."""

    mirror: Mirror
    iceberg: IcebergTable
    table: Table
    txn: Transaction
    plan: ScanPlan
    old: ValidWriteIdList
    location: str
    files: list[MirroredFile] = field(default_factory=list)
    added: list[DataFile] = field(default_factory=list)
    removed: list[MirroredFile] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    cuts: list[int] = field(default_factory=list)  #: timestamps that lost digits, by data file
    is_changed: bool = False
    is_committing: bool = False

    @cached_property
    def later(self) -> LaterWriteIds:
        return LaterWriteIds(self.old, self.plan.write_ids)

    @cached_property
    def prefix(self) -> str:
        """Begins the names of all files of this pass; see ``remove_garbage`` for its parts."""
        head = self.iceberg.metadata.current_snapshot()
        return f"{NO_HEAD if head is None else head.snapshot_id}-{secrets.token_hex(8)}"

    @cached_property
    def evolved(self) -> Schema | None:
        """The new schema; None if the columns are those of the head."""
        metadata = self.iceberg.metadata
        schema = evolve_schema(self.table, self.iceberg.schema(), metadata.last_column_id)
        if schema is None:
            return None
        number = max(known.schema_id for known in metadata.schemas) + 1
        return Schema(*schema.fields, schema_id=number)

    @property
    def schema(self) -> Schema:
        return self.iceberg.schema() if self.evolved is None else self.evolved

    def run(self, catalog: Catalog, files: Sequence[MirroredFile]) -> PassResult:
        places: dict[tuple[str, str | None, int], list[MirroredFile]] = defaultdict(list)
        for file in files:
            places[file.location, file.partition, file.number].append(file)
        try:
            with tempfile.TemporaryDirectory(prefix="compactor-mirror-") as scratch:
                works = [
                    _TaskWork(
                        of=self,
                        task=task,
                        shown=places.pop((task.location, task.partition, task.number), []),
                        scratch=scratch,
                    )
                    for task in self.plan.tasks
                ]
                self._do_all([work for work in works if not work.keep_all()])
            for gone in places.values():
                self.remove(gone)
            if self.evolved is None and not self.is_changed:
                self._discard()
                return PassResult(snapshot=None)
            return self._commit(catalog)
        except BaseException:
            self._discard()
            raise

    def _do_all(self, works: Sequence[_TaskWork]) -> None:
        """Does the changes of several file numbers at a time, since stores answer slowly."""
        _ = self.prefix, self.later, self.evolved  # threads share them
        if works:
            self.txn.site.storage.make_directories(f"{self.location}/{DATA}", like=self.location)
        with ThreadPoolExecutor(THREADS, thread_name_prefix="mirror") as pool:
            changes = [pool.submit(work.run) for work in works]
            try:
                for change in changes:
                    change.result()
                    self.txn.check()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def keep(self, file: MirroredFile) -> None:
        """Leaves a data file as it is, or with other facts about its source."""
        self.files.append(file)

    def add(self, entries: Iterable[DataFile]) -> None:
        """Adds data files or files of deletes to the snapshot."""
        self.added += entries
        self.is_changed = True

    def remove(self, files: Iterable[MirroredFile]) -> None:
        """Removes data files, and the deletes that belong to them, from the snapshot."""
        for file in files:
            self.removed.append(file)
            self.is_changed = True

    def new_path(self, suffix: str) -> tuple[str, str]:
        """Returns the path of a new file in the data directory for our storage, and for Iceberg."""
        name = f"{DATA}/{self.prefix}-{next(self.numbers)}{suffix}"
        path = f"{self.location}/{name}"
        self.written.append(path)
        return path, f"{self.iceberg.location().rstrip('/')}/{name}"

    def _commit(self, catalog: Catalog) -> PassResult:
        storage = self.txn.site.storage
        _raise_first(storage.sync(self.written))
        reach(MirrorStep.MIRROR_FILES_WRITTEN)
        content = encode_file_map(self.files)
        file_map = f"{METADATA}/{self.prefix}-files.json.gz"
        self.written.append(f"{self.location}/{file_map}")
        storage.write(self.written[-1], content)
        _raise_first(storage.sync([self.written[-1]]))
        reach(MirrorStep.MIRROR_MAP_WRITTEN)
        offset = Offset(
            mirror=self.mirror.token,
            table_id=self.table.id,
            write_ids=self.plan.write_ids,
            token=newest_token(self.txn.site),
            file_map=file_map,
            file_map_sum=checksum(content),
        )
        removed = [path for file in self.removed for path in (file.path, *(entry.path for entry in file.deletes))]
        new = NewSnapshot(
            added=self.added,
            removed=frozenset(removed),
            properties=offset.to_summary(),
            schema=self.evolved,
            prefix=self.prefix,
        )
        self.txn.check()
        reach(MirrorStep.MIRROR_COMMITTING)
        self.is_committing = True
        snapshot = commit_snapshot(catalog, self.iceberg, new)
        reach(MirrorStep.MIRROR_COMMITTED)
        data = [entry for entry in self.added if entry.content is DataFileContent.DATA]
        deletes = [entry for entry in self.added if entry.content is not DataFileContent.DATA]
        return PassResult(
            snapshot=snapshot.snapshot_id,
            commits=len(self.later),
            data_files=len(data),
            delete_files=len(deletes),
            removed_files=len(removed),
            rows=sum(entry.record_count for entry in data),
            deleted=sum(entry.record_count for entry in deletes),
            bytes=sum(entry.file_size_in_bytes for entry in self.added),
            cut=sum(self.cuts),
        )

    def _discard(self) -> None:
        """Removes the files of a pass that commits nothing.

        Once the catalog was asked, only a later pass knows.
        """
        if not self.is_committing and self.written:
            for error in self.txn.site.storage.remove_all(self.written).values():
                log.warning("%s: a file of a pass that committed nothing stays for now: %s", self.mirror.name, error)


@dataclass(kw_only=True)
class _TaskWork:
    """The changes of one file number."""

    of: _Pass
    task: ScanTask
    shown: Sequence[MirroredFile]
    scratch: str

    @cached_property
    def choice(self) -> TaskChoice:
        return choose_changes(self.task.inserts, self.shown, self.of.later)

    @cached_property
    def has_later_deletes(self) -> bool:
        return any(self.of.later.any_between(*write_id_range(file)) for file in self.task.deletes)

    def keep_all(self) -> bool:
        """Keeps all data files and returns true if nothing has changed."""
        if self.choice.fresh or self.choice.gone or not all(map(self._is_as_it_was, self.choice.kept)):
            return False
        for file in self.shown:
            self.of.keep(file)
        return True

    def _is_as_it_was(self, kept: KeptFiles) -> bool:
        return kept.is_same and not kept.has_later_rows and not self.has_later_deletes

    def run(self) -> None:
        """Keeps, adds and removes data files, so that exactly the visible rows of the task are shown."""
        self.of.remove(self.choice.gone)
        sources = [fresh.source for fresh in self.choice.fresh]
        for kept in self.choice.kept:
            if self._is_as_it_was(kept):
                for file in kept.files:
                    self.of.keep(file)
            elif not self._renew(kept):
                self.of.remove(kept.files)
                sources.append(kept.source)
        for source in sources:
            self._write(source)

    @cached_property
    def events(self) -> Deletes:
        """All delete events that the snapshot sees."""
        return self._load(self.task.deletes, self.of.plan.write_ids)

    @cached_property
    def later_events(self) -> Deletes:
        """The delete events that the mirror does not show yet."""
        deletes = [file for file in self.task.deletes if self.of.later.any_between(*write_id_range(file))]
        return self._load(deletes, self.later_plan.write_ids)

    def _load(self, deletes: Sequence[Input], write_ids: ValidWriteIdList) -> Deletes:
        storage = self.of.txn.site.storage
        return load_delete_events(
            self.task.location, deletes, self.task.number, write_ids, self.scratch, storage
        ).events

    @cached_property
    def later_plan(self) -> ScanPlan:
        plan = self.of.plan
        return replace(plan, write_ids=plan.write_ids.since(self.of.old))

    @cached_property
    def partition(self) -> Record:
        return partition_record(self.of.table, self.task.partition, dict(self.task.constants))

    def _renew(self, kept: KeptFiles) -> bool:
        """Completes data files that show the rows of a source; returns false if they cannot be completed.

        What would be shown must be as many rows as the snapshot sees in the source (M4). Then no row can be missing or too
        many, since the rows that the mirror has of old write IDs include all that the source still has of them.
        """
        hidden: list[Numbers | None] = [None] * len(kept.files)
        if self.has_later_deletes:
            for place, file in enumerate(kept.files):
                hidden[place] = positions = self._positions(kept, file)
                if positions is None:
                    return False
        later = self._count(kept.source, self.later_plan.write_ids) if kept.has_later_rows else 0
        live = sum(file.live for file in kept.files) - sum(
            0 if positions is None else len(positions) for positions in hidden
        )
        if live + later != self._count(kept.source, self.of.plan.write_ids):
            return False
        low, high = write_id_range(kept.source)
        for file, positions in zip(kept.files, hidden, strict=True):
            renewed = replace(
                file,
                source=kept.source.path,
                source_length=kept.source.length,
                low=low,
                high=high,
                is_original=file.is_original and kept.is_same,
            )
            if positions is not None and len(positions):
                renewed = with_deletes(renewed, [self._write_deletes(file.path, positions)])
            self.of.keep(renewed)
        if later:
            self._write(kept.source, self.later_plan, later)
        return True

    def _positions(self, kept: KeptFiles, file: MirroredFile) -> Numbers | None:
        """Returns the positions that later delete events hit in a data file; None if they cannot be known."""
        if file.keys is not None:
            return deleted_positions(file.keys, self.later_events)
        if file.is_original and kept.is_same and file.is_whole and len(kept.files) == 1:
            storage = self.of.txn.site.storage
            return read_deleted_positions(
                self.of.plan, self.task, kept.source, self.later_events, storage, rows=file.rows
            )
        return None

    def _count(self, source: Input, write_ids: ValidWriteIdList) -> int:
        """Returns the rows of a source that a list sees and that no delete event hits."""
        plan = self.of.plan
        with open_input(plan, self.task, source, self.of.txn.site.storage) as file:
            if file is None:
                return 0
            return sum(
                choose_action(file, stripe, self.events, write_ids, False, None).kept
                for stripe, entry in enumerate(file.tail.stripes)
                if entry.rows
            )

    def _write(self, source: Input, plan: ScanPlan | None = None, count: int | None = None) -> None:
        """Writes a data file with the visible rows of a source, and its position deletes.

        Raises:
            MirrorStopped: it would show another number of rows than the snapshot sees (M4).
        """
        plan = plan or self.of.plan
        storage = self.of.txn.site.storage
        target, path = self.of.new_path(".orc")
        written = write_data_file(
            plan,
            self.task,
            source,
            schema=self.of.schema,
            target=target,
            storage=storage,
            timestamps=self.of.mirror.timestamps,
            for_pyiceberg=self.of.mirror.for_pyiceberg,
        )
        count = self._count(source, plan.write_ids) if count is None else count
        if written is None:
            self.of.written.remove(target)
            positions: Numbers | None = None
            shown = 0
        else:
            self.of.cuts.append(written.cut)
            positions = self._positions_of_new(plan, source, written)
            shown = written.rows - (0 if positions is None else len(positions))
        if shown != count:
            raise MirrorStopped(
                f"{self.of.mirror.name}: file {self.task.location}/{source.path} would show {shown} rows in the mirror, but "
                f"the snapshot sees {count}; nothing was committed, please report this"
            )
        if written is None:
            return
        spec = self.of.iceberg.spec().spec_id
        self.of.add([data_file_entry(path, written.length, written.rows, written.figures, self.partition, spec)])
        low, high = write_id_range(source)
        file = MirroredFile(
            location=self.task.location,
            partition=self.task.partition,
            number=self.task.number,
            source=source.path,
            source_length=source.length,
            low=low,
            high=high,
            path=path,
            rows=written.rows,
            keys=written.keys,
            is_whole=written.is_whole,
        )
        if positions is not None and len(positions):
            file = with_deletes(file, [self._write_deletes(path, positions)])
        self.of.keep(file)

    def _positions_of_new(self, plan: ScanPlan, source: Input, written: DetachedFile) -> Numbers | None:
        if not self.task.deletes:
            return None
        if written.keys is not None:
            return deleted_positions(written.keys, self.events)
        return read_deleted_positions(plan, self.task, source, self.events, self.of.txn.site.storage, rows=written.rows)

    def _write_deletes(self, data_file: str, positions: Numbers) -> DeleteFileEntry:
        target, path = self.of.new_path("-deletes.parquet")
        written = write_position_deletes(self.of.txn.site.storage, target, data_file, positions)
        self.of.add([delete_file_entry(written, path, self.partition, self.of.iceberg.spec().spec_id)])
        return DeleteFileEntry(path=path, rows=written.rows)


def _raise_first(failed: Mapping[str, StorageError]) -> None:
    for error in failed.values():
        raise error
