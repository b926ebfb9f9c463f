"""The plan of a scan: explicit files with their lengths.

Nothing else is read. Plain values that can be serialized.

A plan can be narrowed to rows that came later, and divided into portions for parallel readers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow as pa

from compactor.acid.names import Base, Delta, known_directory
from compactor.acid.write_ids import RangeAnswer, ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.rows.inputs import Input
from compactor.tables.filters.conditions import Condition

#: A list that sees nothing, not even files from before the table was transactional; their write ID is 0.
NOTHING = ValidWriteIdList(table=None, high_watermark=WriteId(-1))
_OPENING = 1 << 20  #: the least bytes that a task counts for, because opening files takes time too


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """The files of one file number in one table or partition.

    Delete events of a number apply only to rows of that number.

    ``number`` need not be the bucket in the rows' ROW__IDs; deletes of these rows go by ``number``. ``constants`` are the
    values of the partition columns, by name. With a ``span``, ``inserts`` is a single file, and only its stripes that begin
    within these bytes are read.
    """

    location: str
    number: int
    inserts: tuple[Input, ...]
    deletes: tuple[Input, ...]
    partition: str | None = None
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    span: tuple[int, int] | None = None

    @property
    def length(self) -> int:
        """Bytes of all files; with a span, of the span and the files with delete events."""
        rows = sum(file.length for file in self.inserts) if self.span is None else self.span[1] - self.span[0]
        return rows + sum(file.length for file in self.deletes)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files; files with rows come first."""
        return tuple(os.path.join(self.location, file.path) for file in (*self.inserts, *self.deletes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """Everything that a scan reads, under one snapshot.

    ``schema`` is the schema of the rows. ``names`` are the table's columns without partition columns. ``columns`` are the
    positions of the returned columns, and ``filter_columns`` of the others that ``condition`` needs. ``comparable`` has the
    types of all columns by name. ``default_zone`` is the zone of stripes that name none; None if it is not set.
    ``is_gregorian`` tells that files count all days in the Gregorian calendar, whatever they say, as Hive 3.1 does.
    """

    table: str
    txn: int
    write_ids: ValidWriteIdList
    row_type: str
    names: tuple[str, ...]
    schema: pa.Schema
    comparable: pa.Schema
    columns: tuple[int, ...]
    filter_columns: tuple[int, ...] = ()
    condition: Condition | None = None
    row_ids: bool = False
    default_zone: str | None = None
    is_gregorian: bool = False
    tasks: tuple[ScanTask, ...] = ()


def keep_later_rows(plan: ScanPlan, earlier: ValidWriteIdList, end: ValidWriteIdList) -> ScanPlan:
    """Returns the plan of the rows that ``end`` sees and ``earlier`` did not see.

    ``earlier`` is an older list of the same table.

    The snapshot of ``plan`` must see all that ``end`` sees. Rows that were deleted since may be missing, because compactions
    remove them. Delete events that ``earlier`` saw are not needed: it also saw the rows that they delete.
    """
    later = end.since(earlier)
    tasks = [
        replace(task, inserts=may_hold_rows(task.inserts, later), deletes=may_hold_rows(task.deletes, later))
        for task in plan.tasks
    ]
    return replace(plan, write_ids=later, tasks=tuple(task for task in tasks if task.inserts))


def may_hold_rows(inputs: Iterable[Input], write_ids: ValidWriteIdList) -> tuple[Input, ...]:
    """Returns the files that may hold rows or delete events of ``write_ids``.

    Raw files stay or go together, because their rows are numbered through all files of a directory.
    """
    return tuple(file for file in inputs if write_ids.range_valid(*write_id_range(file)) is not RangeAnswer.NONE)


def write_id_range(file: Input) -> tuple[WriteId, WriteId]:
    """Returns the smallest and the largest write ID that a file may hold; 0 for original files."""
    match known_directory(file.path.partition("/")[0]):
        case Base(write_id=highest):
            return WriteId(0), max(WriteId(0), highest)
        case Delta(min_write_id=low, max_write_id=high):
            return low, high
    return WriteId(0), WriteId(0)


def make_portions(tasks: Iterable[ScanTask], size: int) -> Iterator[tuple[ScanTask, ...]]:
    """Yields ``tasks`` in order, in portions of about ``size`` bytes; larger tasks are split."""
    waiting: list[ScanTask] = []
    weight = 0
    for piece in (piece for task in tasks for piece in split_task(task, size)):
        if waiting and weight + _weight(piece) > size:
            yield tuple(waiting)
            waiting, weight = [], 0
        waiting.append(piece)
        weight += _weight(piece)
    if waiting:
        yield tuple(waiting)


def split_task(task: ScanTask, size: int) -> Iterator[ScanTask]:
    """Yields tasks that together read what ``task`` reads, in order, each of about ``size`` bytes.

    Larger files are divided by spans. A task of raw files stays whole, because their row numbers continue from file to file;
    so does a task with a file that a streaming writer may still extend.
    """
    rows = sum(file.length for file in task.inserts)
    if rows <= size or any(file.raw or file.has_flush_length for file in task.inserts):
        yield task
        return
    for run in _runs(task.inserts, size):
        pieces = -(-run[0].length // size) if len(run) == 1 else 1
        if pieces == 1:
            yield replace(task, inserts=run)
            continue
        edges = [run[0].length * at // pieces for at in range(pieces + 1)]
        for low, high in pairwise(edges):
            yield replace(task, inserts=run, span=(low, high))


def _runs(files: Sequence[Input], size: int) -> Iterator[tuple[Input, ...]]:
    """Yields neighbouring files of at most ``size`` bytes in total; a larger file comes alone."""
    run: list[Input] = []
    for file in files:
        if run and sum(other.length for other in run) + file.length > size:
            yield tuple(run)
            run = []
        run.append(file)
    if run:
        yield tuple(run)


def _weight(task: ScanTask) -> int:
    return max(task.length, _OPENING)
