"""The changes of a table between two versions (PROTOCOL 16).

These are inserted rows, and the rows that delete events hit.

Only files that may hold a change are opened, and of other rows' stripes no column is decoded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import ChangesGone, FileGone, NotSupported, SnapshotExpired
from compactor.base.ids import WriteId
from compactor.metastore.catalog.values import Table
from compactor.orc.format.tail import key_statistics
from compactor.rewrite.full_acid.delete_events import SortedEvents, load_delete_events
from compactor.rewrite.full_acid.stripe_choice import Action, Choice
from compactor.rows.acid_file import AcidFile, check_only_rows, open_files, stripe_keys
from compactor.rows.delete_files import DeleteEvents
from compactor.rows.keys import Mask, key_block, to_numbers, valid_mask
from compactor.storage.protocol import Storage
from compactor.tables.reading.scan_planning import ScanRequest, plan_other_columns, plan_scan
from compactor.tables.reading.scan_task_reader import FileReader, Job, in_order, must_be_as_planned
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask, may_hold_rows
from compactor.tables.reading.versions import write_ids_up_to
from compactor.tables.schema import IN_PARTS, NANOSECONDS, PARTS, ROW_ID
from compactor.tables.transactions.transaction import Transaction

INSERT, DELETE = "insert", "delete"
UPDATE_PREIMAGE, UPDATE_POSTIMAGE = "update_preimage", "update_postimage"
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
_EVENTS = 1 << 17  #: delete events that are compared at once
_CHANGE_COLUMNS = (
    pa.field(CHANGE_TYPE, pa.string(), nullable=False),
    pa.field(COMMIT_VERSION, pa.int64(), nullable=False),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("ms", tz="UTC")),
)
_NAMES = frozenset((*(field.name for field in _CHANGE_COLUMNS), ROW_ID))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """The arguments of ``Table.changes``, which documents them; ``scan.versions`` has the range."""

    scan: ScanRequest
    key: tuple[str, ...] = ()

    def schema(self, table: Table) -> pa.Schema:
        """Returns the schema of the changes: the table's columns, those of the change, then ``row__id``.

        Raises:
            NotFound: the table has no such column.
            NotSupported: Arrow has no equivalent of a column's type, a column of the key is nested, or a column has the name
                of a column of the feed.
        """
        keys = replace(self.scan, selected_fields=self.key, row_ids=False, timestamps=NANOSECONDS).schema(table)
        columns = replace(self.scan, row_ids=False).schema(table).names
        if taken := [name for name in (*columns, *keys.names) if name.lower() in _NAMES]:
            raise NotSupported(
                f"{table}: column {taken[0]} has the name of a column of the feed; name other columns in selected_fields "
                "and in the key"
            )
        if nested := [field.name for field in keys if pa.types.is_nested(field.type)]:
            raise NotSupported(
                f"{table}: column {nested[0]} cannot identify rows: expected columns of plain types in the key, found "
                f"{keys.field(nested[0]).type}"
            )
        return change_schema(self.scan.schema(table))


def change_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the schema of changes for the ``schema`` of a scan with ROW__IDs."""
    columns = [field for field in schema if field.name != ROW_ID]
    return pa.schema([*columns, *_CHANGE_COLUMNS, schema.field(ROW_ID)])


def read_changes(txn: Transaction, table: Table, request: ChangeRequest, threads: int) -> Iterator[pa.RecordBatch]:
    """Yields the changes of a range in the order of files, with ``request.schema``.

    Raises:
        Refused: the range does not exist.
        ChangesGone: changes of the range may be missing.
        SnapshotExpired: the snapshot of ``txn`` is lost.
    """
    plan = ChangePlan.from_request(txn, table, request.scan)
    updates = None if not request.key else _find_updates(txn, table, request, plan, threads)
    names, position = request.schema(table).names, 0
    for batch in plan.read(txn, threads):
        if updates is not None:
            paired = updates.slice(position, batch.num_rows)
            position += batch.num_rows
            is_insert = pc.equal(batch.column(CHANGE_TYPE), INSERT)
            images = pc.if_else(is_insert, UPDATE_POSTIMAGE, UPDATE_PREIMAGE)
            kinds = pc.if_else(paired, images, batch.column(CHANGE_TYPE))
            batch = batch.set_column(batch.schema.names.index(CHANGE_TYPE), _CHANGE_COLUMNS[0], kinds)
        yield batch.select(names)


def _find_updates(txn: Transaction, table: Table, request: ChangeRequest, plan: ChangePlan, threads: int) -> pa.Array:
    """Returns for each change, in order, whether it is half of an update.

    An update is one delete and one insert of one key in one commit. NULL equals nothing, and -0.0 equals 0.0.
    """
    scan = replace(request.scan, selected_fields=request.key, timestamps=IN_PARTS)
    keys_alone = replace(plan, scan=plan_other_columns(txn, table, plan.scan, scan))  # positions are those of its files
    batches = list(keys_alone.read(txn, threads))
    if not batches:
        return pa.array([], pa.bool_())
    changes = pa.Table.from_batches(batches)
    columns = changes.columns[1 : -len(_CHANGE_COLUMNS)]  # the first one is row__id
    keys = {f"key_{number}": column for number, column in enumerate(_split_keys(columns))}
    rows = pa.table(
        keys
        | {
            COMMIT_VERSION: changes[COMMIT_VERSION],
            "is_insert": pc.equal(changes[CHANGE_TYPE], INSERT).cast(pa.int64()),
            "position": np.arange(changes.num_rows),
        }
    )
    for name in keys:
        rows = rows.filter(pc.is_valid(rows[name]))
    groups = rows.group_by([*keys, COMMIT_VERSION]).aggregate(
        [("is_insert", "sum"), ("is_insert", "count"), ("position", "min"), ("position", "max")]
    )
    is_pair = pc.and_(pc.equal(groups["is_insert_sum"], 1), pc.equal(groups["is_insert_count"], 2))
    pairs = groups.filter(is_pair)
    paired = np.zeros(changes.num_rows, dtype=np.bool_)
    for name in ("position_min", "position_max"):
        paired[pairs[name].to_numpy()] = True
    return pa.array(paired)


def _split_keys(columns: Iterable[pa.ChunkedArray]) -> Iterator[pa.ChunkedArray]:
    """Yields columns that are equal where keys are; a timestamp becomes seconds and nanoseconds."""
    for column in columns:
        if column.type.equals(PARTS):
            yield pc.struct_field(column, "seconds")
            yield pc.struct_field(column, "nanos")
        elif pa.types.is_floating(column.type):
            yield pc.add(column, pa.scalar(0, column.type))  # -0.0 becomes 0.0
        else:
            yield column


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The scan of the last version of a range, and the list of the version before the range.

    ``commit_times`` are the known times of commits, in epoch milliseconds by write ID.
    """

    scan: ScanPlan
    earlier: ValidWriteIdList
    is_net: bool
    commit_times: Mapping[WriteId, int]

    @classmethod
    def from_request(cls, txn: Transaction, table: Table, request: ScanRequest) -> ChangePlan:
        """Plans the changes of ``request.versions``; see ``plan_scan`` for the errors."""
        versions = request.versions
        assert versions is not None
        assert versions.since is not None
        scan = plan_scan(txn, table, request)
        earlier = write_ids_up_to(scan.write_ids, versions.since)
        times = txn.site.metastore.write_ids.commit_times(table.database, table.name)
        return cls(scan=scan, earlier=earlier, is_net=versions.is_net, commit_times=times)

    def read(self, txn: Transaction, threads: int) -> Iterator[pa.RecordBatch]:
        """Yields the changes in the order of files: the columns of the scan, then those of the change."""
        later = self.scan.write_ids.since(self.earlier)
        for task in self.scan.tasks:
            if not may_hold_rows(task.deletes, later):
                task = replace(task, inserts=may_hold_rows(task.inserts, later))
                if not task.inserts:
                    continue
            for batch in TaskChanges(plan=self, task=task, storage=txn.site.storage).read(threads):
                txn.check()
                yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanges:
    """The changes in the files of one task."""

    plan: ChangePlan
    task: ScanTask
    storage: Storage

    def read(self, threads: int) -> Iterator[pa.RecordBatch]:
        """Yields the changes, for each file the inserted rows before the deleted ones.

        Raises:
            SnapshotExpired: a file of the plan is gone or was replaced.
            ChangesGone: the row of a delete event is missing.
        """
        scan, task = self.plan.scan, self.task
        try:
            with tempfile.TemporaryDirectory(prefix="compactor-changes-") as scratch:
                events = load_delete_events(
                    task.location, task.deletes, task.number, scan.write_ids, scratch, self.storage
                ).events
                deletes = DeletedRows.from_events(events, self.plan.earlier, is_net=self.plan.is_net)
                with open_files(
                    task.location, task.inserts, task.number, self.storage, zone=scan.default_zone
                ) as files:
                    must_be_as_planned(task, files, self.storage)
                    yield from in_order((job for file in files for job in self._jobs(file, deletes)), threads)
                if deletes.hit < len(deletes.later):
                    self._refuse(deletes)
        except FileGone as error:
            raise SnapshotExpired(
                f"{scan.table}: {error}; the snapshot of transaction {scan.txn} is lost, begin another"
            ) from error

    def _refuse(self, deletes: DeletedRows) -> None:
        first = int(deletes.later.current.max())
        raise ChangesGone(
            f"{self.plan.scan.table}: {len(deletes.later)} rows in {self.task.location} were deleted since version "
            f"{self.plan.earlier.high_watermark}, but only {deletes.hit} of them can be read; changes are complete since "
            f"version {first}: read the table as of version {first}, and continue from there",
            first,
        )

    def _jobs(self, file: AcidFile, deletes: DeletedRows) -> Iterator[Job[pa.RecordBatch]]:
        scan = self.plan.scan
        inserted = replace(scan, write_ids=scan.write_ids.since(self.plan.earlier))
        for job in FileReader(plan=inserted, task=self.task, file=file).jobs(deletes.unseen):
            yield partial(self._insertions, job)
        if not len(deletes.later):
            return
        reader = FileReader(plan=scan, task=self.task, file=file)
        for stripe in range(len(file.tail.stripes)):
            if (choice := deletes.choose(file, stripe, scan.write_ids)) is not None:
                yield partial(self._deletions, reader, choice, deletes)

    def _insertions(self, job: Job[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in job():
            yield self._with_change(batch, INSERT, batch.column(ROW_ID).field("writeid"))

    def _deletions(self, reader: FileReader, choice: Choice, deletes: DeletedRows) -> Iterator[pa.RecordBatch]:
        for batch in reader.read_choice(choice):
            keys = batch.column(ROW_ID)
            write_id, bucket, row_id = (to_numbers(keys.field(name)) for name in ("writeid", "bucketid", "rowid"))
            versions = deletes.later.newest(key_block(write_id, bucket.astype(np.int32), row_id))
            yield self._with_change(batch, DELETE, pa.array(versions, pa.int64()))

    def _with_change(self, batch: pa.RecordBatch, kind: str, versions: pa.Array) -> pa.RecordBatch:
        times = pa.array(
            [self.plan.commit_times.get(version) for version in versions.to_pylist()], _CHANGE_COLUMNS[2].type
        )
        arrays = [pa.repeat(pa.scalar(kind), batch.num_rows), versions, times]
        schema = pa.schema([*batch.schema, *_CHANGE_COLUMNS])
        return pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema)


@dataclass(kw_only=True)
class DeletedRows:
    """The rows of one file number that were deleted within a range, with the first event of each.

    No version shows a row whose delete event has the write ID of the row or a smaller one, so it is in no feed. One write
    may do both. Hive also allocates a write ID before it reads, so the delete may have the smaller one.
    """

    later: DeleteEvents  #: rows whose deletion is a change
    shown: DeleteEvents  #: those of them that the feed shows: a net feed leaves out rows that came within the range
    unseen: DeleteEvents  #: rows whose insertion is not shown
    hit: int = 0  #: rows of ``later`` that the files hold

    @classmethod
    def from_events(cls, events: SortedEvents, earlier: ValidWriteIdList, *, is_net: bool) -> DeletedRows:
        firsts = _first_events(events, earlier)
        inserted_by = firsts.keys["write_id"].astype(np.int64)
        never_shown = firsts.current <= inserted_by
        came_later = ~valid_mask(earlier, inserted_by)
        later = _select(firsts, ~never_shown)
        if not is_net:
            return cls(later=later, shown=later, unseen=_select(firsts, never_shown))
        shown = _select(firsts, ~never_shown & ~came_later)
        return cls(later=later, shown=shown, unseen=_select(firsts, never_shown | came_later))

    def choose(self, file: AcidFile, stripe: int, write_ids: ValidWriteIdList) -> Choice | None:
        """Returns the deleted rows of a stripe that the feed shows; None without any. Counts all deleted rows."""
        if not self._may_hit(file, stripe):
            return None
        masks: list[Mask] = []
        for keys in stripe_keys(file, stripe):
            block = check_only_rows(file, keys).block
            valid = valid_mask(write_ids, keys.current)
            hits = self.later.hits(block) & valid
            self.hit += int(np.count_nonzero(hits))
            masks.append(hits if self.shown is self.later else self.shown.hits(block) & valid)
        mask = np.concatenate(masks)
        kept = int(np.count_nonzero(mask))
        if not kept:
            return None
        return Choice(file=file, stripe=stripe, action=Action.ENCODE, rows=len(mask), kept=kept, keep=pa.array(mask))

    def _may_hit(self, file: AcidFile, stripe: int) -> bool:
        if not file.tail.stripes[stripe].rows:
            return False
        known = None if file.is_raw else key_statistics(file.tail, stripe)
        if known is None:
            return True
        write_ids, buckets, rows = known.original_transaction, known.bucket, known.row_id
        low = RowId(WriteId(write_ids.minimum), buckets.minimum, rows.minimum)
        high = RowId(WriteId(write_ids.maximum), buckets.maximum, rows.maximum)
        return self.later.any_between(low, high)


def _first_events(events: SortedEvents, earlier: ValidWriteIdList) -> DeleteEvents:
    """Returns the first event of each row, if ``earlier`` does not see it or no version shows the row."""
    parts: list[DeleteEvents] = []
    waiting: DeleteEvents | None = None  # the last key of a part may go on in the next one
    for start in range(0, len(events), _EVENTS):
        part = events.part(start, start + _EVENTS)
        keys = part.keys if waiting is None else np.concatenate([waiting.keys, part.keys])
        current = part.current if waiting is None else np.concatenate([waiting.current, part.current])
        begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        firsts = DeleteEvents(keys=keys[begins], current=np.minimum.reduceat(current, begins))
        parts.append(_keep_unseen(firsts.part(0, len(firsts) - 1), earlier))
        waiting = firsts.part(len(firsts) - 1, len(firsts))
    if waiting is not None:
        parts.append(_keep_unseen(waiting, earlier))
    return DeleteEvents.from_blocks([(part.keys, part.current) for part in parts])


def _keep_unseen(events: DeleteEvents, earlier: ValidWriteIdList) -> DeleteEvents:
    return _select(events, ~valid_mask(earlier, events.current) | (events.current <= events.keys["write_id"]))


def _select(events: DeleteEvents, mask: Mask) -> DeleteEvents:
    return DeleteEvents(keys=events.keys[mask], current=events.current[mask])
