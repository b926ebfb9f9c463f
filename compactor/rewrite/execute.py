"""Runs one unit: reads the files of one file number and writes what a compaction makes of them.

Called in this process or on an executor; knows files only. Attempt files bear a unique name, so that a late attempt
touches nothing that is published (DESIGN 4).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from compactor.acid.names import DeltaKind
from compactor.acid.row_id import RowId
from compactor.errors import CompactorError, StorageError
from compactor.orc.acid_metadata import user_metadata
from compactor.orc.assembler import Assembler, Written
from compactor.orc.compat import target_of
from compactor.orc.reencode import Piece, SyntheticKeys, last_key, reencode
from compactor.orc.source import LocalSink, LocalSource
from compactor.orc.tail import Tail, empty_tail
from compactor.orc.types import Types, acid_types, parse_hive_type, row_types, same, widens
from compactor.rewrite.attempts import attempt_folder, handed_over
from compactor.rewrite.failure import Failure
from compactor.rewrite.merge import Run, merge
from compactor.rewrite.stripe_choice import Action, Choice, choose, fit, in_order, target_class
from compactor.rewrite.unit import Figures, Output, Shape, Unit, UnitResult
from compactor.rewrite.verify import verify
from compactor.rows.acid_file import AcidFile, open_files
from compactor.rows.delete_files import LoadedEvents, load_events, write_events
from compactor.rows.deletes import DeleteEvents
from compactor.rows.sealing import seal_rows
from compactor.steps import Step, reach
from compactor.storage.protocol import Storage
from compactor.storage.stores import opened


def attempt(unit: Unit) -> UnitResult | Failure:
    """``execute`` for executors: an error of the tree comes back as a value, anything else fails the task."""
    try:
        return execute(unit)
    except CompactorError as error:
        return Failure(kind=type(error).__name__, message=str(error))


def execute(unit: Unit) -> UnitResult:
    """Writes the unit's outputs as attempt files and proves them.

    Raises:
        BadFile: an input cannot be read.
        NotLossless: something would be lost.
        VerificationFailed: an output is not what it must be.
        StorageError: an output cannot be written.
    """
    storage = opened(unit.stores)
    home = os.path.join(unit.staging, "attempts", f"{unit.number:05d}-{uuid.uuid4().hex}")
    try:
        with attempt_folder(storage, home) as folder:
            reach(Step.ATTEMPT_STARTED)
            result = _attempt(unit, storage, folder)
            outputs = handed_over(storage, result.outputs, home, full=unit.full_verify)
            result = replace(result, outputs=outputs)
            reach(Step.ATTEMPT_WRITTEN)
    except OSError as error:  # of the codecs, which write by themselves; reading says BadFile
        raise StorageError(
            f"{home}: cannot be written: {error.strerror or error}; see to the disk and its permissions, then ask again"
        ) from error
    return result


def _attempt(unit: Unit, storage: Storage, folder: str) -> UnitResult:
    events = load_events(unit.location, unit.deletes, unit.number, unit.write_ids, storage)
    with open_files(unit.location, unit.inserts, unit.number, storage) as files:
        kept_events, applied = _split(unit, events.events)
        rows = _write_rows(unit, files, applied, os.path.join(folder, "rows"))
        outputs = [] if rows.output is None else [rows.output]
        if unit.shape is Shape.MINOR and len(kept_events):
            types = _types(unit, files, events)
            outputs.append(_write_kept(unit, kept_events, types, files, events, os.path.join(folder, "events")))
    figures = rows.figures + Figures(
        events_in=events.total,
        events_invisible=events.invisible,
        events_applied=len(applied) if unit.shape is Shape.MINOR else 0,
        events_out=len(kept_events) if unit.shape is Shape.MINOR else 0,
        files_in=len(unit.inserts) + len(unit.deletes),
        files_out=len(outputs),
        bytes_in=unit.input_bytes,
        bytes_out=sum(o.length for o in outputs),
    )
    return UnitResult(number=unit.number, outputs=tuple(outputs), figures=figures)


def _split(unit: Unit, events: DeleteEvents) -> tuple[DeleteEvents, DeleteEvents]:
    """Events that a minor must keep, and those to apply: a base can't hold rows of the range's own write IDs."""
    if unit.shape is Shape.MAJOR:
        return DeleteEvents.of(()), events
    return events.split(unit.first_write_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    output: Output | None
    figures: Figures


BLOCK_SIZE = 256 * 1024  #: of an output whose inputs are uncompressed


def _write_rows(unit: Unit, files: Sequence[AcidFile], deletes: DeleteEvents, path: str) -> _Rows:
    choices = choose(files, deletes, unit.write_ids, look_always=unit.full_verify)
    types = _types(unit, files, None)
    dropped = sum(c.action is Action.DROP for c in choices)
    figures = Figures(
        rows_in=sum(c.rows for c in choices),
        rows_deleted=sum(c.deleted for c in choices),
        rows_invisible=sum(c.invisible for c in choices),
        rows_out=sum(c.kept for c in choices),
        stripes_dropped=dropped,
    )
    if figures.rows_out == 0:
        return _Rows(output=None, figures=figures)
    if in_order(choices):
        target = target_class(c for c in choices if same(c.file.tail.types, types))
        final = fit(choices, target, unit.small_stripe_bytes)
        like = _like(final, types)
        written, last_keys = _string_together(final, like, types, path)
    else:
        final = []
        like = _like(choices, types)
        written, last_keys = _merged(choices, like, types, path)
    verify(path, last_keys, rows=figures.rows_out, full=unit.full_verify, deletes=deletes)
    copied = [c for c in final if c.action is Action.COPY]
    figures += Figures(
        stripes_copied=len(copied),
        stripes_encoded=len(choices) - dropped - len(copied),
        bytes_copied=sum(c.length for c in copied),
    )
    return _Rows(output=_output(unit, DeltaKind.INSERT, path, written), figures=figures)


def _types(unit: Unit, files: Sequence[AcidFile], events: LoadedEvents | None) -> Types:
    """The output's types: the inputs' own where all agree, else the table's, to which older files widen."""
    table = acid_types(parse_hive_type(unit.row_type))
    found = [acid_types(row_types(f.tail.types)) for f in files]
    if not found and events is not None and events.types is not None:
        found = [events.types]
    if found and all(same(t, found[0]) for t in found) and not _is_older(found[0], table):
        return _named(found, table)
    return table


def _is_older(found: Types, table: Types) -> bool:
    return not same(found, table) and widens(found, table)


def _named(found: Sequence[Types], table: Types) -> Types:
    """Equal types may differ in names (``_col0`` of old writers, lower case of query-based compactions): the table's
    names where the shape is the table's, else those of the newest file."""
    return table if same(found[0], table) else found[-1]


def _like(choices: Iterable[Choice], types: Types) -> Tail:
    """The tail whose class the output gets: that of the copied stripes, else of the largest file that may serve."""
    tails = [c.file.tail for c in choices if c.action is Action.COPY]
    if tails:
        return tails[0]
    best = max((c.file.tail for c in choices), key=lambda t: (t.row_index_stride > 0, t.length))
    return _new(best, types)


def _new(best: Tail, types: Types) -> Tail:
    """An empty file of the class that ``best`` has, or should have."""
    target = target_of(best)
    return empty_tail(
        types,
        compression=target.compression,
        compression_block_size=target.compression_block_size or BLOCK_SIZE,
        row_index_stride=target.row_index_stride,
        calendar=target.calendar,
    )


def _string_together(choices: Sequence[Choice], like: Tail, types: Types, path: str) -> tuple[Written, list[RowId]]:
    """Stripes one after another: copied as they are, re-encoded ones through a file of their own."""
    last_keys: list[RowId] = []
    with LocalSink(path) as sink:
        assembler = Assembler(sink, like=like, types=types, checksum=True)
        scratch: list[LocalSource] = []
        try:
            for encodes, run in groupby(choices, key=lambda c: c.action is Action.ENCODE):
                if not encodes:
                    for choice in run:
                        assembler.copy(choice.file.source, choice.file.tail, choice.stripe)
                        assert choice.last is not None
                        last_keys.append(choice.last)
                    continue
                part = f"{path}.part{len(scratch)}"
                tail = reencode([_piece(c) for c in run], part, like=like, types=types)
                source = LocalSource(part)
                scratch.append(source)
                assembler.append_file(source, tail)
                last_keys += [last_key(source, tail, stripe) for stripe in range(len(tail.stripes))]
            written = assembler.close(user_metadata(last_keys, inserts=assembler.rows))
        finally:
            for source in scratch:
                source.close()
                os.unlink(source.name)
    return written, last_keys


def _piece(choice: Choice) -> Piece:
    file = choice.file
    original = None
    if file.is_raw:
        first = file.first_row_id + file.first_row_of(choice.stripe)
        original = SyntheticKeys(write_id=file.write_id, bucket=file.bucket, first_row_id=first)
    return Piece(source=file.source, tail=file.tail, stripe_index=choice.stripe, keep=choice.keep, original=original)


def _merged(choices: Sequence[Choice], like: Tail, types: Types, path: str) -> tuple[Written, list[RowId]]:
    """Rows in key order where the inputs don't follow each other."""
    files = [list(of_file) for _, of_file in groupby(choices, key=lambda c: id(c.file))]
    runs = [
        Run(pieces=[_piece(c) for c in of_file if c.action is not Action.DROP], is_sorted=in_order(of_file))
        for of_file in files
    ]
    tail = merge([run for run in runs if run.pieces], path, like=like, types=types)
    return seal_rows(path, tail, like=like, types=types)


def _write_kept(
    unit: Unit,
    events: DeleteEvents,
    types: Types,
    files: Sequence[AcidFile],
    loaded: LoadedEvents,
    path: str,
) -> Output:
    like = _new([*loaded.tails, *(f.tail for f in files)][0], types)
    written = write_events(events, path, like=like, types=types)
    return _output(unit, DeltaKind.DELETE, path, written)


def _output(unit: Unit, kind: DeltaKind, path: str, written: Written) -> Output:
    assert written.checksum is not None
    return Output(
        kind=kind, path=path, number=unit.number, rows=written.rows, length=written.length, crc32=written.checksum
    )
