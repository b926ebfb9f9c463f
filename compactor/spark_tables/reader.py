"""Readers of rows and of streams: they divide a scan on the driver's host and read on executors.

Import no SQL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from compactor.base.errors import Refused
from compactor.spark_tables.data_source_options import StreamOptions
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_requests import (
    CheckSnapshot,
    Hold,
    LatestCommits,
    PlannedScan,
    PlanScan,
    Release,
    SeenCommits,
)
from compactor.spark_tables.pushdown import translate_filters
from compactor.spark_tables.spark_types import cast_for_spark
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import All, Condition, find_columns
from compactor.tables.filters.partition_constants import may_have
from compactor.tables.reading.scan_tasks import NOTHING, ScanTask, make_portions
from compactor.tables.schema import ROW_ID
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
        """Skips files that cannot meet the filters.

        Returns all filters, because Spark has to evaluate them again.
        """
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
    """Returns true for types that Spark compares in another way.

    These are floating-point numbers and timestamps in parts.
    """
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
    from compactor.tables.reading.scan_task_reader import read_task

    storage, schema = open_stores(scan.stores), scan_schema(scan)
    for task in tasks:
        file = pa.scalar({"partition": task.partition or "", "number": task.number}, FILE_TYPE)
        for batch in read_task(scan.plan, task, storage):
            rows = batch.append_column(_FILE, pa.repeat(file, batch.num_rows)) if scan.has_files else batch
            yield rows if scan.shown is None else _with_exact_timestamps(rows, schema)


def _with_exact_timestamps(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows as Spark sees them, with their exact timestamps in an additional column."""
    from compactor.tables.time_forms import to_encodable

    kind = schema.field(EXACT).type
    exact = pa.StructArray.from_arrays([rows.column(field.name) for field in kind], fields=list(kind))
    arrays = [to_encodable(rows.column(field.name), field.type) for field in schema if field.name != EXACT]
    return pa.RecordBatch.from_arrays([*arrays, exact], schema=schema)


def _filter_tasks(condition: Condition, tasks: Iterable[ScanTask]) -> Iterator[ScanTask]:
    """Returns the tasks in whose partition a row may meet ``condition``."""
    columns = find_columns(condition)
    return (task for task in tasks if not task.constants or may_have(condition, task.constants, columns))


class BatchPortion(InputPartition):
    """The files that one task of a batch reads, with their scan.

    On executors the reader does not know the batch.
    """

    def __init__(self, scan: PlannedScan, tasks: tuple[ScanTask, ...]) -> None:
        super().__init__(None)
        self.scan, self.tasks = scan, tasks


class StreamReader(DataSourceStreamReader):
    """Reads the batches of a stream. An offset is a ``SeenCommits`` as a dictionary.

    The snapshot of a batch is held while it is read. It is released with the next batch, or when this process ends: Spark
    kills it with the query.
    """

    def __init__(self, options: StreamOptions, schema: StructType, table_id: int) -> None:
        self._options, self._schema, self._table_id = options, schema, table_id
        self._hold: Hold | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset at which a query without a checkpoint begins.

        Raises:
            Refused: the table was re-created since it was loaded.
        """
        now = self._latest()
        return asdict(now if self._options.from_latest else replace(now, write_ids=str(NOTHING)))

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, without a limit
        """Returns the offset that includes every commit up to now."""
        return asdict(self._latest())

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[BatchPortion]:
        """Plans the batch between two offsets; returns the portions that tasks read.

        Raises:
            Refused: the table was re-created since the stream has read it.
        """
        self._release()
        if start == end:
            return []
        between = SeenCommits(**start), SeenCommits(**end)
        self._must_be_the_same(between[1])
        request = replace(self._request, between=between, reader=find_process(os.getpid()))
        scan: PlannedScan = Keeper().ask(request)
        self._hold = scan.hold
        bare_scan = scan.without_tasks
        return [BatchPortion(bare_scan, tasks) for tasks in make_portions(scan.plan.tasks, self._options.split_bytes)]

    def read(self, partition: BatchPortion) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a portion, on an executor.

        Raises:
            SnapshotExpired: a file is gone.
        """
        yield from cast_for_spark(read_tasks(partition.scan, partition.tasks), self._schema)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Releases the snapshot of a finished batch."""
        self._release()

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_hold": None}

    @property
    def _request(self) -> PlanScan:
        """The scan of the query's columns.

        Later columns of the table are not read; a column that it loses is an error.
        """
        columns = [name for name in self._schema.names if not (self._options.request.row_ids and name == ROW_ID)]
        return replace(self._options.request, columns=tuple(columns))

    def _latest(self) -> SeenCommits:
        request = self._options.request
        latest: SeenCommits = Keeper().ask(LatestCommits(place=request.place, table=request.table))
        self._must_be_the_same(latest)
        return latest

    def _must_be_the_same(self, commits: SeenCommits) -> None:
        """Checks that the table still is the one whose schema the query has (PROTOCOL 14.23).

        Raises:
            Refused: the table was re-created.
        """
        if commits.table_id != self._table_id:
            raise Refused(
                f"{self._options.request.table}: the table that was loaded has id {self._table_id}, now it has id "
                f"{commits.table_id}: it was dropped and re-created; load it again and start the query with a new checkpoint"
            )

    def _release(self) -> None:
        if self._hold is not None:
            Keeper().ask(Release(snapshot=self._hold.name))
            self._hold = None
