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
from compactor.spark_tables.application import process
from compactor.spark_tables.client import Keeper
from compactor.spark_tables.data_source_options import StreamOptions
from compactor.spark_tables.messages import Commits, Hold, LatestCommits, PlannedScan, PlanScan, Release
from compactor.spark_tables.reader import rows_of_tasks
from compactor.spark_tables.spark_types import as_spark_expects
from compactor.tables.reading.later_rows import NOTHING
from compactor.tables.reading.scan_tasks import ScanTask
from compactor.tables.reading.splits import portions
from compactor.tables.schema import ROW_ID


class PortionOfBatch(InputPartition):
    """The files that one task of a batch reads, and the scan that they belong to: the reader knows of no batch where it
    reads."""

    def __init__(self, scan: PlannedScan, tasks: tuple[ScanTask, ...]) -> None:
        super().__init__(None)
        self.scan, self.tasks = scan, tasks


class StreamReader(DataSourceStreamReader):
    """The reader of a stream. An offset is what has been seen: ``Commits`` as a dictionary.

    While a batch is read, its snapshot is held; the next batch lets go of it, or the end of this process, which Spark kills
    when the query ends.
    """

    def __init__(self, asked: StreamOptions, schema: StructType, table_id: int) -> None:
        self._asked, self._schema, self._table_id = asked, schema, table_id
        self._hold: Hold | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset that a query without a checkpoint begins at.

        Raises:
            Refused: the table is no longer the one that was loaded.
        """
        now = self._latest()
        return asdict(now if self._asked.from_latest else replace(now, write_ids=str(NOTHING)))

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, without a limit
        """Returns the offset at which everything is seen that is committed now."""
        return asdict(self._latest())

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[PortionOfBatch]:
        """Plans the batch between two offsets; returns what each task reads.

        Raises:
            Refused: the table is no longer the one that the stream has read.
        """
        self._let_go()
        if start == end:
            return []
        between = Commits(**start), Commits(**end)
        self._must_be_the_same(between[1])
        request = replace(self._request, between=between, reader=process(os.getpid()))
        scan: PlannedScan = Keeper().ask(request)
        self._hold = scan.hold
        travelling = scan.without_tasks
        return [PortionOfBatch(travelling, some) for some in portions(scan.plan.tasks, self._asked.split_bytes)]

    def read(self, partition: PortionOfBatch) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a portion, on an executor.

        Raises:
            SnapshotExpired: a file is gone.
        """
        yield from as_spark_expects(rows_of_tasks(partition.scan, partition.tasks), self._schema)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Lets go of the snapshot of a batch that is done."""
        self._let_go()

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_hold": None}

    @property
    def _request(self) -> PlanScan:
        """The scan of the query's columns: one that the table gets later is not read, one that it loses is an error."""
        columns = [name for name in self._schema.names if not (self._asked.request.row_ids and name == ROW_ID)]
        return replace(self._asked.request, columns=tuple(columns))

    def _latest(self) -> Commits:
        request = self._asked.request
        latest: Commits = Keeper().ask(LatestCommits(place=request.place, table=request.table))
        self._must_be_the_same(latest)
        return latest

    def _must_be_the_same(self, commits: Commits) -> None:
        """Checks that the table is the one whose schema the query has (PROTOCOL 14.23).

        Raises:
            Refused: it is another one.
        """
        if commits.table_id != self._table_id:
            raise Refused(
                f"{self._asked.request.table}: the table that was loaded has id {self._table_id}, the one that is read has "
                f"id {commits.table_id}: it was dropped and made anew; load it again, start the query with a new checkpoint"
            )

    def _let_go(self) -> None:
        if self._hold is not None:
            Keeper().ask(Release(snapshot=self._hold.name))
            self._hold = None
