"""A scan of a table, and the forms in which its rows are returned."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from compactor.base.errors import CompactorError, Refused, failing_alone
from compactor.compaction.queue_entry import Entity
from compactor.insight.read_events import digest_likeness
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.state.read_counts import Read
from compactor.tables.reading.change_feed import ChangeRequest, read_changes
from compactor.tables.reading.scan_planning import ScanRequest, partitions_to_read, plan_scan
from compactor.tables.reading.scan_task_reader import read_task
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask
from compactor.tables.schema import IN_PARTS
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import transaction

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

THREADS = min(4, os.cpu_count() or 1)  #: threads that decode stripes of a scan
log = logging.getLogger(__name__)
_SETTING = "compactor.reads.own"
_ENGINE = "compactor"
_Item = TypeVar("_Item")


class Scan:
    """A scan. Each method that returns rows plans it again.

    Within a transaction all of them read its snapshot. Outside, each has its own transaction, which ends after the last row.
    """

    def __init__(self, site: Site, table: Table, request: ScanRequest, txn: Transaction | None) -> None:
        self._site, self._table, self._request, self._txn = site, table, request, txn
        self.schema = request.schema(table)
        request.condition(table)  # reports errors of the filter at ``Table.scan``

    @property
    def is_within_a_transaction(self) -> bool:
        """True if a transaction loaded the table."""
        return self._txn is not None

    def within(self, txn: Transaction) -> Scan:
        """Returns the same scan under the snapshot of ``txn``.

        It has lossless timestamps, so that ``txn`` can write its rows.

        Raises:
            Refused: the table was loaded in another transaction.
        """
        if self._txn is not None and self._txn is not txn:
            raise Refused(
                f"{self._table}: the scan belongs to transaction {self._txn.id}, but transaction {txn.id} is to write its "
                "rows; load both tables in one transaction"
            )
        return Scan(self._site, self._table, replace(self._request, timestamps=IN_PARTS), txn)

    def entities(self, txn: Transaction) -> list[Entity]:
        """Returns the table, or the partitions, that ``txn`` would read now.

        So a statement can lock them at once.
        """
        names = partitions_to_read(txn, self._table, self._request)
        return [Entity(database=self._table.database, table=self._table.name, partition=name) for name in names]

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Returns a reader of the rows in batches of bounded size.

        The snapshot is protected until the reader is exhausted or closed.
        """
        return _open_reader(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """Returns all rows as one table."""
        return pa.Table.from_batches(self._batches(), self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Returns all rows as a pandas data frame."""
        rows: Any = self.to_arrow()
        frame: pd.DataFrame = rows.to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Returns all rows as a polars data frame; polars must be installed (``hive-compactor[tables]``)."""
        import polars

        frame: Any = polars.from_arrow(self.to_arrow())
        return frame

    def to_duckdb(self, name: str, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyConnection:
        """Returns a connection to DuckDB (by default a new one in memory) with all rows as the table ``name``."""
        import duckdb

        database = duckdb.connect() if connection is None else connection
        database.register(name, self.to_arrow())
        return database

    def count(self) -> int:
        """Returns the number of rows; decodes only the columns of the filter."""
        return sum(batch.num_rows for batch in self._batches(replace(self._request, selected_fields=(), row_ids=False)))

    def plan_files(self) -> tuple[ScanTask, ...]:
        """Returns what would be read now: files with their lengths, by partition and file number."""
        with self._plan() as plan:
            return plan.tasks

    def _batches(self, request: ScanRequest | None = None) -> Iterator[pa.RecordBatch]:
        request, watch = request or self._request, Stopwatch()
        with _reading(self._site, self._txn) as txn:
            with watch.running():
                plan = plan_scan(txn, self._table, request)
            for task in plan.tasks:
                for batch in watch.each(read_task(plan, task, self._site.storage, threads=THREADS)):
                    txn.check()
                    yield batch
        record_scan(self._site, self._table, request, plan, watch.seconds)

    @contextmanager
    def _plan(self) -> Iterator[ScanPlan]:
        with _reading(self._site, self._txn) as txn:
            yield plan_scan(txn, self._table, self._request)


def open_changes(site: Site, table: Table, request: ChangeRequest, txn: Transaction | None) -> pa.RecordBatchReader:
    """Returns a reader of the changes of a range of versions; see ``Table.changes``."""

    def batches() -> Iterator[pa.RecordBatch]:
        with _reading(site, txn) as reading:
            yield from read_changes(reading, table, request, THREADS)

    return _open_reader(request.schema(table), batches())


@contextmanager
def _reading(site: Site, txn: Transaction | None) -> Iterator[Transaction]:
    """Yields ``txn``, or a transaction of its own for one read."""
    if txn is not None:
        txn.check()
        yield txn
        return
    with transaction(site, role="reader") as own:
        yield own


def _open_reader(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Returns a reader of ``batches``; errors of the plan are raised here."""
    first = next(batches, None)
    return pa.RecordBatchReader.from_batches(schema, _chain(first, batches))


def _chain(first: pa.RecordBatch | None, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
        yield from others


class Stopwatch:
    """The seconds spent within its blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Adds the time of the block."""
        started_at = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started_at

    def each(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Yields ``items`` and adds the time they take to come, without the time that their consumer takes."""
        coming, end = iter(items), object()
        while True:
            with self.running():
                item = next(coming, end)
            if item is end:
                return
            yield item  # type: ignore[misc]  # it is not the end


def record_scan(site: Site, table: Table, request: ScanRequest, plan: ScanPlan, seconds: float) -> None:
    """Records a scan that was read to its end and took ``seconds`` without its reader's own work.

    Errors are only logged, since the rows have been read.
    """
    if site.state is None or not site.settings.boolean(_SETTING):
        return
    try:
        with failing_alone(f"recording a scan of {table}"):
            site.state.reads.add(site.name, [_read(site, table, request, plan, seconds)])
    except CompactorError as error:
        log.warning("%s", error)


def _read(site: Site, table: Table, request: ScanRequest, plan: ScanPlan, seconds: float) -> Read:
    name = (table.database.lower(), table.name.lower())
    columns = "*" if request.selected_fields is None else ", ".join(sorted(request.selected_fields)) or "count(*)"
    text = f"select {columns} from {table}" + (f" where {request.row_filter}" if request.row_filter else "")
    return Read(
        database=name[0],
        table=name[1],
        engine=_ENGINE,
        query=uuid.uuid4().hex,
        like=digest_likeness(text, [name], quotes_are_text=False),
        at=site.metastore.now_ms(),
        seconds=seconds,
        files=sum(len(task.paths) for task in plan.tasks),
        bytes=sum(task.length for task in plan.tasks),
    )
