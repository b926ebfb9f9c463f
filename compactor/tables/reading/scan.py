"""A scan of a table, and the forms in which its rows are returned."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from compactor.base.errors import Refused
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.tables.reading.own_reads import Stopwatch, tell
from compactor.tables.reading.scan_planning import plan_scan
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask
from compactor.tables.reading.task_reader import read_task
from compactor.tables.reading.wanted import Wanted
from compactor.tables.schema import IN_PARTS
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import transaction

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


THREADS = min(4, os.cpu_count() or 1)  #: that decode stripes of a scan


class Scan:
    """A scan. Each method that returns rows plans anew; within a transaction all see its one snapshot, outside of one each
    has a transaction of its own, which ends after the last row."""

    def __init__(self, site: Site, table: Table, wanted: Wanted, txn: Transaction | None) -> None:
        self._site, self._table, self._wanted, self._txn = site, table, wanted, txn
        self.schema = wanted.schema(table)
        wanted.condition(table)  # so that an error of the filter comes from ``Table.scan``

    @property
    def is_within_a_transaction(self) -> bool:
        return self._txn is not None

    def within(self, txn: Transaction) -> Scan:
        """Returns the same scan under the snapshot of ``txn``, without loss of timestamps: its rows are written there.

        Raises:
            Refused: the table was loaded in another transaction.
        """
        if self._txn is not None and self._txn is not txn:
            raise Refused(
                f"{self._table}: the scan is of transaction {self._txn.id}, and its rows are to be written in transaction "
                f"{txn.id}; load both tables in one transaction"
            )
        return Scan(self._site, self._table, replace(self._wanted, timestamps=IN_PARTS), txn)

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Returns a reader of the rows in batches of bounded size. The snapshot is protected until it is read to its end or
        closed."""
        batches = self._batches()
        first = next(batches, None)  # so that errors of the plan are raised here
        return pa.RecordBatchReader.from_batches(self.schema, _chained(first, batches))

    def to_arrow(self) -> pa.Table:
        """Returns all rows as one table."""
        return pa.Table.from_batches(self._batches(), self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Returns all rows as a data frame of pandas."""
        rows: Any = self.to_arrow()
        frame: pd.DataFrame = rows.to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Returns all rows as a data frame of polars, which must be installed (``hive-compactor[tables]``)."""
        import polars

        frame: Any = polars.from_arrow(self.to_arrow())
        return frame

    def to_duckdb(self, name: str, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyConnection:
        """Returns a connection to DuckDB (default: a new one in memory) in which all rows are the table ``name``."""
        import duckdb

        opened = duckdb.connect() if connection is None else connection
        opened.register(name, self.to_arrow())
        return opened

    def count(self) -> int:
        """Returns the number of rows; only columns of the filter are decoded."""
        return sum(batch.num_rows for batch in self._batches(replace(self._wanted, selected_fields=(), row_ids=False)))

    def plan_files(self) -> tuple[ScanTask, ...]:
        """Returns what would be read now: the files with their lengths, by partition and file number."""
        with self._planned() as plan:
            return plan.tasks

    def _batches(self, wanted: Wanted | None = None) -> Iterator[pa.RecordBatch]:
        wanted, watch = wanted or self._wanted, Stopwatch()
        with self._transaction() as txn:
            with watch.running():
                plan = plan_scan(txn, self._table, wanted)
            for task in plan.tasks:
                for batch in watch.each(read_task(plan, task, self._site.storage, threads=THREADS)):
                    txn.check()
                    yield batch
        tell(self._site, self._table, wanted, plan, watch.seconds)

    @contextmanager
    def _planned(self) -> Iterator[ScanPlan]:
        with self._transaction() as txn:
            yield plan_scan(txn, self._table, self._wanted)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        if self._txn is not None:
            self._txn.check()
            yield self._txn
            return
        with transaction(self._site, role="reader") as txn:
            yield txn


def _chained(first: pa.RecordBatch | None, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
        yield from others
