"""A unit that is too much for one task, split by stripe ranges. Values only, so that they travel.

The first task looks at every stripe, as for a whole unit, and writes the delete events that stay. Stripes that must be
re-encoded become encode tasks, each of which knows which rows of its stripes stay. The last task, the assemble task,
concatenates their files and the stripes that are copied, and proves the file as that of a whole unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

from compactor.acid.row_id import RowId
from compactor.base.errors import BadFile
from compactor.base.ids import WriteId
from compactor.orc.codecs.arrow_types import Array
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.types import Types
from compactor.orc.io.file_pool import FilePool
from compactor.rewrite.full_acid.stripe_choice import Action, Choice
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Figures, Output, Unit
from compactor.rows.acid_file import AcidFile
from compactor.rows.remote_source import open_source
from compactor.storage.protocol import Storage

EVEN_TASKS = 12  #: a number of tasks that most numbers of cores divide evenly
SHARES_PER_SPLIT = 4  #: of ``split_bytes``; a fourth of it is worth a task of its own while a core may be idle


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """All that is needed to open an ``AcidFile`` again; ``length`` is its logical length in bytes, ``tag`` its store's,
    ``default_zone`` that of stripes that name none."""

    path: str
    length: int
    write_id: WriteId
    bucket: int
    first_row_id: int
    tag: str | None = None
    default_zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChoiceValue:
    """A ``Choice`` that travels: nothing in it is open."""

    file: InputFile
    stripe: int
    action: Action
    rows: int
    kept: int
    keep: Array | None
    last: RowId | None
    as_inserts: bool
    is_only_small: bool
    is_unseen: bool
    to_zone: str | None


Run: TypeAlias = tuple[ChoiceValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodeTask:
    """Runs of neighbouring stripes of ``unit``, each run to be re-encoded by itself in the class of ``like``.

    ``unit`` is without its inputs.
    """

    unit: Unit
    runs: tuple[Run, ...]
    like: Tail
    types: Types

    @property
    def rows(self) -> int:
        """The number of rows that are decoded."""
        return sum(choice.rows for run in self.runs for choice in run)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodeTaskResult:
    """The result of each run: files, and stripes that are better copied after all."""

    runs: tuple[tuple[Output | ChoiceValue, ...], ...]
    core_seconds: float = 0.0

    def timed(self, seconds: float) -> EncodeTaskResult:
        """Returns the result with ``seconds`` more of processor time."""
        return replace(self, core_seconds=self.core_seconds + seconds)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AssembleTask:
    """The last task of a split unit. ``copies[n]`` come before run ``n`` of all encode tasks, the last ones after all runs.

    ``figures`` are the unit's except for those of this task; ``outputs`` are finished: the delete events that stay.
    """

    unit: Unit
    copies: tuple[Run, ...]
    stripes: int  #: that are copied or re-encoded
    like: Tail
    types: Types
    figures: Figures
    outputs: tuple[Output, ...] = ()
    encoded: tuple[EncodeTaskResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SplitUnit:
    """The split tasks of a unit that is too much for one task. ``assemble_task`` needs the results of ``encode_tasks``."""

    encode_tasks: tuple[EncodeTask, ...]
    assemble_task: AssembleTask

    def plus(self, outputs: tuple[Output, ...], figures: Figures) -> SplitUnit:
        """Returns the same with these finished outputs and figures added."""
        last = self.assemble_task
        return replace(self, assemble_task=replace(last, outputs=outputs, figures=last.figures + figures))

    def timed(self, seconds: float) -> SplitUnit:
        """Returns the same with ``seconds`` more of processor time."""
        return self.plus(self.assemble_task.outputs, Figures(core_seconds=seconds))

    def last_task(self, results: Sequence[object]) -> AssembleTask:
        """Returns the last task, given the results of all encode tasks."""
        encoded = tuple(result for result in results if isinstance(result, EncodeTaskResult))
        assert len(encoded) == len(self.encode_tasks)
        spent = Figures(core_seconds=sum(one.core_seconds for one in encoded))
        return replace(self.assemble_task, encoded=encoded, figures=self.assemble_task.figures + spent)


def with_split_bytes(plan: Plan, split_bytes: int) -> Plan:
    """Returns the plan with units that are split when more than ``split_bytes`` must be re-encoded."""
    units = tuple(replace(unit, split_bytes=split_bytes) for unit in plan.units)
    return replace(plan, units=units, slices=tuple(with_split_bytes(one, split_bytes) for one in plan.slices))


def needs_split(unit: Unit, choices: Sequence[Choice]) -> bool:
    """Returns true if enough must be re-encoded for a second task to help; copying is bound by the disk and needs none."""
    return SHARES_PER_SPLIT * _encoded_bytes(choices) > unit.split_bytes


def _encoded_bytes(choices: Sequence[Choice]) -> int:
    return sum(c.length for c in choices if c.action is Action.ENCODE)


def split_unit(unit: Unit, choices: Sequence[Choice], like: Tail, types: Types, figures: Figures) -> SplitUnit:
    """Returns the tasks that make one file of ``choices``, which follow each other in key order.

    Args:
        figures: those of the rows.
    """
    like = replace(like, stripes=(), stripe_statistics=(), statistics=(), user_metadata={}, rows=0)
    copies: list[Run] = [()]
    runs: list[tuple[int, Run]] = []
    numbered = zip(choices, _task_numbers(choices, unit.split_bytes), strict=True)
    for number, group in groupby(numbered, key=lambda pair: pair[1]):
        run = tuple(choice_value(choice) for choice, _ in group)
        if number is None:
            copies[-1] = run
        else:
            runs.append((number, run))
            copies.append(())
    bare = replace(unit, inserts=(), deletes=())
    encode_tasks = [
        EncodeTask(unit=bare, runs=tuple(run for _, run in of_task), like=like, types=types)
        for _, of_task in groupby(runs, key=lambda run: run[0])
    ]
    last = AssembleTask(unit=unit, copies=tuple(copies), stripes=len(choices), like=like, types=types, figures=figures)
    return SplitUnit(encode_tasks=tuple(encode_tasks), assemble_task=last)


def _task_numbers(choices: Sequence[Choice], split_bytes: int) -> Iterator[int | None]:
    """Yields for each stripe the number of the encode task that re-encodes it, None for a stripe that is copied.

    Tasks are of equal size as far as stripes allow, since all of them wait for the last one to end: as many as have
    ``split_bytes`` each; where those are few, up to ``EVEN_TASKS`` with at least the smallest share each, so that no core
    idles because the number of tasks is no multiple of the number of cores.
    """
    total = _encoded_bytes(choices)
    tasks = max(-(-total // split_bytes), min(-(-SHARES_PER_SPLIT * total // split_bytes), EVEN_TASKS))
    before = 0
    for choice in choices:
        if choice.action is not Action.ENCODE:
            yield None
            continue
        yield (2 * before + choice.length) * tasks // (2 * total)
        before += choice.length


def choice_value(choice: Choice) -> ChoiceValue:
    """Returns ``choice`` as a value that travels."""
    file = choice.file
    return ChoiceValue(
        file=InputFile(
            path=file.path,
            length=file.tail.length,
            write_id=file.write_id,
            bucket=file.bucket,
            first_row_id=file.first_row_id,
            tag=file.source.tag,
            default_zone=file.tail.default_zone,
        ),
        stripe=choice.stripe,
        action=choice.action,
        rows=choice.rows,
        kept=choice.kept,
        keep=choice.keep,
        last=choice.last,
        as_inserts=choice.as_inserts,
        is_only_small=choice.is_only_small,
        is_unseen=choice.is_unseen,
        to_zone=choice.to_zone,
    )


class ReopenedInputs:
    """Input files by path, each with its tail read once."""

    def __init__(self, storage: Storage, few: FilePool) -> None:
        self._storage, self._few = storage, few
        self._files: dict[str, AcidFile] = {}

    def choice(self, value: ChoiceValue) -> Choice:
        """Returns the ``Choice`` that ``value`` was made from, its file open.

        Raises:
            BadFile: the file is gone or has been replaced.
        """
        found = value.file
        if found.path not in self._files:
            source = self._few.open(partial(open_source, self._storage, found.path))
            if source.tag != found.tag:
                raise BadFile(f"file {found.path}: it was replaced while it was read; list the directory again")
            self._files[found.path] = AcidFile(
                path=found.path,
                source=source,
                tail=replace(read_tail(source, found.length), default_zone=found.default_zone),
                write_id=found.write_id,
                bucket=found.bucket,
                first_row_id=found.first_row_id,
            )
        return Choice(
            file=self._files[found.path],
            stripe=value.stripe,
            action=value.action,
            rows=value.rows,
            kept=value.kept,
            keep=value.keep,
            last=value.last,
            as_inserts=value.as_inserts,
            is_only_small=value.is_only_small,
            is_unseen=value.is_unseen,
            to_zone=value.to_zone,
        )


@contextmanager
def reopened_inputs(storage: Storage) -> Iterator[ReopenedInputs]:
    """Yields the inputs, open until the block ends."""
    with FilePool() as few:
        yield ReopenedInputs(storage, few)
