"""Rows deleted and updated: found in one scan, their ROW__IDs deleted, their new versions inserted.

Delete events go by the number of the file that holds a row, which need not be the bucket in its ROW__ID (PROTOCOL 14.4), so
they are written task by task of the scan. Memory holds a bounded number of them; more are sorted on disk.
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
from compactor.tables.writing.delete_files import keys_of, write_deleted
from compactor.tables.writing.insert_files import WaitingRows

Taken = Callable[[pa.RecordBatch], pa.RecordBatch]


def delete(txn: Transaction, table: Table, where: str | None) -> int:
    """Deletes the rows for which ``where`` is true, all rows if it is None, and returns how many they were.

    Raises:
        BadExpression: ``where`` is not of the grammar.
        NotSupported: the table is none that is written here.
        LockNotGranted: somebody holds a conflicting lock.
        WriteConflict: another transaction changed the table while this one waited for its lock.
    """
    wanted = ScanRequest(row_filter=where, selected_fields=(), row_ids=True, timestamps=IN_PARTS)
    txn.lock_for_changes(table, partitions_to_read(txn, table, wanted))
    return Deletion(txn, table).of(wanted, lambda found: found)


def update(txn: Transaction, table: Table, assignments: Mapping[str, str], where: str | None) -> int:
    """Gives the rows for which ``where`` is true other values, and returns how many they were.

    Args:
        assignments: by column: a literal, NULL or the name of another column.

    Raises:
        BadExpression: ``where`` or a value is not of the grammar.
        NotConforming: a value is not of the column's type.
        NotSupported: a partition or bucketing column is assigned, since rows would have to move; delete and append them.
    """
    changed = Assignments.of(table, assignments)
    wanted = ScanRequest(row_filter=where, row_ids=True, timestamps=IN_PARTS)
    txn.lock_for_changes(table, partitions_to_read(txn, table, wanted))
    kept = WaitingRows()
    with tempfile.TemporaryDirectory(prefix="compactor-update-") as scratch:

        def keep(found: pa.RecordBatch) -> pa.RecordBatch:
            kept.add(changed.applied(pa.Table.from_batches([found]).drop_columns([ROW_ID])), scratch)
            return found

        count = Deletion(txn, table).of(wanted, keep)
        if count:
            write(txn, table, (pa.Table.from_batches([batch]) for batch in kept.batches()), WriteOperation.INSERT)
    return count


class Deletion:
    """One statement that deletes the rows a scan finds; it begins with the first of them."""

    def __init__(self, txn: Transaction, table: Table) -> None:
        self._txn, self._table = txn, table
        self._statement: WriteStatement | None = None
        self._partitions: dict[str, str] = {}

    def of(self, wanted: ScanRequest, take: Taken) -> int:
        """Deletes those of the rows that a scan finds which ``take`` returns, and returns how many they were."""
        plan = plan_scan(self._txn, self._table, wanted)
        with tempfile.TemporaryDirectory(prefix="compactor-delete-") as scratch:
            found = ((task, events) for task in plan.tasks if (events := self._found(plan, task, take, scratch)))
            places = groupby(found, key=lambda one: (one[0].partition, one[0].location))
            count = sum(self._stage(*place, of_place) for place, of_place in places)
        if self._statement is not None and self._partitions:
            self._txn.record_partitions(self._statement, self._partitions)
        return count

    def _found(self, plan: ScanPlan, task: ScanTask, take: Taken, scratch: str) -> SortedEvents:
        """Returns the events of a task's rows that are deleted, in key order."""
        sorter = EventSorter(scratch)
        for batch in map(take, read_task(plan, task, self._txn.site.storage, threads=THREADS)):
            if batch.num_rows:
                keys = keys_of([pc.struct_field(batch.column(ROW_ID), [place]) for place in range(3)])
                sorter.add(pack_events(keys, np.full(len(keys), self._begun().write_id, dtype=np.int64)))
        return sorter.finish()

    def _stage(self, partition: str | None, location: str, found: Iterable[tuple[ScanTask, SortedEvents]]) -> int:
        """Stages the delete events of a table or partition, a file for each task, and returns how many they are."""
        txn, statement = self._txn, self._begun()
        if partition is not None:
            txn.check_partitions(self._table, [partition])
            self._partitions[partition] = location
        home = txn.pending.attempt(location, _delta(statement))
        outputs: list[Output] = []
        with attempt_folder(txn.site.storage, home) as folder:
            for task, events in found:
                path = f"{folder}/{BucketFile(number=task.number).name}"
                written = write_deleted(path, self._table.row_type, events)
                outputs.append(output_of(DeltaKind.DELETE, path, task.number, written))
            txn.pending.accept(location, _delta(statement), outputs, home)
        return sum(output.rows for output in outputs)

    def _begun(self) -> WriteStatement:
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
