"""Merges very many deltas slice by slice before the requested compaction, as Hive's compactor does.

Pure.

A slice is a minor compaction of neighbouring deltas (``hive.compactor.max.num.delta``). Its output stays in the staging
directory, where only the compaction itself reads it instead of the deltas. So no task reads more files than that, and
slices of one large file number are made side by side.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from compactor.acid.directory import AcidDirectory
from compactor.acid.names import DeltaKind, Layout
from compactor.rewrite.plan.chunks import Bound, cut_runs
from compactor.rewrite.plan.plan import Plan, PlanContext, plan
from compactor.rewrite.plan.unit import Figures, Output, Shape, UnitResult
from compactor.rows.inputs import Input


def plan_slices(planned: Plan, directory: AcidDirectory, max_deltas: int, context: PlanContext) -> Plan:
    """Adds ``slices`` of at most ``max_deltas`` deltas to a plan that reads more.

    A cut never falls within the range of a directory (HIVE-25441). Plans with chunks need no slices, and Hive 2's events
    can only be judged all together.
    """
    deltas = directory.compactable()
    if planned.chunks or len(deltas) <= max_deltas or planned.layout is Layout.VERSION_1:
        return planned
    runs = [run for run in cut_runs(deltas, Bound(chunk_deltas=max_deltas)) if len(run) > 1]
    slices = tuple(plan(replace(directory, deltas=run), Shape.MINOR, context) for run in runs)
    return replace(planned, slices=slices)


def replace_by_slices(planned: Plan, results: Sequence[UnitResult]) -> Plan:
    """Returns the plan that reads the outputs of its slices instead of their deltas.

    Args:
        results: those of the units of all slices, in order.

    Raises:
        VerificationFailed: a row or delete event of a slice is missing.
    """
    for result in results:
        result.figures.check(planned.location, Shape.MINOR)
    slice_of = {name: number for number, of_slice in enumerate(planned.slices) for name in of_slice.inputs}
    outputs: dict[tuple[int, int, DeltaKind], list[Input]] = {}
    remaining = list(results)
    for number, of_slice in enumerate(planned.slices):
        for _ in of_slice.units:
            for output in remaining.pop(0).outputs:
                outputs.setdefault((number, output.number, output.kind), []).append(_output_as_input(planned, output))

    def of_unit(sources: Sequence[Input], file_number: int, kind: DeltaKind) -> Iterator[Input]:
        taken: set[int] = set()
        for source in sources:
            number = slice_of.get(source.group)
            if number is None:
                yield source
            elif number not in taken:
                taken.add(number)
                yield from outputs.get((number, file_number, kind), ())

    units = tuple(
        replace(
            unit,
            inserts=tuple(of_unit(unit.inserts, unit.number, DeltaKind.INSERT)),
            deletes=tuple(of_unit(unit.deletes, unit.number, DeltaKind.DELETE)),
        )
        for unit in planned.units
    )
    before = sum((result.figures.without_handed_on() for result in results), Figures())
    return replace(planned, units=units, slices=(), before=before)


def _output_as_input(planned: Plan, output: Output) -> Input:
    """Returns an attempt file as an input. Its path may be local even if the location is not."""
    staging = os.path.basename(planned.staging)
    _, _, below = output.path.rpartition(f"/{staging}/")
    return Input(
        path=f"{staging}/{below}", length=output.length, raw=planned.file_format is not None, group=f"{staging}/{below}"
    )
