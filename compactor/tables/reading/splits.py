"""A scan's tasks divided and put together into portions of about one size, for readers that run side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from compactor.rows.inputs import Input
from compactor.tables.reading.scan_tasks import ScanTask

_OPENING = 1 << 20  #: bytes that a task counts at least: opening files takes time, too


def portions(tasks: Iterable[ScanTask], size: int) -> Iterator[tuple[ScanTask, ...]]:
    """Yields ``tasks`` in their order, in portions of about ``size`` bytes; a larger task is split."""
    waiting: list[ScanTask] = []
    weight = 0
    for task in (part for whole in tasks for part in split(whole, size)):
        if waiting and weight + _weight(task) > size:
            yield tuple(waiting)
            waiting, weight = [], 0
        waiting.append(task)
        weight += _weight(task)
    if waiting:
        yield tuple(waiting)


def split(task: ScanTask, size: int) -> Iterator[ScanTask]:
    """Yields tasks that together read what ``task`` does, in the same order; those of more than ``size`` bytes of rows
    are parts of one file.

    Row numbers of raw files run on from file to file, so such a task stays whole; so does one with a file that a streaming
    writer may still extend.
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
    """Yields neighbouring files of at most ``size`` bytes together; a larger one comes alone."""
    run: list[Input] = []
    for file in files:
        if run and sum(one.length for one in run) + file.length > size:
            yield tuple(run)
            run = []
        run.append(file)
    if run:
        yield tuple(run)


def _weight(task: ScanTask) -> int:
    return max(task.length, _OPENING)
