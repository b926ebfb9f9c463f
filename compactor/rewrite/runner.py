"""Where units run. The runners of this machine are here and in ``processes``; ``spark.runner`` binds units to executors.

Units of several entries are run together: tiny ones would else cost more to hand out than to rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from compactor.errors import CompactorError
from compactor.rewrite.execute import attempt
from compactor.rewrite.failure import Failure, error_of
from compactor.rewrite.unit import Unit, UnitResult

PARCEL_BYTES = 8 * 1024 * 1024  #: of input that is handed out at once, where a single unit has not more
PARCEL_UNITS = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """The units of one entry. ``check`` is called before units of it begin; what it raises stops this entry's rest."""

    units: Sequence[Unit]
    check: Callable[[], None]


#: What became of a job: each unit's result, in order, or the first error.
Answer: TypeAlias = list[UnitResult] | CompactorError


class Runner(Protocol):
    """Runs the units of some entries; several calls may be under way at once."""

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        """The answer of each job, in order. One that fails leaves the others alone.

        The errors are those of ``execute``, and what ``check`` raised.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """One unit of a job, by their places."""

    job: int
    place: int
    unit: Unit


class Tally:
    """What is known so far of some jobs."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._results: list[dict[int, UnitResult]] = [{} for _ in jobs]
        self._errors: list[CompactorError | None] = [None] * len(jobs)

    def parcels(self, width: int) -> Iterator[list[Task]]:
        """All units in order, in parcels that keep ``width`` executors busy."""
        tasks = [
            Task(job=number, place=place, unit=unit)
            for number, job in enumerate(self._jobs)
            for place, unit in enumerate(job.units)
        ]
        most = min(PARCEL_UNITS, max(1, len(tasks) // (2 * width)))
        parcel: list[Task] = []
        size = 0
        for task in tasks:
            if parcel and (len(parcel) >= most or size + task.unit.input_bytes > PARCEL_BYTES):
                yield parcel
                parcel, size = [], 0
            parcel.append(task)
            size += task.unit.input_bytes
        if parcel:
            yield parcel

    def admitted(self, wave: Sequence[Sequence[Task]]) -> list[list[Task]]:
        """What may begin of the parcels of ``wave``; each job is asked once."""
        for number in dict.fromkeys(task.job for parcel in wave for task in parcel):
            if self._errors[number] is None:
                try:
                    self._jobs[number].check()
                except CompactorError as error:
                    self._errors[number] = error
        kept = ([task for task in parcel if self._errors[task.job] is None] for parcel in wave)
        return [parcel for parcel in kept if parcel]

    def put(self, task: Task, answer: UnitResult | Failure) -> None:
        if isinstance(answer, Failure):
            self._errors[task.job] = self._errors[task.job] or error_of(answer)
        else:
            self._results[task.job][task.place] = answer

    def answers(self) -> list[Answer]:
        return [
            error if error is not None else [results[place] for place in range(len(job.units))]
            for job, results, error in zip(self._jobs, self._results, self._errors, strict=True)
        ]


class InProcessRunner:
    """Runs units in this process, ``threads`` at a time (the codecs release the interpreter's lock)."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        tally = Tally(jobs)
        tasks = [task for parcel in tally.parcels(self._threads) for task in parcel]

        def one(task: Task) -> None:
            for parcel in tally.admitted([[task]]):
                for admitted in parcel:
                    tally.put(admitted, attempt(admitted.unit))

        if self._threads == 1 or len(tasks) < 2:
            for task in tasks:
                one(task)
        else:
            with ThreadPoolExecutor(self._threads, thread_name_prefix="unit") as pool:
                list(pool.map(one, tasks))
        return tally.answers()
