"""The rows of an ACID file that a snapshot sees, and their keys as runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import FileGone, SnapshotExpired
from compactor.base.ids import WriteId
from compactor.orc.codecs.arrow_types import Array
from compactor.orc.format.tail import key_statistics
from compactor.rewrite.full_acid.stripe_choice import dense_start
from compactor.rows.acid_file import AcidFile, check_only_rows, open_files, stripe_keys
from compactor.rows.inputs import Input
from compactor.rows.keys import KeyBlock, row_id_at, valid_mask
from compactor.storage.protocol import Storage
from compactor.tables.reading.scan_task_reader import must_be_as_planned
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask


class KeyRun(NamedTuple):
    """Consecutive rows of one write ID and bucket property whose row IDs rise by one."""

    rows: int
    write_id: int
    bucket: int
    first_row_id: int

    @property
    def first(self) -> RowId:
        return RowId(WriteId(self.write_id), self.bucket, self.first_row_id)

    @property
    def last(self) -> RowId:
        return RowId(WriteId(self.write_id), self.bucket, self.first_row_id + self.rows - 1)

    def continues(self, run: KeyRun) -> bool:
        """Returns true if this run may follow ``run`` without a gap."""
        same = (self.write_id, self.bucket) == (run.write_id, run.bucket)
        return same and self.first_row_id == run.first_row_id + run.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleRows:
    """The rows of one stripe that a snapshot sees. ``keep`` marks them; None keeps all."""

    stripe: int
    rows: int
    keep: Array | None
    runs: tuple[KeyRun, ...]

    @property
    def kept(self) -> int:
        return sum(run.rows for run in self.runs)


@contextmanager
def open_input(plan: ScanPlan, task: ScanTask, source: Input, storage: Storage) -> Iterator[AcidFile | None]:
    """Opens one of a task's files with rows; yields None if a streaming writer has not flushed any.

    Raises:
        SnapshotExpired: the file is gone or was replaced.
        BadFile: it cannot be read.
    """
    place = task.inserts.index(source)
    group = tuple(before for before in task.inserts[:place] if before.group == source.group)
    # row numbers of original files continue from file to file
    opened = replace(task, inserts=(*group, source), deletes=(), span=None)
    try:
        with open_files(task.location, opened.inserts, task.number, storage, zone=plan.default_zone) as files:
            must_be_as_planned(opened, files, storage)
            path = os.path.join(task.location, source.path)
            yield files[-1] if files and files[-1].path == path else None
    except FileGone as error:
        raise SnapshotExpired(
            f"{plan.table}: {error}; the snapshot of transaction {plan.txn} is lost, begin another"
        ) from error


def find_visible_rows(file: AcidFile, write_ids: ValidWriteIdList) -> Iterator[VisibleRows]:
    """Yields the visible rows of each stripe that has any.

    Keys are decoded only where statistics do not prove them.

    Raises:
        BadFile: a stripe's keys cannot be read, or contradict its statistics.
        NotLossless: the file has update or delete events among its rows.
    """
    for number, stripe in enumerate(file.tail.stripes):
        if stripe.rows and (visible := _visible_rows(file, number, stripe.rows, write_ids)).runs:
            yield visible


def _visible_rows(file: AcidFile, stripe: int, rows: int, write_ids: ValidWriteIdList) -> VisibleRows:
    statistics = None if file.is_raw else key_statistics(file.tail, stripe)
    first = None if statistics is None else dense_start(statistics, rows)
    if (
        statistics is not None
        and first is not None
        and write_ids.is_valid(WriteId(statistics.current_transaction.minimum))
    ):
        return VisibleRows(stripe=stripe, rows=rows, keep=None, runs=(KeyRun(rows, *first),))
    masks: list[Array] = []
    runs: list[KeyRun] = []
    for keys in stripe_keys(file, stripe):
        mask = valid_mask(write_ids, keys.current)
        masks.append(pa.array(mask))
        runs.extend(_find_runs(check_only_rows(file, keys).block[mask]))
    joined = join_runs(runs)
    is_whole = sum(run.rows for run in joined) == rows
    return VisibleRows(stripe=stripe, rows=rows, keep=None if is_whole else pa.concat_arrays(masks), runs=joined)


def _find_runs(block: KeyBlock) -> Iterator[KeyRun]:
    if not len(block):
        return
    columns = [block[name].astype(np.int64) for name in ("write_id", "bucket", "row_id")]
    write_id, bucket, row_id = (np.diff(column) for column in columns)
    starts = [0, *(np.flatnonzero((write_id != 0) | (bucket != 0) | (row_id != 1)) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], len(block)], strict=True):
        yield KeyRun(end - start, *row_id_at(block, start))


def join_runs(runs: Iterable[KeyRun]) -> tuple[KeyRun, ...]:
    """Returns the same keys in as few runs as possible."""
    joined: list[KeyRun] = []
    for run in runs:
        if joined and run.continues(joined[-1]):
            joined[-1] = joined[-1]._replace(rows=joined[-1].rows + run.rows)
        else:
            joined.append(run)
    return tuple(joined)
