"""Splits a unit that is too much for one task by ranges of stripes.

The first task chooses the action for every stripe and writes the delete events that stay. Encode tasks re-encode stripes;
each knows which rows of its stripes stay. The last task, the assemble task, concatenates their files and the copied
stripes, and proves the file like that of a whole unit.

Everything here is a value that can travel to an executor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

from compactor.acid.bucket import RowId
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
SHARES_PER_SPLIT = 4  #: a fourth of ``split_bytes`` is worth a separate task while a core may be idle


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """Everything that is needed to open an ``AcidFile`` again.

    ``length`` is its logical length in bytes, ``tag`` the store's tag, and ``default_zone`` the zone of stripes that name
    no zone.
    """

    path: str
    length: int
    write_id: WriteId
    bucket: int
    first_row_id: int
    tag: str | None = None
    default_zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChoiceValue:
    """A ``Choice`` that can travel to an executor: it holds no open file."""

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
    """Runs of neighbouring stripes of ``unit``.

    Each run is re-encoded separately in the class of ``like``.

    ``unit`` comes without its inputs.
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
    """The result of each run: files, and stripes that must be copied after all."""

    runs: tuple[tuple[Output | ChoiceValue, ...], ...]
    core_seconds: float = 0.0

    def timed(self, seconds: float) -> EncodeTaskResult:
        """Returns the result with ``seconds`` more of processor time."""
        return replace(self, core_seconds=self.core_seconds + seconds)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AssembleTask:
    """The last task of a split unit.

    ``copies[n]`` precede run ``n`` of all encode tasks; the last ones follow all runs.

    ``figures`` are the unit's, without those of this task. ``outputs`` are finished: the delete events that stay.
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
    """The tasks of a unit that is too much for one task.

    ``assemble_task`` needs the results of ``encode_tasks``.
    """

    encode_tasks: tuple[EncodeTask, ...]
    assemble_task: AssembleTask

    def plus(self, outputs: tuple[Output, ...], figures: Figures) -> SplitUnit:
        """Returns the unit with these finished outputs and figures added."""
        last = self.assemble_task
        return replace(self, assemble_task=replace(last, outputs=outputs, figures=last.figures + figures))

    def timed(self, seconds: float) -> SplitUnit:
        """Returns the unit with ``seconds`` more of processor time."""
        return self.plus(self.assemble_task.outputs, Figures(core_seconds=seconds))

    def last_task(self, results: Sequence[object]) -> AssembleTask:
        """Returns the last task, given the results of all encode tasks."""
        encoded = tuple(result for result in results if isinstance(result, EncodeTaskResult))
        assert len(encoded) == len(self.encode_tasks)
        spent = Figures(core_seconds=sum(result.core_seconds for result in encoded))
        return replace(self.assemble_task, encoded=encoded, figures=self.assemble_task.figures + spent)


def with_split_bytes(plan: Plan, split_bytes: int) -> Plan:
    """Returns the plan with units that split if more than ``split_bytes`` must be re-encoded."""
    units = tuple(replace(unit, split_bytes=split_bytes) for unit in plan.units)
    return replace(plan, units=units, slices=tuple(with_split_bytes(part, split_bytes) for part in plan.slices))


def needs_split(unit: Unit, choices: Sequence[Choice]) -> bool:
    """Returns true if enough must be re-encoded for a second task to help.

    Copying is bound by the disk and needs none.
    """
    return SHARES_PER_SPLIT * _encoded_bytes(choices) > unit.split_bytes


def _encoded_bytes(choices: Sequence[Choice]) -> int:
    return sum(c.length for c in choices if c.action is Action.ENCODE)


def split_unit(unit: Unit, choices: Sequence[Choice], like: Tail, types: Types, figures: Figures) -> SplitUnit:
    """Returns the tasks that write ``choices``, which are in key order, to one file.

    Args:
        figures: the figures of the rows.
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
    """Yields for each stripe the number of its encode task; None for a stripe that is copied.

    The unit waits for the last task, so tasks have equal sizes as far as stripes allow. A task has ``split_bytes``. If
    that gives few tasks, there are up to ``EVEN_TASKS`` with at least the smallest share each, so that they keep most
    numbers of cores evenly busy.
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
    """Returns ``choice`` as a value that can travel to an executor."""
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
    """Input files by path. The tail of each is read once."""

    def __init__(self, storage: Storage, few: FilePool) -> None:
        self._storage, self._few = storage, few
        self._files: dict[str, AcidFile] = {}

    def choice(self, value: ChoiceValue) -> Choice:
        """Returns the ``Choice`` behind ``value``, with its file open.

        Raises:
            BadFile: the file is gone or has been replaced.
        """
        file = value.file
        if file.path not in self._files:
            source = self._few.open(partial(open_source, self._storage, file.path))
            if source.tag != file.tag:
                raise BadFile(f"file {file.path}: it was replaced while it was read; list the directory again")
            self._files[file.path] = AcidFile(
                path=file.path,
                source=source,
                tail=replace(read_tail(source, file.length), default_zone=file.default_zone),
                write_id=file.write_id,
                bucket=file.bucket,
                first_row_id=file.first_row_id,
            )
        return Choice(
            file=self._files[file.path],
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
