"""Rewrites one unit of a full ACID table: keeps or applies delete events.

Copies, re-encodes or merges stripes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TypeVar

from compactor.acid.names import DeltaKind
from compactor.base.errors import NotLossless
from compactor.orc.format.java_zones import UTC_NAME
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import Types
from compactor.orc.io.source import LocalSource
from compactor.orc.pieces import Piece, common_zone
from compactor.orc.reencode import reencode
from compactor.rewrite.full_acid.concatenate import (
    Concatenated,
    EncodedFile,
    concatenate,
    encode_apart,
    encode_stripes,
)
from compactor.rewrite.full_acid.delete_events import LoadedEvents, SortedEvents, load_delete_events
from compactor.rewrite.full_acid.hive2_events import load_changes, mark_superseded_by
from compactor.rewrite.full_acid.merge import MergeRun, merge_runs
from compactor.rewrite.full_acid.output_format import (
    fit_to_zones,
    new_tail,
    output_of,
    output_types,
    piece_of,
    template_of,
    with_common_filters,
)
from compactor.rewrite.full_acid.split import SplitUnit, needs_split, split_unit
from compactor.rewrite.full_acid.split_tasks import HandOver, rows_target
from compactor.rewrite.full_acid.stripe_choice import (
    Action,
    Choice,
    SupersededRows,
    choose_actions,
    fit_to_class,
    in_order,
    target_tail,
)
from compactor.rewrite.full_acid.verify import check_same_events, check_same_rows, verify_file, verify_source
from compactor.rewrite.plan.unit import Figures, Output, Shape, Unit, UnitResult
from compactor.rows.acid_file import AcidFile, open_files
from compactor.rows.delete_files import visible_events, write_events
from compactor.rows.new_file import NewFileTarget, OutputMetadata, written_file
from compactor.storage.protocol import Storage

Result = TypeVar("Result", UnitResult, SplitUnit, UnitResult | SplitUnit)


def rewrite_full_acid(unit: Unit, storage: Storage, folder: str, hand_over: HandOver) -> UnitResult | SplitUnit:
    """Writes the unit's rows, and a minor's remaining delete events, into ``folder``, and proves them.

    If the unit is too much for one task, writes only its delete events and returns it split.

    Raises:
        UnforeseenKeys: the keys of a stripe differ from its statistics.
        BadFile: an input cannot be read.
        NotLossless: something would be lost.
        VerificationFailed: a check of an output fails.
    """
    # 1. Split the delete events: a minor keeps those for older rows and applies the others.
    events = load_delete_events(unit.location, unit.deletes, unit.number, unit.write_ids, folder, storage)
    with open_files(unit.location, unit.inserts, unit.number, storage, zone=unit.default_zone) as files:
        kept, applied = events.events.split(unit.applies_from)
        is_minor = unit.shape is Shape.MINOR
        written_events: tuple[Output, ...] = ()
        if is_minor and len(kept):
            types = output_types(unit, files, events)
            written_events = (_write_kept(unit, kept, types, files, events, os.path.join(folder, "events")),)
        if unit.full_verify:
            read = visible_events(unit.location, unit.deletes, unit.number, unit.write_ids, storage)
            check_same_events(read, unit.applies_from, next((o.path for o in written_events), None), applied)
        outputs = hand_over(*written_events)
        result = _write_rows(unit, files, applied, rows_target(unit, storage, folder))
    return _hand_over_outputs(result, hand_over).plus(
        outputs,
        Figures(
            events_in=events.total,
            events_invisible=events.invisible,
            events_applied=len(applied) if is_minor else 0,
            events_out=sum(o.rows for o in outputs),
            files_in=len(unit.inserts) + len(unit.deletes),
            files_out=len(outputs),
            bytes_in=unit.input_bytes,
            bytes_out=sum(o.length for o in outputs),
        ),
    )


def rewrite_hive2(unit: Unit, storage: Storage, folder: str, hand_over: HandOver) -> UnitResult | SplitUnit:
    """Writes a major over Hive 2's files, in which the newest event of a key counts.

    See ``rewrite_full_acid``.
    """
    changed = load_changes(unit, folder, storage)
    with open_files(
        unit.location, unit.inserts, unit.number, storage, plain_buckets=True, zone=unit.default_zone
    ) as files:
        result = _write_rows(unit, files, changed, rows_target(unit, storage, folder), mark_superseded_by(changed))
    figures = Figures(files_in=len(unit.inserts) + len(unit.deletes), bytes_in=unit.input_bytes)
    return _hand_over_outputs(result, hand_over).plus((), figures)


def _hand_over_outputs(result: Result, hand_over: HandOver) -> Result:
    return replace(result, outputs=hand_over(*result.outputs)) if isinstance(result, UnitResult) else result


def _write_rows(
    unit: Unit,
    files: Sequence[AcidFile],
    deletes: SortedEvents,
    target: NewFileTarget,
    superseded: SupersededRows | None = None,
) -> UnitResult | SplitUnit:
    # 1. Decide what happens to each stripe.
    choices = choose_actions(files, deletes, unit.write_ids, look_always=unit.looks_always, superseded=superseded)
    types = output_types(unit, files)
    dropped = sum(c.action is Action.DROP for c in choices)
    figures = Figures(
        rows_in=sum(c.rows for c in choices),
        rows_deleted=sum(c.deleted for c in choices),
        rows_invisible=sum(c.invisible for c in choices),
        rows_out=sum(c.kept for c in choices),
        stripes_dropped=dropped,
    )
    if figures.rows_out == 0:
        return UnitResult(number=unit.number, outputs=(), figures=figures)
    # 2. Write: stripes in key order are concatenated, others are merged row by row.
    if in_order(choices):
        like = target_tail(choices, types, unit.output_class)
        final = fit_to_class(choices, like, unit.small_stripe_bytes, unit.output_class)
        final = fit_to_zones(final)
        like = replace(like or template_of(choices, types, unit.output_class), requested_class=unit.output_class)
        like = with_common_filters(like, final, types)
        if needs_split(unit, final):
            return split_unit(unit, final, like, types, figures)
        file = _concatenate_stripes(unit, final, like, types, target)
    else:
        like = template_of(choices, types, unit.output_class)
        like = with_common_filters(like, [c._replace(action=Action.ENCODE) for c in choices if c.kept], types)
        file = _merge_files(unit, choices, like, types, target.path)
    # 3. Prove the file.
    with closing(file.reading()) as source:
        tail = verify_source(
            source,
            file.last_keys,
            rows=figures.rows_out,
            full=unit.full_verify,
            deletes=None if superseded else deletes,
        )
    known = tail if unit.shape is Shape.MAJOR else None
    output = output_of(DeltaKind.INSERT, target.path, unit.number, file.written, file.ranges, known)
    return UnitResult(
        number=unit.number, outputs=(output,), figures=figures + file.figures(len(choices) - dropped, output)
    )


def _concatenate_stripes(
    unit: Unit, choices: Sequence[Choice], like: Tail, types: Types, target: NewFileTarget
) -> Concatenated:
    """Writes all stripes in this task.

    Re-encoded stripes go through separate files and then into the output as copies, unless nothing else is copied.
    """
    encode = encode_stripes
    if all(c.action is Action.ENCODE for c in choices):
        try:
            return _encode_all(unit, choices, like, types, target.path)
        except NotLossless:  # some stripes may have to be copied after all
            if not any(c.is_only_small for c in choices):
                raise
            encode = encode_apart
    part_paths: list[str] = []

    def new_path() -> str:
        part_paths.append(f"{target.path}.part{len(part_paths)}")
        return part_paths[-1]

    def parts() -> Iterator[Choice | EncodedFile]:
        for encodes, run in groupby(choices, key=lambda c: c.action is Action.ENCODE):
            if not encodes:
                yield from run
                continue
            for part in encode(list(run), new_path, like=like, types=types, full=unit.full_verify):
                yield part if isinstance(part, Choice) else EncodedFile(opener=partial(LocalSource, part))

    try:
        return concatenate(parts(), target, like=like, types=types, version=unit.acid_version, full=unit.full_verify)
    finally:
        for part in part_paths:
            with suppress(FileNotFoundError):  # this run could not be encoded
                os.unlink(part)


def _merge_files(unit: Unit, choices: Sequence[Choice], like: Tail, types: Types, path: str) -> Concatenated:
    """Writes the rows of overlapping inputs in key order.

    If times count in different zones, they become the local times that the clocks of their zones showed.
    """
    files = [list(of_file) for _, of_file in groupby(choices, key=lambda c: id(c.file))]
    runs = [
        MergeRun(pieces=[piece_of(c) for c in of_file if c.action is not Action.DROP], is_sorted=in_order(of_file))
        for of_file in files
    ]
    if common_zone(piece for run in runs for piece in run.pieces) is None:
        runs = [replace(run, pieces=[piece._replace(to_zone=UTC_NAME) for piece in run.pieces]) for run in runs]
    pieces = [piece for run in runs for piece in run.pieces]
    encode = partial(merge_runs, [run for run in runs if run.pieces], path, like=like, types=types)
    return _encode_with_metadata(unit, pieces, types, path, encode)


def _encode_all(unit: Unit, choices: Sequence[Choice], like: Tail, types: Types, path: str) -> Concatenated:
    """Writes stripes that are all re-encoded and follow each other in key order."""
    pieces = [piece_of(c) for c in choices]
    return _encode_with_metadata(unit, pieces, types, path, partial(reencode, pieces, path, like=like, types=types))


def _encode_with_metadata(
    unit: Unit, pieces: Sequence[Piece], types: Types, path: str, encode: Callable[..., Tail]
) -> Concatenated:
    """Runs ``encode``, which writes ``pieces`` to ``path``, with an argument ``metadata``."""
    output_metadata = OutputMetadata(version=unit.acid_version)
    tail = encode(metadata=output_metadata.compute)
    if unit.full_verify:
        check_same_rows(pieces, path, types)
    return Concatenated(
        written=written_file(path, tail),
        last_keys=output_metadata.last_keys,
        copied=[],
        reading=partial(LocalSource, path),
    )


def _write_kept(
    unit: Unit,
    events: SortedEvents,
    types: Types,
    files: Sequence[AcidFile],
    loaded: LoadedEvents,
    path: str,
) -> Output:
    like, output_metadata = (
        new_tail(loaded.like or files[0].tail, types, unit.output_class),
        OutputMetadata(deletes=True),
    )
    written = write_events(events, path, like=like, types=types, output_metadata=output_metadata)
    verify_file(path, output_metadata.last_keys, rows=len(events), full=False, deletes=None)  # keys may occur twice
    return output_of(DeltaKind.DELETE, path, unit.number, written)
