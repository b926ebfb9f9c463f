"""Reads a planned scan: divides it into portions on the driver's host, reads rows on executors. Imports no SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from compactor.spark_tables.client import Keeper
from compactor.spark_tables.messages import CheckSnapshot, PlannedScan
from compactor.spark_tables.pushdown import translate_filters
from compactor.spark_tables.spark_types import cast_for_spark
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import All, Condition, find_columns
from compactor.tables.filters.partition_constants import may_have
from compactor.tables.reading.scan_tasks import ScanTask
from compactor.tables.reading.splits import make_portions
from compactor.tables.writing.row_change import EXACT, FILE, FILE_TYPE

_FILE = pa.field(FILE, FILE_TYPE)


class ReadPortion(InputPartition):
    """The files that one task of Spark reads."""

    def __init__(self, tasks: tuple[ScanTask, ...]) -> None:
        super().__init__(None)
        self.tasks = tasks


class Reader(DataSourceReader):
    """Reads the rows of one scan. It travels to executors without files; each portion carries its own."""

    def __init__(self, scan: PlannedScan, schema: StructType, portion_bytes: int) -> None:
        self._tasks = scan.plan.tasks
        self._scan = scan.without_tasks
        self._schema, self._portion_bytes = schema, portion_bytes

    @property
    def pushFilters(self) -> Callable[[list[Filter]], Iterable[Filter]]:  # noqa: N802 - Spark's name
        """The method that accepts filters. Only the reader of a change has it.

        Spark keeps a reader with its filters for every later scan of the same frame, and only the frame of a change is
        scanned just once (PROTOCOL 13.7).
        """
        return FilterPush(self) if self._scan.has_files else super().pushFilters

    def push(self, filters: list[Filter]) -> Iterable[Filter]:
        """Skips files that cannot meet the filters; returns all filters, because Spark has to evaluate them again."""
        plan = self._scan.plan
        texts = translate_filters(filters, self._columns_compared_alike())
        conditions = [bind(text, plan.comparable) for text in texts]
        if conditions:
            whole = All(parts=(*conditions, *([] if plan.condition is None else [plan.condition])))
            self._scan = replace(self._scan, plan=replace(plan, condition=whole))
        return filters

    def partitions(self) -> list[ReadPortion]:
        """Returns the portions that tasks read, after a check that the snapshot is still protected.

        Raises:
            SnapshotExpired: it is not.
        """
        plan = self._scan.plan
        Keeper().ask(CheckSnapshot(hold=self._scan.hold))
        matching = self._tasks if plan.condition is None else _filter_tasks(plan.condition, self._tasks)
        return [ReadPortion(tasks) for tasks in make_portions(matching, self._portion_bytes)] or [ReadPortion(())]

    def read(self, partition: ReadPortion) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a portion.

        Raises:
            SnapshotExpired: a file is gone.
        """
        yield from cast_for_spark(read_tasks(self._scan, partition.tasks), self._schema)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_tasks": ()}

    def _columns_compared_alike(self) -> frozenset[str]:
        plan = self._scan.plan
        names = [field.name for field in plan.comparable if not _is_compared_otherwise(field.type)]
        return frozenset(name for name in names if name not in self._scan.padded and name in plan.schema.names)


@dataclass(frozen=True, slots=True)
class FilterPush:
    """``Reader.push``, disguised as Spark's own ``pushFilters``.

    If a session does not push filters, Spark refuses every reader that overrides ``pushFilters``. It compares the method's
    ``__func__``, so it finds its own function here.
    """

    reader: Reader

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self.reader.push(filters)


def _is_compared_otherwise(kind: pa.DataType) -> bool:
    """Returns true for floating-point numbers and for timestamps in parts, which Spark compares in another way."""
    return bool(pa.types.is_floating(kind) or pa.types.is_struct(kind))


def scan_schema(scan: PlannedScan) -> pa.Schema:
    """Returns the schema of the rows that a scan's readers yield."""
    if scan.shown is None:
        return scan.plan.schema.append(_FILE) if scan.has_files else scan.plan.schema
    exact = [field for field in scan.plan.schema if not field.equals(scan.shown.field(field.name))]
    return scan.shown.append(_FILE).append(pa.field(EXACT, pa.struct(exact)))


def read_tasks(scan: PlannedScan, tasks: Iterable[ScanTask]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of some tasks of a scan, with the schema that ``scan_schema`` returns.

    Raises:
        SnapshotExpired: a file is gone.
    """
    from compactor.storage.stores import open_stores  # as in ``writer.stage``
    from compactor.tables.reading.task_reader import read_task

    storage, schema = open_stores(scan.stores), scan_schema(scan)
    for task in tasks:
        file = pa.scalar({"partition": task.partition or "", "number": task.number}, FILE_TYPE)
        for batch in read_task(scan.plan, task, storage):
            rows = batch.append_column(_FILE, pa.repeat(file, batch.num_rows)) if scan.has_files else batch
            yield rows if scan.shown is None else _with_exact_timestamps(rows, schema)


def _with_exact_timestamps(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows as Spark sees them, with their exact timestamps in an additional column."""
    from compactor.tables.writing.encodable import to_encodable

    kind = schema.field(EXACT).type
    exact = pa.StructArray.from_arrays([rows.column(field.name) for field in kind], fields=list(kind))
    arrays = [to_encodable(rows.column(field.name), field.type) for field in schema if field.name != EXACT]
    return pa.RecordBatch.from_arrays([*arrays, exact], schema=schema)


def _filter_tasks(condition: Condition, tasks: Iterable[ScanTask]) -> Iterator[ScanTask]:
    """Returns the tasks in whose partition a row may meet ``condition``."""
    columns = find_columns(condition)
    return (task for task in tasks if not task.constants or may_have(condition, task.constants, columns))
