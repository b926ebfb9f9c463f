"""Very many deltas are merged slice by slice before the compaction that was asked for, as Hive's compactor does it
(``hive.compactor.max.num.delta``). Pure.

A slice is a minor compaction of deltas that follow each other. What comes of it stays in the staging directory, where the
compaction itself reads it instead of the deltas: nobody else ever sees it. So no task holds what must be known of more
files than that, and slices of one large file number are made side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from compactor.acid.directory import AcidDirectory
from compactor.acid.names import DeltaKind, Layout
from compactor.rewrite.plan.chunks import Bound, cut
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Figures, Output, Shape, UnitResult
from compactor.rows.inputs import Input


def sliced(planned: Plan, directory: AcidDirectory, most: int, make: Callable[[AcidDirectory, Shape], Plan]) -> Plan:
    """The plan with ``slices`` of at most ``most`` deltas, if it reads more than that; never cut within the range of a
    directory (HIVE-25441).

    Chunks are no larger anyway; Hive 2's events can only be judged all together.
    """
    deltas = directory.compactable()
    if planned.chunks or len(deltas) <= most or planned.layout is Layout.VERSION_1:
        return planned
    runs = [run for run in cut(deltas, Bound(chunk_deltas=most)) if len(run) > 1]
    return replace(planned, slices=tuple(make(replace(directory, deltas=run), Shape.MINOR) for run in runs))


def condensed(planned: Plan, results: Sequence[UnitResult]) -> Plan:
    """The plan that reads what came of its slices instead of their deltas.

    Args:
        results: of the units of all slices, in their order.

    Raises:
        VerificationFailed: a row or delete event of a slice is not accounted for.
    """
    for result in results:
        result.figures.check(planned.location, Shape.MINOR)
    slice_of = {name: number for number, of_slice in enumerate(planned.slices) for name in of_slice.inputs}
    made: dict[tuple[int, int, DeltaKind], list[Input]] = {}
    left = list(results)
    for number, of_slice in enumerate(planned.slices):
        for _ in of_slice.units:
            for output in left.pop(0).outputs:
                made.setdefault((number, output.number, output.kind), []).append(_read_again(planned, output))

    def of_unit(sources: Sequence[Input], file_number: int, kind: DeltaKind) -> Iterator[Input]:
        taken: set[int] = set()
        for source in sources:
            number = slice_of.get(source.group)
            if number is None:
                yield source
            elif number not in taken:
                taken.add(number)
                yield from made.get((number, file_number, kind), ())

    units = tuple(
        replace(
            unit,
            inserts=tuple(of_unit(unit.inserts, unit.number, DeltaKind.INSERT)),
            deletes=tuple(of_unit(unit.deletes, unit.number, DeltaKind.DELETE)),
        )
        for unit in planned.units
    )
    before = sum((result.figures.handed_on() for result in results), Figures())
    return replace(planned, units=units, slices=(), before=before)


def _read_again(planned: Plan, output: Output) -> Input:
    """An attempt file as an input; its path may be a local one of a location that is none."""
    staging = os.path.basename(planned.staging)
    _, _, below = output.path.rpartition(f"/{staging}/")
    return Input(
        path=f"{staging}/{below}", length=output.length, raw=planned.file_format is not None, group=f"{staging}/{below}"
    )
