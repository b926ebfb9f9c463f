"""Divides and groups the tasks of a scan into portions of about the same size, for parallel readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from compactor.rows.inputs import Input
from compactor.tables.reading.scan_tasks import ScanTask

_OPENING = 1 << 20  #: the least bytes that a task counts for, because opening files takes time too


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
    """Yields tasks that together read what ``task`` reads, in the same order, each of about ``size`` bytes of rows.

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
