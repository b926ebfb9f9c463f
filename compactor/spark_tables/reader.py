"""Reads a planned scan: partitions on the driver's host, rows on executors. Imports no SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from compactor.spark_tables.client import Keeper
from compactor.spark_tables.messages import CheckSnapshot, PlannedScan
from compactor.spark_tables.pushdown import filter_texts
from compactor.spark_tables.spark_types import as_spark_expects
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import All, Condition, columns_of
from compactor.tables.filters.partition_constants import may_have
from compactor.tables.reading.scan_tasks import ScanTask
from compactor.tables.reading.splits import portions
from compactor.tables.writing.row_change import EXACT, FILE, FILE_TYPE

_FILE = pa.field(FILE, FILE_TYPE)


class Portion(InputPartition):
    """The files that one task of Spark reads."""

    def __init__(self, tasks: tuple[ScanTask, ...]) -> None:
        super().__init__(None)
        self.tasks = tasks


class Reader(DataSourceReader):
    """The rows of one scan. It travels to executors, without the files of others: those are in the portions."""

    def __init__(self, scan: PlannedScan, schema: StructType, portion_bytes: int) -> None:
        self._tasks = scan.plan.tasks
        self._scan = scan.without_tasks
        self._schema, self._portion_bytes = schema, portion_bytes

    @property
    def pushFilters(self) -> Callable[[list[Filter]], Iterable[Filter]]:  # noqa: N802 - Spark's name
        """The method that takes filters, for a change of rows alone: Spark keeps the reader that took a filter for every
        later scan of the same frame, and only the frame of a change is scanned once (PROTOCOL 13.7)."""
        return Pushed(self) if self._scan.has_files else super().pushFilters

    def push(self, filters: list[Filter]) -> Iterable[Filter]:
        """Leaves out what cannot meet the filters; returns all of them, since Spark is to evaluate them again."""
        plan = self._scan.plan
        asked = filter_texts(filters, self._compared_alike())
        conditions = [bind(text, plan.comparable) for text in asked]
        if conditions:
            whole = All(parts=(*conditions, *([] if plan.condition is None else [plan.condition])))
            self._scan = replace(self._scan, plan=replace(plan, condition=whole))
        return filters

    def partitions(self) -> list[Portion]:
        """Returns what each task reads, once it is sure that the snapshot is still protected.

        Raises:
            SnapshotExpired: it is not.
        """
        plan = self._scan.plan
        Keeper().ask(CheckSnapshot(hold=self._scan.hold))
        kept = self._tasks if plan.condition is None else _meeting(plan.condition, self._tasks)
        return [Portion(tasks) for tasks in portions(kept, self._portion_bytes)] or [Portion(())]

    def read(self, partition: Portion) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a portion.

        Raises:
            SnapshotExpired: a file is gone.
        """
        yield from as_spark_expects(rows_of_tasks(self._scan, partition.tasks), self._schema)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_tasks": ()}

    def _compared_alike(self) -> frozenset[str]:
        plan = self._scan.plan
        known = [field.name for field in plan.comparable if not _is_compared_otherwise(field.type)]
        return frozenset(name for name in known if name not in self._scan.padded and name in plan.schema.names)


@dataclass(frozen=True, slots=True)
class Pushed:
    """``Reader.push`` for a Spark that pushes filters. One that does not refuses every reader that overrides
    ``pushFilters``, which it finds out by the function of the method; so it finds its own here."""

    reader: Reader

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self.reader.push(filters)


def _is_compared_otherwise(kind: pa.DataType) -> bool:
    """Returns true for floating-point numbers, and for timestamps in parts."""
    return bool(pa.types.is_floating(kind) or pa.types.is_struct(kind))


def schema_of(scan: PlannedScan) -> pa.Schema:
    """Returns the schema of the rows that a scan's readers yield."""
    if scan.shown is None:
        return scan.plan.schema.append(_FILE) if scan.has_files else scan.plan.schema
    kept = [field for field in scan.plan.schema if not field.equals(scan.shown.field(field.name))]
    return scan.shown.append(_FILE).append(pa.field(EXACT, pa.struct(kept)))


def rows_of_tasks(scan: PlannedScan, tasks: Iterable[ScanTask]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of some tasks of a scan, in ``schema_of`` it.

    Raises:
        SnapshotExpired: a file is gone.
    """
    from compactor.storage.stores import open_stores  # as in ``writer.stage``
    from compactor.tables.reading.task_reader import read_task

    storage, schema = open_stores(scan.stores), schema_of(scan)
    for task in tasks:
        file = pa.scalar({"partition": task.partition or "", "number": task.number}, FILE_TYPE)
        for batch in read_task(scan.plan, task, storage):
            found = batch.append_column(_FILE, pa.repeat(file, batch.num_rows)) if scan.has_files else batch
            yield found if scan.shown is None else _shown(found, schema)


def _shown(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows as Spark sees them, with their exact timestamps beside."""
    from compactor.tables.writing.encodable import encodable

    kind = schema.field(EXACT).type
    exact = pa.StructArray.from_arrays([rows.column(field.name) for field in kind], fields=list(kind))
    arrays = [encodable(rows.column(field.name), field.type) for field in schema if field.name != EXACT]
    return pa.RecordBatch.from_arrays([*arrays, exact], schema=schema)


def _meeting(condition: Condition, tasks: Iterable[ScanTask]) -> Iterator[ScanTask]:
    """Yields the tasks in whose partition a row may meet ``condition``."""
    deciding = columns_of(condition)
    return (task for task in tasks if not task.constants or may_have(condition, task.constants, deciding))
