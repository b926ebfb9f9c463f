"""Stages the delete events and new rows of one of several processes that change rows by one statement.

Both are written from the same rows in one pass, so that the two halves of an update come from one evaluation. As with
``part_files``, nothing counts until the driver accepts it.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Mapping
from itertools import starmap

import pyarrow as pa

from compactor.acid.names import BucketFile, DeltaKind
from compactor.rewrite.full_acid.delete_events import SortedEvents
from compactor.rewrite.full_acid.output_format import output_of
from compactor.rewrite.run.attempt_files import attempt_folder, hand_over
from compactor.storage.protocol import Storage
from compactor.tables.writing.delete_files import write_deleted
from compactor.tables.writing.divided import join_batches
from compactor.tables.writing.merge_check import ChangedRows
from compactor.tables.writing.part_files import build_door, make_durable, must_have_a_statement, stage_inserts
from compactor.tables.writing.shared_statement import SharedChange, SharedStatement
from compactor.tables.writing.written_part import ChangedPart, WrittenPart


def write_changes(work: SharedChange, batches: Iterable[pa.RecordBatch], writer: int, storage: Storage) -> ChangedPart:
    """Writes the changes in ``batches``, see ``merge_check``, as writer number ``writer``.

    Raises:
        Refused: there are more writers than statement IDs, or a row is matched by several rows of the source.
        NotConforming: a value does not fit its column's type.
        StorageError: a file cannot be written.
        VerificationFailed: the rows of a file are out of order.
    """
    must_have_a_statement(work.rows, writer)
    with tempfile.TemporaryDirectory(prefix="compactor-change-") as scratch:
        door = build_door(work.rows, is_assignment=True)
        columns = [name for name, _ in door.columns]
        rows = ChangedRows(door.table, columns, work.rows.write_id, scratch, is_checked=work.is_checked)
        whole = (batch for part in join_batches(batches) for batch in part.combine_chunks().to_batches())
        conformed = starmap(door.conform, rows.inserts(whole))
        inserted = stage_inserts(work.rows, conformed, writer, storage, scratch)
        deleted = tuple(
            _stage_deletes(work.rows, *deletes, writer, storage) for deletes in sorted(rows.deletes().items())
        )
    make_durable(storage, (*deleted, *inserted))
    return ChangedPart(parts=(*deleted, *inserted), counts=rows.counts)


def _stage_deletes(
    work: SharedStatement, partition: str, files: Mapping[int, SortedEvents], writer: int, storage: Storage
) -> WrittenPart:
    home = f"{work.attempts}/{secrets.token_hex(8)}"
    with attempt_folder(storage, home) as folder:
        outputs = []
        for number, events in files.items():
            path = f"{folder}/{BucketFile(number=number).name}"
            outputs.append(output_of(DeltaKind.DELETE, path, number, write_deleted(path, work.table.row_type, events)))
        staged = hand_over(storage, outputs, home, full=False)
    return WrittenPart(partition=partition, statement_id=writer, directory=home, outputs=staged, kind=DeltaKind.DELETE)
