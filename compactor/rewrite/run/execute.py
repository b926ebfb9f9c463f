"""Runs one task: mostly a unit, whose files of one file number it makes into what a compaction makes of them.

Called in this process or on an executor; knows files only. Attempt files bear a unique name, so that a late attempt
touches nothing that is published (DESIGN 4).
"""

from __future__ import annotations

import logging
import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TypeAlias, TypeVar

from compactor.acid.names import DeltaKind
from compactor.errors import CompactorError, NotLossless, StorageError, Unforeseen, UnforeseenKeys
from compactor.orc.codecs.allocator import keep_freed_memory
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import Types
from compactor.orc.io.source import LocalSource
from compactor.orc.reencode import Piece, reencode
from compactor.rewrite.full_acid.concatenate import Encoded, Strung, apart, encoded, string_together
from compactor.rewrite.full_acid.content import same_events, same_rows
from compactor.rewrite.full_acid.delete_events import LoadedEvents, SortedEvents, load
from compactor.rewrite.full_acid.hive2_events import gone_by, load_changes
from compactor.rewrite.full_acid.merge import MergeRun, merge
from compactor.rewrite.full_acid.outputs import like_of, new_tail, output_of, output_types, piece_of
from compactor.rewrite.full_acid.rebalance import rebalance
from compactor.rewrite.full_acid.split import Assembly, Division, EncodedSection, Section, divide, is_too_much
from compactor.rewrite.full_acid.split_tasks import assemble, encode_section
from compactor.rewrite.full_acid.stripe_choice import Action, Choice, Gone, choose, fit, in_order, target_tail
from compactor.rewrite.full_acid.verify import verify
from compactor.rewrite.insert_only.unit import execute_insert_only
from compactor.rewrite.plan.unit import Figures, Output, Shape, Unit, UnitResult
from compactor.rewrite.run.attempts import attempt_folder, handed_over
from compactor.rewrite.run.failure import Failure
from compactor.rows.acid_file import AcidFile, open_files
from compactor.rows.delete_files import visible_events, write_events
from compactor.rows.sealing import Seal, written
from compactor.steps import Step, reach
from compactor.storage.options import StoreOptions
from compactor.storage.protocol import Storage
from compactor.storage.stores import opened

log = logging.getLogger(__name__)
Work: TypeAlias = Unit | Section | Assembly
Made: TypeAlias = UnitResult | Division | EncodedSection
Hand: TypeAlias = Callable[..., tuple[Output, ...]]
Done = TypeVar("Done", UnitResult, Division, UnitResult | Division)


def attempt(work: Work) -> Made | Failure:
    """``attempt_all`` of a single task."""
    return attempt_all([work])[0]


def attempt_all(works: Sequence[Work]) -> list[Made | Failure]:
    """``perform`` for executors: an error comes back as a value, so that the other tasks go on. One that is not of the tree
    is the task's all the same: what its files hold made a library or us stumble, and would again in every pass.

    What the tasks of a parcel have written becomes durable together, before anybody hears of it.
    """
    keep_freed_memory()
    made = [_attempted(work) for work in works]
    written: dict[StoreOptions, list[str]] = defaultdict(list)
    for work, one in zip(works, made, strict=True):
        written[(work if isinstance(work, Unit) else work.unit).stores] += [output.path for output in _outputs(one)]
    failed: dict[str, StorageError] = {}
    for stores, paths in written.items():
        failed |= opened(stores).sync(paths)
    return [
        next((_failure(failed[output.path]) for output in _outputs(one) if output.path in failed), one) for one in made
    ]


def _attempted(work: Work) -> Made | Failure:
    try:
        return perform(work)
    except CompactorError as error:
        return _failure(error)
    except Exception as error:  # whatever it is, it must not keep others from being compacted
        unit = work if isinstance(work, Unit) else work.unit
        log.exception("%s, file number %d: an unforeseen error", unit.location, unit.number)
        return _failure(
            Unforeseen(
                f"{unit.location}, file number {unit.number}: {type(error).__name__}: {error}; nobody foresaw that, nothing "
                "was changed; please report it with the trace in the worker's log"
            )
        )


def _failure(error: CompactorError) -> Failure:
    return Failure(kind=type(error).__name__, message=str(error))


def _outputs(made: Made | Failure) -> tuple[Output, ...]:
    """The files that are to stay; those of a section are read once more and then removed."""
    done = made.assembly if isinstance(made, Division) else made
    return tuple(o for o in done.outputs if o.upload is None) if isinstance(done, Assembly | UnitResult) else ()


def perform(work: Work) -> Made:
    """Writes the task's outputs as attempt files, not yet durable, and proves them. A unit that is too much for one task
    becomes several. One that meets keys which statistics did not foresee starts anew and reads all of them.

    Raises:
        UnforeseenKeys: a section met such keys; its unit must start anew.
        BadFile: an input cannot be read.
        NotLossless: something would be lost.
        VerificationFailed: an output is not what it must be.
        StorageError: an output cannot be written.
    """
    try:
        return _performed(work)
    except UnforeseenKeys as error:
        if not isinstance(work, Unit):
            raise
        log.warning("all keys are read: %s", error)
    return _performed(replace(work, reads_keys=True))


def _performed(work: Work) -> Made:
    unit = work if isinstance(work, Unit) else work.unit
    storage = opened(unit.stores)
    home = os.path.join(unit.staging, "attempts", f"{unit.number:05d}-{uuid.uuid4().hex}")

    def hand(*outputs: Output) -> tuple[Output, ...]:
        final = {} if isinstance(work, Section) else dict(unit.final)  # a section's is not yet what is named
        return handed_over(storage, outputs, home, full=unit.full_verify, final=final)

    try:
        with attempt_folder(storage, home) as folder:
            reach(Step.ATTEMPT_STARTED)
            if isinstance(work, Section):
                made: Made = encode_section(work, storage, folder, hand)
            elif isinstance(work, Assembly):
                made = assemble(work, storage, folder, hand)
            else:
                made = _attempt(work, storage, folder, hand)
            reach(Step.ATTEMPT_WRITTEN)
    except OSError as error:  # of the codecs, which write by themselves; reading says BadFile
        raise StorageError(
            f"{home}: cannot be written: {error.strerror or error}; see to the disk and its permissions, then ask again"
        ) from error
    return made


def _attempt(unit: Unit, storage: Storage, folder: str, hand: Hand) -> UnitResult | Division:
    rows = os.path.join(folder, "rows")
    if unit.rebalance is not None:
        return _handed(rebalance(unit, unit.rebalance, storage, folder), hand)
    if unit.file_format is not None:
        return _handed(execute_insert_only(unit, storage, rows), hand)
    if unit.version_1:
        return _collapsed(unit, storage, folder, hand)
    events = load(unit.location, unit.deletes, unit.number, unit.write_ids, folder, storage)
    with open_files(unit.location, unit.inserts, unit.number, storage) as files:
        kept, applied = events.events.split(unit.applies_from)
        is_minor = unit.shape is Shape.MINOR
        written_events: tuple[Output, ...] = ()
        if is_minor and len(kept):
            types = output_types(unit, files, events)
            written_events = (_write_kept(unit, kept, types, files, events, os.path.join(folder, "events")),)
        if unit.full_verify:
            read = visible_events(unit.location, unit.deletes, unit.number, unit.write_ids, storage)
            same_events(read, unit.applies_from, next((o.path for o in written_events), None), applied)
        outputs = hand(*written_events)
        done = _write_rows(unit, files, applied, rows)
    return _handed(done, hand).besides(
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


def _collapsed(unit: Unit, storage: Storage, folder: str, hand: Hand) -> UnitResult | Division:
    """A major over Hive 2's files: of the events of a key the newest one counts."""
    changed = load_changes(unit, folder, storage)
    with open_files(unit.location, unit.inserts, unit.number, storage, plain_buckets=True) as files:
        done = _write_rows(unit, files, changed, os.path.join(folder, "rows"), gone_by(changed))
    figures = Figures(files_in=len(unit.inserts) + len(unit.deletes), bytes_in=unit.input_bytes)
    return _handed(done, hand).besides((), figures)


def _handed(done: Done, hand: Hand) -> Done:
    return replace(done, outputs=hand(*done.outputs)) if isinstance(done, UnitResult) else done


def _write_rows(
    unit: Unit, files: Sequence[AcidFile], deletes: SortedEvents, path: str, gone: Gone | None = None
) -> UnitResult | Division:
    choices = choose(files, deletes, unit.write_ids, look_always=unit.looks_always, gone=gone)
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
    if in_order(choices):
        like = target_tail(choices, types)
        final = fit(choices, like, unit.small_stripe_bytes)
        like = like or like_of(choices, types)
        if is_too_much(unit, final):
            return divide(unit, final, like, types, figures)
        strung = _in_place(unit, final, like, types, path)
    else:
        strung = _merged(unit, choices, like_of(choices, types), types, path)
    verify(path, strung.last_keys, rows=figures.rows_out, full=unit.full_verify, deletes=None if gone else deletes)
    output = output_of(DeltaKind.INSERT, path, unit.number, strung.written)
    return UnitResult(
        number=unit.number, outputs=(output,), figures=figures + strung.figures(len(choices) - dropped, output)
    )


def _in_place(unit: Unit, choices: Sequence[Choice], like: Tail, types: Types, path: str) -> Strung:
    """All in this task: re-encoded stripes go through files of their own, and then into the output as copies, unless it
    holds no others."""
    encode = encoded
    if all(c.action is Action.ENCODE for c in choices):
        try:
            return _without_copies(unit, choices, like, types, path)
        except NotLossless:  # some may have to be copied after all
            if not any(c.is_only_small for c in choices):
                raise
            encode = apart
    made: list[str] = []

    def new_path() -> str:
        made.append(f"{path}.part{len(made)}")
        return made[-1]

    def parts() -> Iterator[Choice | Encoded]:
        for encodes, run in groupby(choices, key=lambda c: c.action is Action.ENCODE):
            if not encodes:
                yield from run
                continue
            for part in encode(list(run), new_path, like=like, types=types, full=unit.full_verify):
                yield part if isinstance(part, Choice) else Encoded(opener=partial(LocalSource, part))

    try:
        return string_together(parts(), path, like=like, types=types, version=unit.acid_version, full=unit.full_verify)
    finally:
        for part in made:
            with suppress(FileNotFoundError):  # of a run that could not be encoded
                os.unlink(part)


def _merged(unit: Unit, choices: Sequence[Choice], like: Tail, types: Types, path: str) -> Strung:
    """Rows in key order where the inputs don't follow each other."""
    files = [list(of_file) for _, of_file in groupby(choices, key=lambda c: id(c.file))]
    runs = [
        MergeRun(pieces=[piece_of(c) for c in of_file if c.action is not Action.DROP], is_sorted=in_order(of_file))
        for of_file in files
    ]
    pieces = [piece for run in runs for piece in run.pieces]
    encode = partial(merge, [run for run in runs if run.pieces], path, like=like, types=types)
    return _sealed(unit, pieces, types, path, encode)


def _without_copies(unit: Unit, choices: Sequence[Choice], like: Tail, types: Types, path: str) -> Strung:
    """Rows that follow each other, none of whose stripes stay."""
    pieces = [piece_of(c) for c in choices]
    return _sealed(unit, pieces, types, path, partial(reencode, pieces, path, like=like, types=types))


def _sealed(unit: Unit, pieces: Sequence[Piece], types: Types, path: str, encode: Callable[..., Tail]) -> Strung:
    """What ``encode`` makes of ``pieces`` at ``path``, which it asks for its ``metadata``."""
    seal = Seal(version=unit.acid_version)
    tail = encode(metadata=seal.metadata)
    if unit.full_verify:
        same_rows(pieces, path, types)
    return Strung(written=written(path, tail), last_keys=seal.last_keys, copied=[])


def _write_kept(
    unit: Unit,
    events: SortedEvents,
    types: Types,
    files: Sequence[AcidFile],
    loaded: LoadedEvents,
    path: str,
) -> Output:
    like, seal = new_tail(loaded.like or files[0].tail, types), Seal(deletes=True)
    made = write_events(events, path, like=like, types=types, seal=seal)
    verify(path, seal.last_keys, rows=len(events), full=False, deletes=None)  # keys may occur twice
    return output_of(DeltaKind.DELETE, path, unit.number, made)
