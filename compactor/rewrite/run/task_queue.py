"""Decides which tasks run next, which tasks share a parcel, and when a job is done.

Units of several entries run together, because handing out tiny units one by one would cost more than rewriting them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from compactor.base.errors import CompactorError, DatabaseUnavailable, LockNotGranted, UnforeseenKeys
from compactor.rewrite.full_acid.split import EncodeTask, EncodeTaskResult, SplitUnit
from compactor.rewrite.plan.unit import Unit, UnitResult, skipped_result
from compactor.rewrite.run.execute import TaskInput, TaskResult
from compactor.rewrite.run.failure import Failure, to_error

log = logging.getLogger(__name__)
PARCEL_BYTES = 8 * 1024 * 1024  #: of input in one parcel, unless a single unit has more
PARCEL_UNITS = 32
ENCODED_SHARE = 0.9  #: the share of a split unit that is done when all of its rows are encoded


def skip_none(unit: Unit) -> bool:
    """Returns false: no unit is skipped."""
    return False


def report_nothing(place: int, share: float) -> None:
    """Ignores the progress of a unit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """The units of one entry."""

    units: Sequence[Unit]
    check: Callable[[], None]  #: called before units begin; if it raises, the rest of the entry stops
    skips: Callable[[Unit], bool] = skip_none  #: called with each unit that would begin; true skips it
    report: Callable[[int, float], None] = report_nothing  #: called with a unit's place and its done share, from 0 to 1


#: The outcome of a job: each unit's result, in order, or the first error.
JobAnswer: TypeAlias = list[UnitResult] | CompactorError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """One attempt at a part of a job: the unit at ``place``, or one of its tasks if it is split.

    ``encode_number`` numbers the encode tasks of one unit.
    """

    job: int
    place: int
    work: TaskInput
    encode_number: int = 0

    @property
    def bytes(self) -> int:
        """The approximate number of bytes that are read."""
        return self.work.input_bytes if isinstance(self.work, Unit) else self.work.unit.split_bytes

    @property
    def is_large(self) -> bool:
        """True if the task may take seconds, so that handing it out alone costs little in comparison."""
        return not isinstance(self.work, Unit) or self.work.input_bytes > self.work.split_bytes


class TaskQueue:
    """The waiting tasks of some jobs, and the results so far. Not thread-safe."""

    def __init__(self, jobs: Sequence[Job], width: int, *, parcel_units: int = PARCEL_UNITS) -> None:
        """Keeps ``width`` executors busy with parcels of at most ``parcel_units`` tasks."""
        self._jobs = jobs
        self._waiting = deque(
            Task(job=number, place=place, work=unit)
            for number, job in enumerate(jobs)
            for place, unit in enumerate(job.units)
        )
        self._parcel_units = min(parcel_units, max(1, len(self._waiting) // (2 * width)))
        self._results: list[dict[int, UnitResult]] = [{} for _ in jobs]
        self._errors: list[CompactorError | None] = [None] * len(jobs)
        self._split: dict[tuple[int, int], tuple[SplitUnit, dict[int, EncodeTaskResult]]] = {}
        self.done = 0  #: tasks

    @property
    def waiting(self) -> int:
        """The number of tasks that can begin."""
        return len(self._waiting)

    @property
    def what(self) -> str:
        """The subject of progress messages: the directory that is compacted, or the number of directories."""
        locations = dict.fromkeys(unit.location for job in self._jobs for unit in job.units)
        return next(iter(locations)) if len(locations) == 1 else f"{len(locations)} directories"

    def take(self, parcels: int, *, large: int = 1) -> list[list[Task]]:
        """Takes up to ``parcels`` parcels of tasks, or up to ``large`` parcels of large tasks.

        Calls the ``check`` of each job once. Returns an empty list if nothing waits: everything is done, or results are
        pending.
        """
        wave: list[list[Task]] = []
        while self._waiting and not wave:
            is_large = self._waiting[0].is_large
            parcels_taken = [self._parcel()]
            while (
                self._waiting
                and self._waiting[0].is_large == is_large
                and len(parcels_taken) < (min(parcels, large) if is_large else parcels)
            ):
                parcels_taken.append(self._parcel())
            wave = self._admit(parcels_taken)
        return wave

    def may_go_on(self) -> bool:
        """Returns true if the ``check`` of an unfinished job lets it go on.

        The other jobs stop, unless only a statement or the database prevents them: then their tasks under way may end.
        """
        for number, job in enumerate(self._jobs):
            if self._errors[number] is None and len(self._results[number]) < len(job.units):
                self._check(number, but=(LockNotGranted, DatabaseUnavailable))
        return any(
            error is None and len(results) < len(job.units)
            for job, results, error in zip(self._jobs, self._results, self._errors, strict=True)
        )

    def _check(self, number: int, *, but: tuple[type[CompactorError], ...] = ()) -> None:
        """Stops the job if its ``check`` raises an error other than those of ``but``."""
        try:
            self._jobs[number].check()
        except CompactorError as error:
            self._errors[number] = None if isinstance(error, but) else error

    def _parcel(self) -> list[Task]:
        parcel = [self._waiting.popleft()]
        size = parcel[0].bytes
        while self._waiting and len(parcel) < self._parcel_units and size + self._waiting[0].bytes <= PARCEL_BYTES:
            parcel.append(self._waiting.popleft())
            size += parcel[-1].bytes
        return parcel

    def _admit(self, wave: Sequence[Sequence[Task]]) -> list[list[Task]]:
        for number in dict.fromkeys(task.job for parcel in wave for task in parcel):
            if self._errors[number] is None:
                self._check(number)
        kept = ([task for task in parcel if self._begins(task)] for parcel in wave)
        return [parcel for parcel in kept if parcel]

    def _begins(self, task: Task) -> bool:
        if self._errors[task.job] is not None:
            return False
        try:
            if isinstance(task.work, Unit) and self._jobs[task.job].skips(task.work):
                self._finish(task, skipped_result(task.work))
                return False
        except CompactorError as error:
            self._errors[task.job] = error
            return False
        return True

    def put(self, task: Task, result: TaskResult | Failure) -> None:
        """Records the result of a task. Tasks that follow from it precede units that have not begun."""
        unit_key = (task.job, task.place)
        self.done += 1
        if self._is_abandoned(task):
            return
        if isinstance(result, Failure):
            self._fail(task, to_error(result))
        elif isinstance(result, UnitResult):
            self._finish(task, result)
        elif isinstance(result, SplitUnit):
            self._split[unit_key] = result, {}
            largest_last = sorted(enumerate(result.encode_tasks), key=lambda numbered: numbered[1].rows)
            self._waiting.extendleft(replace(task, work=encode, encode_number=n) for n, encode in largest_last)
        else:
            split, encoded = self._split[unit_key]
            encoded[task.encode_number] = result
            self._jobs[task.job].report(task.place, _share(split, encoded))
            if len(encoded) == len(split.encode_tasks):
                del self._split[unit_key]
                last = split.last_task([encoded[number] for number in range(len(encoded))])
                self._waiting.appendleft(replace(task, work=last))

    def _finish(self, task: Task, result: UnitResult) -> None:
        self._results[task.job][task.place] = result
        self._jobs[task.job].report(task.place, 1.0)

    def _fail(self, task: Task, error: CompactorError) -> None:
        is_first_try = isinstance(task.work, EncodeTask) and not task.work.unit.reads_keys
        if is_first_try and isinstance(error, UnforeseenKeys):
            log.warning("all keys are read: %s", error)
            del self._split[task.job, task.place]
            self._jobs[task.job].report(task.place, 0.0)
            unit = replace(self._jobs[task.job].units[task.place], reads_keys=True)
            others = [waiting for waiting in self._waiting if not self._is_abandoned(waiting)]
            self._waiting = deque([replace(task, work=unit, encode_number=0), *others])
        else:
            self._errors[task.job] = self._errors[task.job] or error

    def _is_abandoned(self, task: Task) -> bool:
        """Returns true for an encode task of a unit that has started again."""
        if not isinstance(task.work, EncodeTask):
            return False
        split, _ = self._split.get((task.job, task.place), (None, None))
        return split is None or task.work not in split.encode_tasks[task.encode_number : task.encode_number + 1]

    def answers(self) -> list[JobAnswer]:
        return [
            error if error is not None else [results[place] for place in range(len(job.units))]
            for job, results, error in zip(self._jobs, self._results, self._errors, strict=True)
        ]


def _share(split: SplitUnit, encoded: Collection[int]) -> float:
    """Returns the done share of a split unit, by its encoded rows. Assembling its file is the rest."""
    rows = [task.rows for task in split.encode_tasks]
    return ENCODED_SHARE * sum(rows[number] for number in encoded) / max(1, sum(rows))
