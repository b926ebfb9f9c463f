"""Rows deleted and updated: found in one scan, their ROW__IDs deleted, their new versions inserted.

Delete events go by the number of the file that holds a row, which need not be the bucket in its ROW__ID (PROTOCOL 14.4), so
they are written task by task of the scan, and never more of them are in memory than of one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.acid.names import BucketFile, Delta, DeltaKind
from compactor.compaction.entry import Entity
from compactor.metastore.catalog.values import Table
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail
from compactor.orc.format.types import acid_types
from compactor.rewrite.full_acid.output_format import output_of
from compactor.rewrite.plan.unit import Output
from compactor.rewrite.run.attempt_files import attempt_folder
from compactor.rows.delete_events import DeleteEvents
from compactor.rows.delete_files import write_events
from compactor.rows.keys import key_block, to_numbers
from compactor.tables.append import write
from compactor.tables.assignments import Assignments
from compactor.tables.insert_files import WaitingRows
from compactor.tables.planning import partitions_to_read, plan_scan
from compactor.tables.schema import ROW_ID
from compactor.tables.task_reader import read_task
from compactor.tables.tasks import ScanTask
from compactor.tables.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.wanted import Wanted

Taken = Callable[[pa.RecordBatch], pa.RecordBatch]


def delete(txn: Transaction, table: Table, where: str | None) -> int:
    """Deletes the rows for which ``where`` is true, all rows if it is None, and returns how many they were.

    Raises:
        BadExpression: ``where`` is not of the grammar.
        NotSupported: the table is none that is written here.
        LockNotGranted: somebody holds a conflicting lock.
        WriteConflict: another transaction changed the table while this one waited for its lock.
    """
    wanted = Wanted(row_filter=where, selected_fields=(), row_ids=True)
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
    wanted = Wanted(row_filter=where, row_ids=True)
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

    def of(self, wanted: Wanted, take: Taken) -> int:
        """Deletes those of the rows that a scan finds which ``take`` returns, and returns how many they were."""
        txn, count = self._txn, 0
        plan = plan_scan(txn, self._table, wanted)
        for location, tasks in groupby(plan.tasks, key=lambda task: task.location):
            with ExitStack() as stack:
                outputs: list[Output] = []
                home = folder = ""
                for task in tasks:
                    taken = map(take, read_task(plan, task, txn.site.storage))
                    ids = [batch.column(ROW_ID) for batch in taken if batch.num_rows]
                    if not ids:
                        continue
                    statement = self._begun(task)
                    if not folder:
                        home = txn.pending.attempt(location)
                        folder = stack.enter_context(attempt_folder(txn.site.storage, home))
                    outputs.append(self._events(statement, ids, folder, task.number))
                if outputs:
                    txn.pending.accept(location, _delta(self._begun(None)), outputs, home)
                    count += sum(output.rows for output in outputs)
        if self._statement is not None and self._partitions:
            txn.record_partitions(self._statement, self._partitions)
        return count

    def _begun(self, task: ScanTask | None) -> WriteStatement:
        if self._statement is None:
            entity = Entity(database=self._table.database, table=self._table.name)
            self._statement = (
                self._txn.dynamic_statement(self._table, WriteOperation.DELETE)
                if self._table.is_partitioned
                else self._txn.statement(entity, WriteOperation.DELETE)
            )
        if task is not None and task.partition is not None:
            self._partitions[task.partition] = task.location
        return self._statement

    def _events(self, statement: WriteStatement, ids: list[pa.StructArray], folder: str, number: int) -> Output:
        types = acid_types(parse_hive_type(self._table.row_type))
        path = f"{folder}/{BucketFile(number=number).name}"
        write_id, bucket_property, row_id = (
            to_numbers(pa.chunked_array([pc.struct_field(one, [place]) for one in ids])) for place in range(3)
        )
        keys = key_block(write_id, bucket_property.astype(np.int32), row_id)
        events = DeleteEvents.of([(keys, np.full(len(keys), statement.write_id, dtype=np.int64))])
        written = write_events(events, path, like=empty_tail(types, name=path), types=types)
        return output_of(DeltaKind.DELETE, path, number, written)


def _delta(statement: WriteStatement) -> Delta:
    return Delta(
        kind=DeltaKind.DELETE,
        min_write_id=statement.write_id,
        max_write_id=statement.write_id,
        statement_id=statement.statement_id,
    )
