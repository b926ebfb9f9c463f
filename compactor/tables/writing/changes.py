"""Deletes and updates rows: one scan finds them, their ROW__IDs are deleted, their new versions inserted.

Delete events go by the number of the file that holds a row, which need not be the bucket in its ROW__ID (PROTOCOL 14.4). So
they are written for each task of the scan. Memory holds a bounded number of them; more are sorted on disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.acid.names import BucketFile, Delta, DeltaKind
from compactor.metastore.catalog.values import Table
from compactor.rewrite.full_acid.delete_events import EventSorter, SortedEvents, pack_events
from compactor.rewrite.full_acid.output_format import output_of
from compactor.rewrite.plan.unit import Output
from compactor.rewrite.run.attempt_files import attempt_folder
from compactor.tables.reading.scan import THREADS
from compactor.tables.reading.scan_planning import partitions_to_read, plan_scan
from compactor.tables.reading.scan_request import ScanRequest
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask
from compactor.tables.reading.task_reader import read_task
from compactor.tables.schema import IN_PARTS, ROW_ID
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.writing.append import write
from compactor.tables.writing.assignments import Assignments
from compactor.tables.writing.delete_files import build_keys, write_deleted
from compactor.tables.writing.insert_files import WaitingRows

Chooser = Callable[[pa.RecordBatch], pa.RecordBatch]  #: returns the rows of a batch that are deleted


def delete(txn: Transaction, table: Table, where: str | None) -> int:
    """Deletes the rows for which ``where`` is true (None: all rows) and returns their number.

    Raises:
        BadExpression: ``where`` does not follow the grammar.
        NotSupported: we do not write such a table.
        LockNotGranted: somebody holds a conflicting lock.
        WriteConflict: another transaction changed the table while this one waited for its lock.
    """
    request = ScanRequest(row_filter=where, selected_fields=(), row_ids=True, timestamps=IN_PARTS)
    txn.lock_for_changes(table, partitions_to_read(txn, table, request))
    return Deletion(txn, table).delete_rows(request, lambda batch: batch)


def update(txn: Transaction, table: Table, assignments: Mapping[str, str], where: str | None) -> int:
    """Updates the rows for which ``where`` is true and returns their number.

    Args:
        assignments: the new value of each column: a literal, NULL or the name of another column.

    Raises:
        BadExpression: ``where`` or a value does not follow the grammar.
        NotConforming: a value does not fit the column's type.
        NotSupported: a partition or bucketing column is assigned, so that rows would have to move; delete and append them.
    """
    new_values = Assignments.from_texts(table, assignments)
    request = ScanRequest(row_filter=where, row_ids=True, timestamps=IN_PARTS)
    txn.lock_for_changes(table, partitions_to_read(txn, table, request))
    new_rows = WaitingRows()
    with tempfile.TemporaryDirectory(prefix="compactor-update-") as scratch:

        def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
            new_rows.add(new_values.apply(pa.Table.from_batches([batch]).drop_columns([ROW_ID])), scratch)
            return batch

        count = Deletion(txn, table).delete_rows(request, keep)
        if count:
            write(txn, table, (pa.Table.from_batches([batch]) for batch in new_rows.batches()), WriteOperation.INSERT)
    return count


class Deletion:
    """A statement that deletes the rows of a scan; it begins when the first row is found."""

    def __init__(self, txn: Transaction, table: Table) -> None:
        self._txn, self._table = txn, table
        self._statement: WriteStatement | None = None
        self._partitions: dict[str, str] = {}

    def delete_rows(self, request: ScanRequest, take: Chooser) -> int:
        """Deletes the rows of a scan that ``take`` returns, and returns their number."""
        plan = plan_scan(self._txn, self._table, request)
        with tempfile.TemporaryDirectory(prefix="compactor-delete-") as scratch:
            events_of_tasks = (
                (task, events) for task in plan.tasks if (events := self._read_events(plan, task, take, scratch))
            )
            places = groupby(events_of_tasks, key=lambda pair: (pair[0].partition, pair[0].location))
            count = sum(self._stage(*place, tasks) for place, tasks in places)
        if self._statement is not None and self._partitions:
            self._txn.record_partitions(self._statement, self._partitions)
        return count

    def _read_events(self, plan: ScanPlan, task: ScanTask, take: Chooser, scratch: str) -> SortedEvents:
        """Returns the delete events of a task's rows, in key order."""
        sorter = EventSorter(scratch)
        for batch in map(take, read_task(plan, task, self._txn.site.storage, threads=THREADS)):
            if batch.num_rows:
                keys = build_keys([pc.struct_field(batch.column(ROW_ID), [place]) for place in range(3)])
                sorter.add(pack_events(keys, np.full(len(keys), self._begin_once().write_id, dtype=np.int64)))
        return sorter.finish()

    def _stage(
        self, partition: str | None, location: str, events_of_tasks: Iterable[tuple[ScanTask, SortedEvents]]
    ) -> int:
        """Stages the delete events of a table or partition, one file for each task; returns their number."""
        txn, statement = self._txn, self._begin_once()
        if partition is not None:
            txn.check_partitions(self._table, {partition: location})
            self._partitions[partition] = location
        home = txn.pending.attempt(location, _delta(statement))
        outputs: list[Output] = []
        with attempt_folder(txn.site.storage, home) as folder:
            for task, events in events_of_tasks:
                path = f"{folder}/{BucketFile(number=task.number).name}"
                written = write_deleted(path, self._table.row_type, events)
                outputs.append(output_of(DeltaKind.DELETE, path, task.number, written))
            txn.pending.accept(location, _delta(statement), outputs, home)
        return sum(output.rows for output in outputs)

    def _begin_once(self) -> WriteStatement:
        if self._statement is None:
            self._statement = self._txn.begin_statement_of_rows(self._table, WriteOperation.DELETE)
        return self._statement


def _delta(statement: WriteStatement) -> Delta:
    return Delta(
        kind=DeltaKind.DELETE,
        min_write_id=statement.write_id,
        max_write_id=statement.write_id,
        statement_id=statement.statement_id,
    )
