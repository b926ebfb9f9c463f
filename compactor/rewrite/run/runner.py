"""Where units run. The runners of this machine are here and in ``processes``; ``spark.runner`` binds units to executors.

Units of several entries are run together: tiny ones would else cost more to hand out than to rewrite.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol, TypeAlias

from compactor.errors import CompactorError, UnforeseenKeys
from compactor.rewrite.full_acid.split import Division, EncodedSection, Section
from compactor.rewrite.plan.unit import Unit, UnitResult, passed_over
from compactor.rewrite.run.execute import Made, Work, attempt_all
from compactor.rewrite.run.failure import Failure, error_of
from compactor.rewrite.run.progress import JobProgress

log = logging.getLogger(__name__)
PARCEL_BYTES = 8 * 1024 * 1024  #: of input that is handed out at once, where a single unit has not more
PARCEL_UNITS = 32


def never(unit: Unit) -> bool:
    """No unit is passed over."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """The units of one entry. ``check`` is called before units of it begin; what it raises stops this entry's rest.

    ``skips`` is asked of each unit that would begin; one that it says True of is passed over, and its result says so.
    """

    units: Sequence[Unit]
    check: Callable[[], None]
    skips: Callable[[Unit], bool] = never


#: What became of a job: each unit's result, in order, or the first error.
Answer: TypeAlias = list[UnitResult] | CompactorError


class Runner(Protocol):
    """Runs the units of some entries; several calls may be under way at once."""

    @property
    def application(self) -> str | None:
        """By which name the cluster knows what works on them; None where no cluster does."""

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        """The answer of each job, in order. One that fails leaves the others alone.

        The errors are those of ``execute``, and what ``check`` raised.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """What one attempt does of a job: a unit by its place, or something of it by ``section``."""

    job: int
    place: int
    work: Work
    section: int = 0

    @property
    def bytes(self) -> int:
        """That are read, about."""
        return self.work.input_bytes if isinstance(self.work, Unit) else self.work.unit.split_bytes

    @property
    def is_large(self) -> bool:
        """Whether it may take seconds, beside which it costs nothing to hand it out by itself."""
        return not isinstance(self.work, Unit) or self.work.input_bytes > self.work.split_bytes


class Tally:
    """What is known so far of some jobs, and what can be done next. Not for several threads at once."""

    def __init__(self, jobs: Sequence[Job], width: int, *, most: int = PARCEL_UNITS) -> None:
        """``width`` executors are to be kept busy; at most ``most`` tasks make a parcel."""
        self._jobs = jobs
        self._waiting = deque(
            Task(job=number, place=place, work=unit)
            for number, job in enumerate(jobs)
            for place, unit in enumerate(job.units)
        )
        self._most = min(most, max(1, len(self._waiting) // (2 * width)))
        self._results: list[dict[int, UnitResult]] = [{} for _ in jobs]
        self._errors: list[CompactorError | None] = [None] * len(jobs)
        self._divided: dict[tuple[int, int], tuple[Division, dict[int, EncodedSection]]] = {}
        self.done = 0  #: tasks

    @property
    def waiting(self) -> int:
        """Tasks that can begin."""
        return len(self._waiting)

    @property
    def what(self) -> str:
        """For messages: the directory that is compacted, or how many of them."""
        locations = dict.fromkeys(unit.location for job in self._jobs for unit in job.units)
        return next(iter(locations)) if len(locations) == 1 else f"{len(locations)} directories"

    def take(self, parcels: int, *, large: int = 1) -> list[list[Task]]:
        """Up to ``parcels`` parcels of tasks that may begin now, or up to ``large`` of large ones, each job being asked
        once; none where nothing waits: all is done, or answers are to come."""
        wave: list[list[Task]] = []
        while self._waiting and not wave:
            is_large = self._waiting[0].is_large
            found = [self._parcel()]
            while (
                self._waiting
                and self._waiting[0].is_large == is_large
                and len(found) < (min(parcels, large) if is_large else parcels)
            ):
                found.append(self._parcel())
            wave = self._admitted(found)
        return wave

    def _parcel(self) -> list[Task]:
        parcel = [self._waiting.popleft()]
        size = parcel[0].bytes
        while self._waiting and len(parcel) < self._most and size + self._waiting[0].bytes <= PARCEL_BYTES:
            parcel.append(self._waiting.popleft())
            size += parcel[-1].bytes
        return parcel

    def _admitted(self, wave: Sequence[Sequence[Task]]) -> list[list[Task]]:
        for number in dict.fromkeys(task.job for parcel in wave for task in parcel):
            if self._errors[number] is None:
                try:
                    self._jobs[number].check()
                except CompactorError as error:
                    self._errors[number] = error
        kept = ([task for task in parcel if self._begins(task)] for parcel in wave)
        return [parcel for parcel in kept if parcel]

    def _begins(self, task: Task) -> bool:
        if self._errors[task.job] is not None:
            return False
        try:
            if isinstance(task.work, Unit) and self._jobs[task.job].skips(task.work):
                self._results[task.job][task.place] = passed_over(task.work)
                return False
        except CompactorError as error:
            self._errors[task.job] = error
            return False
        return True

    def put(self, task: Task, made: Made | Failure) -> None:
        """What came of a task. What follows from it goes before units that nobody has begun."""
        whose = (task.job, task.place)
        self.done += 1
        if self._is_given_up(task):
            return
        if isinstance(made, Failure):
            self._failed(task, error_of(made))
        elif isinstance(made, UnitResult):
            self._results[task.job][task.place] = made
        elif isinstance(made, Division):
            self._divided[whose] = made, {}
            largest_last = sorted(enumerate(made.sections), key=lambda section: section[1].rows)
            self._waiting.extendleft(replace(task, work=section, section=n) for n, section in largest_last)
        else:
            division, done = self._divided[whose]
            done[task.section] = made
            if len(done) == len(division.sections):
                del self._divided[whose]
                whole = division.whole([done[number] for number in range(len(done))])
                self._waiting.appendleft(replace(task, work=whole))

    def _failed(self, task: Task, error: CompactorError) -> None:
        is_first = isinstance(task.work, Section) and not task.work.unit.reads_keys
        if is_first and isinstance(error, UnforeseenKeys):
            log.warning("all keys are read: %s", error)
            del self._divided[task.job, task.place]
            unit = replace(self._jobs[task.job].units[task.place], reads_keys=True)
            others = [waiting for waiting in self._waiting if not self._is_given_up(waiting)]
            self._waiting = deque([replace(task, work=unit, section=0), *others])
        else:
            self._errors[task.job] = self._errors[task.job] or error

    def _is_given_up(self, task: Task) -> bool:
        """Whether it is a section of a unit that has started anew."""
        if not isinstance(task.work, Section):
            return False
        division, _ = self._divided.get((task.job, task.place), (None, None))
        return division is None or task.work not in division.sections[task.section : task.section + 1]

    def answers(self) -> list[Answer]:
        return [
            error if error is not None else [results[place] for place in range(len(job.units))]
            for job, results, error in zip(self._jobs, self._results, self._errors, strict=True)
        ]


#: Begins parcels; gives what comes of all their tasks, in order.
Begin: TypeAlias = Callable[[list[list[Work]]], Future[list[Made | Failure]]]


def keep_busy(
    tally: Tally,
    most: int,
    begin: Begin,
    *,
    together: int = 1,
    large: int = 1,
    lost: type[Exception] | tuple[()] = (),
) -> list[Task]:
    """Has up to ``most`` parcels under way, the next ones begun whenever some are done, until nothing waits.

    Args:
        together: parcels that are begun at once.
        large: the same of those that are large.
        lost: what says that nothing came of parcels.

    Returns:
        The tasks of which nothing came.
    """
    under_way: dict[Future[list[Made | Failure]], list[list[Task]]] = {}
    suspects: list[Task] = []
    progress = JobProgress(tally.what)
    while True:
        while (room := most - sum(map(len, under_way.values()))) > 0 and (
            parcels := tally.take(min(room, together), large=large)
        ):
            under_way[begin([[task.work for task in parcel] for parcel in parcels])] = parcels
        if not under_way:
            return suspects
        for done in wait(under_way, progress.pause_s, FIRST_COMPLETED).done:
            tasks = list(chain.from_iterable(under_way.pop(done)))
            try:
                answers = done.result()
            except lost:
                suspects += tasks
                continue
            for task, made in zip(tasks, answers, strict=True):
                tally.put(task, made)
        begun = sum(len(parcel) for parcels in under_way.values() for parcel in parcels)
        progress.tell(done=tally.done, under_way=begun, waiting=tally.waiting)


def attempt_parcels(parcels: Sequence[Sequence[Work]]) -> list[Made | Failure]:
    """What comes of the tasks of all ``parcels``, one after another."""
    return [made for works in parcels for made in attempt_all(works)]


def begin_here(parcels: list[list[Work]]) -> Future[list[Made | Failure]]:
    """Ends before it returns."""
    done: Future[list[Made | Failure]] = Future()
    done.set_result(attempt_parcels(parcels))
    return done


class InProcessRunner:
    """Runs units in this process, ``threads`` at a time (the codecs release the interpreter's lock)."""

    application: str | None = None

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        tally = Tally(jobs, self._threads, most=1)
        if self._threads == 1:
            keep_busy(tally, 1, begin_here)
        else:
            with ThreadPoolExecutor(self._threads, thread_name_prefix="unit") as pool:
                keep_busy(tally, self._threads, lambda parcels: pool.submit(attempt_parcels, parcels))
        return tally.answers()
