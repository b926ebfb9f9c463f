"""Divides a bounded request into chunks: runs of deltas, each of which becomes one pair of deltas.

Pure.

A chunk is a minor compaction of neighbouring deltas, so every rule of a minor applies to it: both kinds of deltas in its
range are read (PROTOCOL 1.4), and ranges do not overlap. A chunk replaces only its own inputs, so chunks may be named in
any order, or only some of them.

A slice is a minor compaction of neighbouring deltas (``hive.compactor.max.num.delta``). Its output stays in the staging
directory, where only the compaction itself reads it instead of the deltas. So no task reads more files than that, and
slices of one large file number are made side by side.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, takewhile

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import AcidDir
from compactor.acid.names import DeltaKind, Layout
from compactor.acid.write_ids import RangeAnswer, ValidWriteIdList
from compactor.base.errors import Refused
from compactor.base.ids import WriteId
from compactor.compaction.decision import NothingToDo, check_enough
from compactor.compaction.states import CompactionType
from compactor.rewrite.plan.plan import NOTHING_LEFT, Plan, PlanContext, Remainder, plan
from compactor.rewrite.plan.unit import Figures, Output, Shape, UnitResult
from compactor.rows.inputs import Input

_MAX_BYTES = "compactor.max.bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The limits of one request. ``bytes`` (of input) and ``milliseconds`` are None without such a limit."""

    bytes: int | None = None
    milliseconds: int | None = None
    chunk_bytes: int = 1 << 30  #: the most that one chunk reads if the time is limited
    chunk_deltas: int = 500  #: the most directories that one chunk reads

    def is_over(self, run: Sequence[AcidDir], group: Sequence[AcidDir], *, is_one: bool) -> bool:
        """Returns true if ``run`` has no room for ``group``.

        A group may be too large for a chunk, but not for the bytes of the request. It is merged with one neighbour all the
        same, because otherwise it would never be merged.
        """
        longer = (*run, *group)
        if len(longer) > self.chunk_deltas or (self.bytes is not None and size(longer) > self.bytes):
            return True
        return self.milliseconds is not None and size(longer) > self.chunk_bytes and not is_one

    def is_large(self, group: Sequence[AcidDir]) -> bool:
        """Returns true if ``group`` is more than half of a chunk.

        Merging it with a small one would copy much for little.
        """
        limits = [n for n in (self.bytes, self.chunk_bytes if self.milliseconds is not None else None) if n is not None]
        return 2 * size(group) > min(limits)


def plan_within_bound(directory: AcidDirectory, shape: Shape, bound: Bound, context: PlanContext) -> Plan:
    """Plans all of ``directory``, or as many of its chunks as the bound admits.

    A major that would read more than the bound merges only deltas.

    Raises:
        Refused: nothing can be merged within the bound.
    """
    # 1. Plan everything at once if the bound admits it.
    whole = plan(directory, shape, context)
    too_much = bound.bytes is not None and whole.input_bytes > bound.bytes
    if not too_much and (shape is Shape.MAJOR or bound.milliseconds is None):
        return whole
    deltas = directory.compactable()
    if not too_much and len(cut_runs(deltas, bound)) < 2:
        return whole
    # 2. Otherwise choose runs of deltas, as many as the bytes of the request admit.
    runs = _worth_merging(directory, cut_runs(deltas, bound, apart=True)) or _worth_merging(
        directory, cut_runs(deltas, bound)
    )
    chosen = runs
    if bound.bytes is not None:
        limit = bound.bytes
        runs = [run for run in runs if size(run) <= limit]
        within = takewhile(lambda total: total <= limit, accumulate(map(size, runs)))
        chosen = runs[: len(list(within))]
    if not chosen:
        raise _too_little(directory, shape, bound, whole)
    # 3. Plan a chunk for each run.
    chunks = tuple(plan(replace(directory, deltas=run), Shape.MINOR, context) for run in chosen)
    merged = _join_chunks(whole, chunks)
    limit_of_aborts = _first_with_aborts(directory, chosen, context.write_ids)
    if limit_of_aborts is not None:
        merged = replace(merged, highest_write_id=min(merged.highest_write_id, WriteId(limit_of_aborts - 1)))
    return replace(merged, left=_remainder(whole, shape, bound, runs[len(chosen) :]))


def cut_runs(deltas: Iterable[AcidDir], bound: Bound, *, apart: bool = False) -> list[tuple[AcidDir, ...]]:
    """Cuts deltas into runs as long as the bound admits, never within a directory's range (HIVE-25441).

    Args:
        apart: puts large deltas into separate runs, so that merged deltas are not copied again for the sake of a few.
    """
    runs: list[list[AcidDir]] = []
    groups = 0  #: in the last run
    was_large = False
    for group in _groups(deltas):
        is_large = apart and bound.is_large(group)
        if not runs or is_large or was_large or bound.is_over(runs[-1], group, is_one=groups == 1):
            runs.append([])
            groups = 0
        runs[-1] += group
        groups, was_large = groups + 1, is_large
    return [tuple(run) for run in runs]


def _groups(deltas: Iterable[AcidDir]) -> list[tuple[AcidDir, ...]]:
    """Groups directories with overlapping ranges, such as the statements of a transaction."""
    groups: list[list[AcidDir]] = []
    highest = -1
    for delta in sorted(deltas, key=lambda d: d.delta.min_write_id):
        if groups and delta.delta.min_write_id <= highest:
            groups[-1].append(delta)
        else:
            groups.append([delta])
        highest = max(highest, delta.delta.max_write_id)
    return [tuple(group) for group in groups]


def size(run: Iterable[AcidDir]) -> int:
    """Returns the total size of the data files of some deltas, in bytes."""
    return sum(file.length for delta in run for file in (*delta.files, *delta.unnumbered))


def _worth_merging(directory: AcidDirectory, runs: Iterable[tuple[AcidDir, ...]]) -> list[tuple[AcidDir, ...]]:
    """Returns the runs that a minor compaction turns into fewer directories."""
    return [
        run
        for run in runs
        if not isinstance(check_enough(replace(directory, deltas=run), CompactionType.MINOR), NothingToDo)
    ]


def _join_chunks(whole: Plan, chunks: tuple[Plan, ...]) -> Plan:
    return replace(
        whole,
        shape=Shape.MINOR,
        units=tuple(unit for chunk in chunks for unit in chunk.units),
        lowest_write_id=chunks[0].lowest_write_id,
        highest_write_id=chunks[-1].highest_write_id,
        inputs=tuple(name for chunk in chunks for name in chunk.inputs),
        chunks=chunks,
    )


def _first_with_aborts(
    directory: AcidDirectory, chosen: Sequence[Sequence[AcidDir]], write_ids: ValidWriteIdList
) -> WriteId | None:
    """Returns the lowest write ID of the unmerged deltas with rows of aborted transactions.

    Returns None without such deltas.

    Cleaning forgets the aborts up to CQ_HIGHEST_WRITE_ID. Hive's cleaner does not check whether files still hold their
    rows, which would then count as committed (PROTOCOL 8).
    """
    merged = {delta.directory for run in chosen for delta in run}
    ranges = [d.delta for d in directory.compactable() if d.directory not in merged]
    some = [
        d.min_write_id for d in ranges if write_ids.range_aborted(d.min_write_id, d.max_write_id) != RangeAnswer.NONE
    ]
    return min(some, default=None)


def _remainder(whole: Plan, shape: Shape, bound: Bound, rest: Sequence[Sequence[AcidDir]]) -> Remainder:
    deltas, remaining = sum(map(len, rest)), sum(map(size, rest))
    if shape is Shape.MINOR:
        return Remainder(deltas=deltas, bytes=remaining, because=_MAX_BYTES, again=True) if rest else NOTHING_LEFT
    because = f"a base reads {whole.input_bytes} bytes, more than {_MAX_BYTES} {bound.bytes}, so deltas were merged"
    # Merged deltas may have lost deleted rows; only the next request can tell how small they are.
    return Remainder(deltas=deltas, bytes=remaining, because=because, again=bool(rest))


def completed_chunks(plan: Plan, results: Sequence[UnitResult]) -> tuple[Plan, list[UnitResult]]:
    """Returns the plan of the leading chunks whose units are all done, with the results of these units."""
    if all(result.is_done for result in results):
        return plan, list(results)
    whole: list[Plan] = []
    done: list[UnitResult] = []
    for chunk in plan.chunks:
        of_chunk = results[len(done) : len(done) + len(chunk.units)]
        if not all(result.is_done for result in of_chunk):
            break
        whole.append(chunk)
        done += of_chunk
    if not whole:
        raise AssertionError(f"{plan.location}: the first chunk is always completed")
    rest = plan.chunks[len(whole) :]
    joined = _join_chunks(plan, tuple(whole))
    remainder = Remainder(
        deltas=sum(len(chunk.inputs) for chunk in rest) + plan.left.deltas,
        bytes=sum(chunk.input_bytes for chunk in rest) + plan.left.bytes,
        because=plan.left.because or "compactor.max.time",
        again=True,
    )
    return replace(joined, highest_write_id=min(plan.highest_write_id, joined.highest_write_id), left=remainder), done


def must_fit(whole: Plan, what: str, bound: Bound) -> Plan:
    """Checks that a compaction that cannot be divided reads no more than the bound.

    ``what`` names it in the message.

    Raises:
        Refused: it reads more than the bound.
    """
    if bound.bytes is not None and whole.input_bytes > bound.bytes:
        raise _too_large(whole, what, bound)
    return whole


def _too_large(whole: Plan, what: str, bound: Bound, needed: int | None = None) -> Refused:
    """Returns the refusal of a compaction that does not fit the bound."""
    needed = needed or whole.input_bytes
    return Refused(
        f"{whole.location}: {what} reads {needed} bytes, more than {_MAX_BYTES} {bound.bytes}; raise it to {needed} or more"
    )


def _too_little(directory: AcidDirectory, shape: Shape, bound: Bound, whole: Plan) -> Refused:
    if shape is Shape.MAJOR:
        return _too_large(whole, "a major compaction, which has no deltas to merge before,", bound)
    neighbours = [size((*a, *b)) for a, b in pairwise(_groups(directory.compactable()))]
    return _too_large(whole, "even the smallest two neighbouring deltas", bound, min(neighbours, default=None))


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
