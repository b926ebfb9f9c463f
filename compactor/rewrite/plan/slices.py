"""Slices: very many deltas are merged slice by slice before the requested compaction, as Hive's compactor does
(``hive.compactor.max.num.delta``). Pure.

A slice is a minor compaction of neighbouring deltas. Its output stays in the staging directory, where the compaction
itself reads it instead of the deltas; nobody else ever sees it. No task therefore keeps more files than that in mind, and
slices of one large file number are made side by side.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from compactor.acid.directory import AcidDirectory
from compactor.acid.names import DeltaKind, Layout
from compactor.rewrite.plan.chunks import Bound, cut
from compactor.rewrite.plan.plan import Plan, PlanContext, plan
from compactor.rewrite.plan.unit import Figures, Output, Shape, UnitResult
from compactor.rows.inputs import Input


def sliced(planned: Plan, directory: AcidDirectory, max_deltas: int, context: PlanContext) -> Plan:
    """Returns the plan with ``slices`` of at most ``max_deltas`` deltas if it reads more than that; a cut never falls
    within the range of a directory (HIVE-25441).

    Chunks are no larger than that anyway, and Hive 2's events can only be judged all together.
    """
    deltas = directory.compactable()
    if planned.chunks or len(deltas) <= max_deltas or planned.layout is Layout.VERSION_1:
        return planned
    runs = [run for run in cut(deltas, Bound(chunk_deltas=max_deltas)) if len(run) > 1]
    slices = tuple(plan(replace(directory, deltas=run), Shape.MINOR, context) for run in runs)
    return replace(planned, slices=slices)


def condensed(planned: Plan, results: Sequence[UnitResult]) -> Plan:
    """Returns the plan that reads the output of its slices instead of their deltas.

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
    """Returns an attempt file as an input; its path may be local although the location is not."""
    staging = os.path.basename(planned.staging)
    _, _, below = output.path.rpartition(f"/{staging}/")
    return Input(
        path=f"{staging}/{below}", length=output.length, raw=planned.file_format is not None, group=f"{staging}/{below}"
    )
