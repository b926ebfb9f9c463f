"""Reads the files of a planned scan. Nothing in here lists a directory or asks the metastore."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pyarrow as pa

from compactor.errors import BadFile, FileGone, NotSupported, SnapshotExpired
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec, Unfit
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import acid_types
from compactor.orc.format.widening import widens
from compactor.orc.pieces import Piece, SyntheticKeys, piece_batches
from compactor.rewrite.full_acid.delete_events import Deletes, load_delete_events
from compactor.rewrite.full_acid.stripe_choice import Action, Choice, choose_action
from compactor.rows.acid_file import AcidFile, open_files
from compactor.rows.keys import BUCKET, ROW, ROW_ID, WRITE_ID
from compactor.storage.protocol import Storage
from compactor.tables import schema as columns
from compactor.tables.tasks import ScanPlan, ScanTask
from compactor.tables.timestamps import fitted


def read_task(plan: ScanPlan, task: ScanTask, storage: Storage) -> Iterator[pa.RecordBatch]:
    """Yields the visible rows of one task, in file order, in the plan's schema.

    Raises:
        SnapshotExpired: a file of the plan is gone or was replaced.
        BadFile: a file cannot be read.
        NotSupported: a file's types cannot become the table's.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="compactor-scan-") as scratch:
            yield from _rows(plan, task, storage, scratch)
    except FileGone as error:
        raise SnapshotExpired(
            f"{plan.table}: {error}; the snapshot of transaction {plan.txn} is lost, begin another"
        ) from error


def _rows(plan: ScanPlan, task: ScanTask, storage: Storage, scratch: str) -> Iterator[pa.RecordBatch]:
    events = load_delete_events(task.location, task.deletes, task.number, plan.write_ids, scratch, storage).events
    with open_files(task.location, task.inserts, task.number, storage) as files:
        _must_be_as_planned(task, files)
        for file in files:
            for stripe, found in enumerate(file.tail.stripes):
                if found.rows:
                    yield from _stripe(plan, task, file, stripe, events)


def _must_be_as_planned(task: ScanTask, files: list[AcidFile]) -> None:
    lengths = {os.path.join(task.location, f.path): f.length for f in task.inserts if not f.has_flush_length}
    for file in files:
        if lengths.get(file.path, file.source.length) != file.source.length:
            raise FileGone(f"file {file.path}: {file.source.length} bytes, {lengths[file.path]} when it was listed")


def _stripe(plan: ScanPlan, task: ScanTask, file: AcidFile, stripe: int, events: Deletes) -> Iterator[pa.RecordBatch]:
    choice = choose_action(file, stripe, events, plan.write_ids, False, None)
    if choice.action is Action.DROP:
        return
    for batch in _decoded(plan, file, choice):
        yield _in_schema(plan, task, batch)


def _decoded(plan: ScanPlan, file: AcidFile, choice: Choice) -> Iterator[pa.RecordBatch]:
    """Yields a stripe's rows: decoded by Arrow, and by pyorc from the first batch that Arrow would lose something of."""
    shown = 0
    try:
        for batch in _pieces(plan, file, choice, ARROW):
            yield batch
            shown += batch.num_rows
        return
    except Unfit:
        pass  # the other codec starts again at the stripe's first row
    for batch in _pieces(plan, file, choice, PYORC):
        known = min(shown, batch.num_rows)
        shown -= known
        if known < batch.num_rows:
            yield batch.slice(known)


def _pieces(plan: ScanPlan, file: AcidFile, choice: Choice, codec: Codec) -> Iterator[pa.RecordBatch]:
    wanted, have = parse_hive_type(plan.row_type), file.tail.types.row
    if not widens(have, wanted):
        raise NotSupported(f"file {file.path}: its columns cannot become those of {plan.table} without loss")
    original = None
    if file.is_raw:
        first = file.first_row_id + file.first_row_of(choice.stripe)
        original = SyntheticKeys(write_id=file.write_id, bucket=file.bucket, first_row_id=first)
    piece = Piece(source=file.source, tail=file.tail, stripe_index=choice.stripe, keep=choice.keep, original=original)
    yield from piece_batches(piece, codec, acid_types(wanted))


def _in_schema(plan: ScanPlan, task: ScanTask, batch: pa.RecordBatch) -> pa.RecordBatch:
    schema, rows = plan.schema, batch.num_rows
    row = batch.column(ROW)
    arrays = []
    if plan.row_ids:
        keys = [batch.column(place) for place in (WRITE_ID, BUCKET, ROW_ID)]
        arrays.append(pa.StructArray.from_arrays(keys, fields=list(columns.ROW_ID_TYPE)))
    flat = row.flatten()
    arrays += [flat[place] for place in plan.columns]
    fields = list(schema)
    found = [fitted(array, field.type, field.name) for array, field in zip(arrays, fields, strict=False)]
    found += [pa.repeat(_constant(task, field), rows) for field in fields[len(found) :]]
    return pa.RecordBatch.from_arrays(found, schema=schema)


def _constant(task: ScanTask, field: pa.Field) -> pa.Scalar:
    """Returns the value of a partition column."""
    text = task.values[field.name]
    try:
        return pa.scalar(text, pa.string()).cast(field.type)
    except pa.ArrowInvalid as error:
        raise BadFile(f"partition {task.partition}: {text!r} is no {field.type}: {error}") from error
