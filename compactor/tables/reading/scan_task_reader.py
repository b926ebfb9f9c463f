"""Reads the files of a planned scan. It never lists a directory or asks the metastore."""

from __future__ import annotations

import os
import queue
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from compactor.acid.write_ids import LaterWriteIdList, RangeAnswer
from compactor.base.errors import FileGone, SnapshotExpired
from compactor.base.ids import WriteId
from compactor.orc.format.tail import key_statistics
from compactor.rewrite.full_acid.delete_events import Deletes, load_delete_events
from compactor.rewrite.full_acid.stripe_choice import Action, Choice, choose_action
from compactor.rows.acid_file import AcidFile, open_files
from compactor.rows.keys import Mask
from compactor.storage.protocol import Storage
from compactor.tables.filters.conditions import Condition, find_columns
from compactor.tables.filters.evaluation import match_rows
from compactor.tables.filters.partition_constants import partition_facts
from compactor.tables.filters.pruning import FilePruner
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask
from compactor.tables.reading.stripe_reader import FileColumns, StripeRows, in_unit, read_stripe

FEW = (
    8  #: row groups are read singly if at most one in so many is needed: pyorc, which can, takes that much longer a row
)
T = TypeVar("T")
Job: TypeAlias = Callable[[], Iterator[T]]
WAITING = 2  #: results of a job that may wait to be taken
_TURN_S = 0.1


def read_task(plan: ScanPlan, task: ScanTask, storage: Storage, *, threads: int = 1) -> Iterator[pa.RecordBatch]:
    """Yields the visible rows of a task that meet the plan's condition.

    They come in file order and in the plan's schema.

    Args:
        threads: the number of stripes that are decoded at a time.

    Raises:
        SnapshotExpired: a file of the plan is gone or was replaced.
        BadFile: a file cannot be read.
        NotSupported: a file's types cannot be converted to the table's.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="compactor-scan-") as scratch:
            events = load_delete_events(
                task.location, task.deletes, task.number, plan.write_ids, scratch, storage
            ).events
            with open_files(task.location, task.inserts, task.number, storage, zone=plan.default_zone) as files:
                must_be_as_planned(task, files, storage)
                readers = [FileReader(plan=plan, task=task, file=file) for file in files]
                yield from in_order((job for reader in readers for job in reader.jobs(events)), threads)
    except FileGone as error:
        raise SnapshotExpired(
            f"{plan.table}: {error}; the snapshot of transaction {plan.txn} is lost, begin another"
        ) from error


def must_be_as_planned(task: ScanTask, files: Sequence[AcidFile], storage: Storage) -> None:
    """Checks that the open ``files`` of a task are those that were listed.

    Raises:
        FileGone: one was replaced.
    """
    lengths = {
        os.path.join(task.location, planned.path): planned.length
        for planned in task.inserts
        if not planned.has_flush_length
    }
    for file in files:
        if lengths.get(file.path, file.source.length) != file.source.length:
            raise FileGone(
                f"file {file.path} has {file.source.length} bytes, but {lengths[file.path]} when it was listed"
            )
    for planned in (*task.inserts, *task.deletes):
        path = os.path.join(task.location, planned.path)
        if planned.version and storage.version(path) != planned.version:
            raise FileGone(f"file {path} was replaced since it was listed")


@dataclass(frozen=True, kw_only=True)
class FileReader:
    """An open file of a task."""

    plan: ScanPlan
    task: ScanTask
    file: AcidFile

    def jobs(self, events: Deletes) -> Iterator[Job[pa.RecordBatch]]:
        """Yields a function for each stripe that may have rows to return.

        It reads those that are visible and meet the condition.
        """
        for stripe, entry in enumerate(self.file.tail.stripes):
            if not entry.rows or not self._is_within(entry.offset) or self._is_known(stripe):
                continue
            if (job := self._job(stripe, events)) is not None:
                yield job

    def _is_within(self, offset: int) -> bool:
        span = self.task.span
        return span is None or span[0] <= offset < span[1]

    def _is_known(self, stripe: int) -> bool:
        """Tells whether only later rows are requested, but the stripe has none by its statistics."""
        if not isinstance(self.plan.write_ids, LaterWriteIdList) or self.file.is_raw:
            return False
        statistics = key_statistics(self.file.tail, stripe)
        if statistics is None:
            return False
        low, high, _ = statistics.current_transaction
        return self.plan.write_ids.range_valid(WriteId(low), WriteId(high)) is RangeAnswer.NONE

    def _job(self, stripe: int, events: Deletes) -> Job[pa.RecordBatch] | None:
        condition, ranges = self.plan.condition, None
        if condition is not None and self._pruner is not None:
            outcomes = self._pruner.of_stripe(stripe)
            if True not in outcomes:
                return None
            if outcomes == {True}:
                condition = None
            elif (groups := self._pruner.groups(stripe)) is not None:
                if not groups.any():
                    return None
                ranges = self._ranges(stripe, groups)
        choice = choose_action(self.file, stripe, events, self.plan.write_ids, False, None)
        return None if choice.action is Action.DROP else partial(self.read_choice, choice, condition, ranges)

    def _ranges(self, stripe: int, groups: Mask) -> list[range] | None:
        """Returns the row numbers of the row groups if they are few.

        Many are read faster with all rows between them.
        """
        if groups.sum() * FEW > len(groups):
            return None
        stride, rows = self.file.tail.row_index_stride, self.file.tail.stripes[stripe].rows
        edges = np.flatnonzero(np.diff(np.concatenate(([False], groups, [False]))))
        return [range(low * stride, min(high * stride, rows)) for low, high in edges.reshape(-1, 2).tolist()]

    def read_choice(
        self, choice: Choice, condition: Condition | None = None, ranges: list[range] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the kept rows of a stripe that meet ``condition``, of rows in ``ranges`` if they are given."""
        places = (*self.plan.columns, *(() if condition is None else self.plan.filter_columns))
        for rows in read_stripe(self._columns, choice, places, ranges):
            kept = rows if condition is None else rows.filter(match_rows(condition, self._comparable(rows, condition)))
            if kept.count:
                yield self._in_schema(kept)

    @cached_property
    def _columns(self) -> FileColumns:
        return FileColumns(plan=self.plan, file=self.file)

    @cached_property
    def _pruner(self) -> FilePruner | None:
        if self.plan.condition is None:
            return None
        deciding = find_columns(self.plan.condition)
        places = {name: place for place, name in enumerate(self.plan.names)}
        return FilePruner(
            source=self.file.source,
            tail=self.file.tail,
            condition=self.plan.condition,
            constants=partition_facts(self.task.constants, deciding),
            columns={
                name: (column, self._columns.id_of(places[name])) for name, column in deciding.items() if name in places
            },
        )

    def _comparable(self, rows: StripeRows, condition: Condition) -> pa.RecordBatch:
        """Returns the condition's columns by name."""
        names = list(find_columns(condition))
        places = {name: place for place, name in enumerate(self.plan.names)}
        arrays = [
            rows.columns[places[name]] if name in places else pa.repeat(self.task.constants[name], rows.count)
            for name in names
        ]
        if not names:
            return pa.RecordBatch.from_arrays([pa.nulls(rows.count)], names=[""])
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _in_schema(self, rows: StripeRows) -> pa.RecordBatch:
        schema = self.plan.schema
        if not len(schema):
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows.count, [None]))
        arrays = [rows.keys] if self.plan.row_ids else []
        arrays += [rows.columns[place] for place in self.plan.columns]
        arrays += [pa.repeat(self.task.constants[name], rows.count) for name in schema.names[len(arrays) :]]
        arrays = [in_unit(array, field.type, field.name) for array, field in zip(arrays, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def in_order(jobs: Iterable[Job[T]], threads: int) -> Iterator[T]:
    """Yields the results of all jobs in the order of the jobs; ``threads`` jobs run at a time.

    Jobs are taken from ``jobs`` in the caller's thread. An error of a job is raised after the results before it. When the
    caller stops, each job ends after its current result.
    """
    if threads <= 1:
        for only_job in jobs:
            yield from only_job()
        return
    stop = threading.Event()
    running: deque[_Running[T]] = deque()
    waiting = iter(jobs)
    with ThreadPoolExecutor(threads, thread_name_prefix="scan") as pool:
        try:
            while True:
                while len(running) < threads and (job := next(waiting, None)) is not None:
                    running.append(_Running(job=job, stop=stop))
                    pool.submit(running[-1].run)
                if not running:
                    return
                yield from running[0].results()
                running.popleft()
        finally:
            stop.set()


@dataclass(frozen=True, kw_only=True)
class _Running(Generic[T]):
    """A job and the queue of its results: one-element tuples, an error, or None at the end."""

    job: Job[T]
    stop: threading.Event
    queue: queue.Queue[tuple[T] | BaseException | None] = field(default_factory=lambda: queue.Queue(WAITING))

    def run(self) -> None:
        try:
            for result in self.job():
                if not self._put((result,)):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that takes the results
            self._put(error)

    def _put(self, result: tuple[T] | BaseException | None) -> bool:
        """Returns false if nobody takes results any more."""
        while not self.stop.is_set():
            try:
                self.queue.put(result, timeout=_TURN_S)
            except queue.Full:
                continue
            return True
        return False

    def results(self) -> Iterator[T]:
        while (result := self.queue.get()) is not None:
            if isinstance(result, BaseException):
                raise result
            yield result[0]
