"""Reads a table as a stream: each batch has the rows that were committed since the last one. Imports no SQL."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from compactor.base.errors import Refused
from compactor.spark_tables.application import find_process
from compactor.spark_tables.client import Keeper
from compactor.spark_tables.data_source_options import StreamOptions
from compactor.spark_tables.messages import Hold, LatestCommits, PlannedScan, PlanScan, Release, SeenCommits
from compactor.spark_tables.reader import read_tasks
from compactor.spark_tables.spark_types import cast_for_spark
from compactor.tables.reading.later_rows import NOTHING
from compactor.tables.reading.scan_tasks import ScanTask
from compactor.tables.reading.splits import make_portions
from compactor.tables.schema import ROW_ID


class BatchPortion(InputPartition):
    """The files that one task of a batch reads, with their scan: on executors the reader does not know the batch."""

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
        """The scan of the query's columns. Later columns of the table are not read; a column that it loses is an error."""
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
