"""Runs one unit: reads the files of one file number and writes what a compaction makes of them.

Called in this process or on an executor; knows files only. Attempt files bear a unique name, so that a late attempt
touches nothing that is published (DESIGN 4).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from compactor.acid.names import DeltaKind
from compactor.acid.row_id import RowId
from compactor.errors import CompactorError, NotLossless, StorageError
from compactor.ids import WriteId
from compactor.orc.acid_metadata import user_metadata
from compactor.orc.assembler import Assembler, Written
from compactor.orc.few_open import FewOpen
from compactor.orc.reencode import last_key, reencode
from compactor.orc.source import LocalSink, LocalSource
from compactor.orc.tail import Tail
from compactor.orc.types import Types
from compactor.rewrite.attempts import attempt_folder, handed_over
from compactor.rewrite.collapse import gone_by, load_changes
from compactor.rewrite.events import LoadedEvents, SortedEvents, load
from compactor.rewrite.failure import Failure
from compactor.rewrite.insert_only import execute_insert_only
from compactor.rewrite.merge import Run, merge
from compactor.rewrite.outputs import like_of, new_tail, output_of, output_types, piece_of
from compactor.rewrite.rebalance import rebalance
from compactor.rewrite.stripe_choice import Action, Choice, Gone, choose, fit, in_order, target_tail
from compactor.rewrite.unit import Figures, Output, Shape, Unit, UnitResult
from compactor.rewrite.verify import verify
from compactor.rows.acid_file import AcidFile, open_files
from compactor.rows.delete_files import write_events
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
    if unit.rebalance is not None:
        return rebalance(unit, unit.rebalance, storage, folder)
    if unit.file_format is not None:
        return execute_insert_only(unit, storage, os.path.join(folder, "rows"))
    if unit.version_1:
        return _collapsed(unit, storage, folder)
    events = load(unit.location, unit.deletes, unit.number, unit.write_ids, folder, storage)
    with open_files(unit.location, unit.inserts, unit.number, storage) as files:
        kept_events, applied = split(unit, events.events)
        rows = _write_rows(unit, files, applied, os.path.join(folder, "rows"))
        outputs = [] if rows.output is None else [rows.output]
        if unit.shape is Shape.MINOR and len(kept_events):
            types = output_types(unit, files, events)
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


def _collapsed(unit: Unit, storage: Storage, folder: str) -> UnitResult:
    """A major over Hive 2's files: of the events of a key the newest one counts."""
    changed = load_changes(unit, folder, storage)
    with open_files(unit.location, unit.inserts, unit.number, storage, plain_buckets=True) as files:
        rows = _write_rows(unit, files, changed, os.path.join(folder, "rows"), gone_by(changed))
    outputs = () if rows.output is None else (rows.output,)
    figures = rows.figures + Figures(
        files_in=len(unit.inserts) + len(unit.deletes),
        files_out=len(outputs),
        bytes_in=unit.input_bytes,
        bytes_out=sum(o.length for o in outputs),
    )
    return UnitResult(number=unit.number, outputs=outputs, figures=figures)


def split(unit: Unit, events: SortedEvents) -> tuple[SortedEvents, SortedEvents]:
    """Events that a minor must keep, and those to apply: a base can't hold rows of the range's own write IDs."""
    return events.split(FIRST_WRITE_ID if unit.shape is Shape.MAJOR else unit.first_write_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    output: Output | None
    figures: Figures


FIRST_WRITE_ID = WriteId(0)  #: of original rows; no event aims below it


def _write_rows(
    unit: Unit, files: Sequence[AcidFile], deletes: SortedEvents, path: str, gone: Gone | None = None
) -> _Rows:
    choices = choose(files, deletes, unit.write_ids, look_always=unit.full_verify, gone=gone)
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
        return _Rows(output=None, figures=figures)
    if in_order(choices):
        like = target_tail(choices, types)
        final = fit(choices, like, unit.small_stripe_bytes)
        like = like or like_of(choices, types)
        written, last_keys, copied = _string_together(final, like, types, path, unit.acid_version)
    else:
        copied = []
        written, last_keys = _merged(choices, like_of(choices, types), types, path, unit.acid_version)
    verify(path, last_keys, rows=figures.rows_out, full=unit.full_verify, deletes=None if gone else deletes)
    figures += Figures(
        stripes_copied=len(copied),
        stripes_encoded=len(choices) - dropped - len(copied),
        bytes_copied=sum(c.length for c in copied),
    )
    return _Rows(output=output_of(DeltaKind.INSERT, path, unit.number, written), figures=figures)


@dataclass(slots=True, kw_only=True, eq=False)
class _Strung:
    """An output that grows stripe by stripe."""

    assembler: Assembler
    like: Tail
    types: Types
    path: str
    last_keys: list[RowId] = field(default_factory=list)
    copied: list[Choice] = field(default_factory=list)
    few: FewOpen
    parts: list[str] = field(default_factory=list)

    def copy(self, choice: Choice) -> None:
        self.assembler.copy(choice.file.source, choice.file.tail, choice.stripe)
        assert choice.last is not None
        self.last_keys.append(choice.last)
        self.copied.append(choice)

    def encode(self, choices: Sequence[Choice]) -> None:
        """Rows of some stripes through a file of their own.

        Raises:
            NotLossless: something would be lost of rows that cannot be copied either.
        """
        part = f"{self.path}.part{len(self.parts)}"
        try:
            tail = reencode([piece_of(c) for c in choices], part, like=self.like, types=self.types)
        except NotLossless:
            if not any(c.is_only_small for c in choices):
                raise
            for is_only_small, run in groupby(choices, key=lambda c: c.is_only_small):
                if is_only_small:
                    for choice in run:
                        self.copy(choice)
                else:
                    self.encode(list(run))
            return
        self.parts.append(part)
        source = self.few.open(partial(LocalSource, part))
        self.assembler.append_file(source, tail)
        self.last_keys += [last_key(source, tail, stripe) for stripe in range(len(tail.stripes))]


def _string_together(
    choices: Sequence[Choice], like: Tail, types: Types, path: str, version: bytes | None
) -> tuple[Written, list[RowId], list[Choice]]:
    """Stripes one after another: copied as they are, re-encoded ones through a file of their own.

    Returns:
        the file, the last key of each of its stripes, and the stripes that were copied.
    """
    with (
        LocalSink(path) as sink,
        FewOpen() as few,
        Assembler(sink, like=like, types=types, checksum=True) as assembler,
    ):
        strung = _Strung(assembler=assembler, like=like, types=types, path=path, few=few)
        try:
            for encodes, run in groupby(choices, key=lambda c: c.action is Action.ENCODE):
                if encodes:
                    strung.encode(list(run))
                else:
                    for choice in run:
                        strung.copy(choice)
            written = assembler.close(user_metadata(strung.last_keys, inserts=assembler.rows, version=version))
        finally:
            for part in strung.parts:
                os.unlink(part)
    return written, strung.last_keys, strung.copied


def _merged(
    choices: Sequence[Choice], like: Tail, types: Types, path: str, version: bytes | None
) -> tuple[Written, list[RowId]]:
    """Rows in key order where the inputs don't follow each other."""
    files = [list(of_file) for _, of_file in groupby(choices, key=lambda c: id(c.file))]
    runs = [
        Run(pieces=[piece_of(c) for c in of_file if c.action is not Action.DROP], is_sorted=in_order(of_file))
        for of_file in files
    ]
    tail = merge([run for run in runs if run.pieces], path, like=like, types=types)
    return seal_rows(path, tail, like=like, types=types, version=version)


def _write_kept(
    unit: Unit,
    events: SortedEvents,
    types: Types,
    files: Sequence[AcidFile],
    loaded: LoadedEvents,
    path: str,
) -> Output:
    like = new_tail(loaded.like or files[0].tail, types)
    written = write_events(events, path, like=like, types=types)
    return output_of(DeltaKind.DELETE, path, unit.number, written)
