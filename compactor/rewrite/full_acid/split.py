"""A unit that is too much for one task, cut by stripe ranges. Values only, so that they travel.

The first task looks at every stripe, as for a whole unit, and writes the delete events that stay. What must be
re-encoded becomes sections, each a task of its own that knows which rows of its stripes stay. The last task strings
together what the sections made and what is copied, and proves the file as that of a whole unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

from compactor.acid.row_id import RowId
from compactor.ids import WriteId
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.types import Array, Types
from compactor.orc.io.file_cache import FewOpen
from compactor.rewrite.full_acid.stripe_choice import Action, Choice
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Figures, Output, Unit
from compactor.rows.acid_file import AcidFile
from compactor.rows.opening import open_source
from compactor.storage.protocol import Storage

EVEN = 12  #: sections that most numbers of cores have even shares of
PART = 4  #: of ``split_bytes``: what is worth a task of its own while a core may be idle


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """What makes an ``AcidFile`` of a path again; ``length`` is the logical one, in bytes."""

    path: str
    length: int
    write_id: WriteId
    bucket: int
    first_row_id: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """A ``Choice`` as a value."""

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


Run: TypeAlias = tuple[Chosen, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Section:
    """Runs of neighbouring stripes of ``unit``, to be re-encoded in the class of ``like``, each for itself.

    ``unit`` is without its inputs.
    """

    unit: Unit
    runs: tuple[Run, ...]
    like: Tail
    types: Types

    @property
    def rows(self) -> int:
        """That are decoded."""
        return sum(chosen.rows for run in self.runs for chosen in run)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedSection:
    """By run what came out: files, and stripes that are better copied after all."""

    runs: tuple[tuple[Output | Chosen, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assembly:
    """The last task. ``copies[n]`` stand before run ``n`` of all sections, and the last ones after all runs.

    ``figures`` are the unit's but for what this task does; ``outputs`` are finished, the delete events that stay.
    """

    unit: Unit
    copies: tuple[Run, ...]
    stripes: int  #: that are copied or re-encoded
    like: Tail
    types: Types
    figures: Figures
    outputs: tuple[Output, ...] = ()
    sections: tuple[EncodedSection, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Division:
    """What a unit became that is too much for one task. ``assembly`` wants what ``sections`` make."""

    sections: tuple[Section, ...]
    assembly: Assembly

    def besides(self, outputs: tuple[Output, ...], figures: Figures) -> Division:
        """The same with these besides; the outputs are finished."""
        last = self.assembly
        return replace(self, assembly=replace(last, outputs=outputs, figures=last.figures + figures))

    def whole(self, sections: Sequence[object]) -> Assembly:
        """The last task, when every section has answered."""
        done = tuple(section for section in sections if isinstance(section, EncodedSection))
        assert len(done) == len(self.sections)
        return replace(self.assembly, sections=done)


def split_by(plan: Plan, split_bytes: int) -> Plan:
    """The plan with units that split where more than ``split_bytes`` must be re-encoded."""
    units = tuple(replace(unit, split_bytes=split_bytes) for unit in plan.units)
    return replace(plan, units=units, slices=tuple(split_by(one, split_bytes) for one in plan.slices))


def is_too_much(unit: Unit, choices: Sequence[Choice]) -> bool:
    """Whether so much must be re-encoded that a second task helps; copying is bound by the disk and needs none."""
    return PART * _encoded_bytes(choices) > unit.split_bytes


def _encoded_bytes(choices: Sequence[Choice]) -> int:
    return sum(c.length for c in choices if c.action is Action.ENCODE)


def divide(unit: Unit, choices: Sequence[Choice], like: Tail, types: Types, figures: Figures) -> Division:
    """The tasks that make one file of ``choices``, which follow each other in key order.

    Args:
        figures: of the rows.
    """
    like = replace(like, stripes=(), stripe_statistics=(), statistics=(), user_metadata={}, rows=0)
    copies: list[Run] = [()]
    runs: list[tuple[int, Run]] = []
    for section, group in groupby(zip(choices, _shares(choices, unit.split_bytes), strict=True), key=lambda c: c[1]):
        run = tuple(value_of(choice) for choice, _ in group)
        if section is None:
            copies[-1] = run
        else:
            runs.append((section, run))
            copies.append(())
    bare = replace(unit, inserts=(), deletes=())
    sections = [
        Section(unit=bare, runs=tuple(run for _, run in of_section), like=like, types=types)
        for _, of_section in groupby(runs, key=lambda run: run[0])
    ]
    assembly = Assembly(unit=unit, copies=tuple(copies), stripes=len(choices), like=like, types=types, figures=figures)
    return Division(sections=tuple(sections), assembly=assembly)


def _shares(choices: Sequence[Choice], split_bytes: int) -> Iterator[int | None]:
    """Which section re-encodes each stripe, None for one that is copied. Sections are as large as each other as far as
    stripes admit, since all wait for the last one to end: as many as have ``split_bytes`` each; where that are few, up to
    ``EVEN`` of a ``PART`` of it, so that no core idles because their number is no multiple of the cores'."""
    total = _encoded_bytes(choices)
    sections = max(-(-total // split_bytes), min(-(-PART * total // split_bytes), EVEN))
    before = 0
    for choice in choices:
        if choice.action is not Action.ENCODE:
            yield None
            continue
        yield (2 * before + choice.length) * sections // (2 * total)
        before += choice.length


def value_of(choice: Choice) -> Chosen:
    """``choice`` without what is open."""
    file = choice.file
    return Chosen(
        file=InputFile(
            path=file.path,
            length=file.tail.length,
            write_id=file.write_id,
            bucket=file.bucket,
            first_row_id=file.first_row_id,
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
    )


class Reopened:
    """Input files by path, each with its tail read once."""

    def __init__(self, storage: Storage, few: FewOpen) -> None:
        self._storage, self._few = storage, few
        self._files: dict[str, AcidFile] = {}

    def choice(self, chosen: Chosen) -> Choice:
        """What ``chosen`` stands for.

        Raises:
            BadFile: the file is gone or another one.
        """
        found = chosen.file
        if found.path not in self._files:
            source = self._few.open(partial(open_source, self._storage, found.path))
            self._files[found.path] = AcidFile(
                path=found.path,
                source=source,
                tail=read_tail(source, found.length),
                write_id=found.write_id,
                bucket=found.bucket,
                first_row_id=found.first_row_id,
            )
        return Choice(
            file=self._files[found.path],
            stripe=chosen.stripe,
            action=chosen.action,
            rows=chosen.rows,
            kept=chosen.kept,
            keep=chosen.keep,
            last=chosen.last,
            as_inserts=chosen.as_inserts,
            is_only_small=chosen.is_only_small,
            is_unseen=chosen.is_unseen,
        )


@contextmanager
def reopened(storage: Storage) -> Iterator[Reopened]:
    """Inputs, open until the block ends."""
    with FewOpen() as few:
        yield Reopened(storage, few)
