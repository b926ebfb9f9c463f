"""Runs the tasks of a split unit: encode tasks, and one task that concatenates their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count, zip_longest
from typing import TypeAlias

from compactor.acid.names import DeltaKind
from compactor.base.errors import VerificationFailed
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource, crc32
from compactor.rewrite.full_acid.concatenate import EncodedFile, concatenate, encode_stripes
from compactor.rewrite.full_acid.delete_events import Deletes, load_delete_events
from compactor.rewrite.full_acid.output_format import output_of
from compactor.rewrite.full_acid.split import (
    AssembleTask,
    ChoiceValue,
    EncodeTask,
    EncodeTaskResult,
    ReopenedInputs,
    choice_value,
    reopened_inputs,
)
from compactor.rewrite.full_acid.stripe_choice import Choice
from compactor.rewrite.full_acid.verify import verify_source
from compactor.rewrite.plan.unit import Output, Shape, Unit, UnitResult
from compactor.rows.new_file import NewFileTarget
from compactor.rows.remote_source import RemoteSource, open_source
from compactor.storage.protocol import Storage

HandOver: TypeAlias = Callable[..., tuple[Output, ...]]  #: hands finished files over to the table's store


def rows_target(unit: Unit, storage: Storage, folder: str) -> NewFileTarget:
    """Returns the target in the local directory ``folder`` for the rows of a unit."""
    path = os.path.join(folder, "rows")
    return NewFileTarget(storage=storage, home=unit.staging, path=path, sees_all=unit.full_verify)


def run_encode_task(task: EncodeTask, storage: Storage, folder: str, hand_over: HandOver) -> EncodeTaskResult:
    """Writes the kept rows of the task's stripes into ``folder``, in one or several files per run.

    Raises:
        UnforeseenKeys: the keys of a stripe differ from the statistics by which it was chosen.
        BadFile: an input cannot be read.
        NotLossless: something would be lost.
        VerificationFailed: the written rows differ from the rows that were read.
    """
    names = count()
    with reopened_inputs(storage) as files:
        return EncodeTaskResult(
            runs=tuple(
                tuple(
                    choice_value(part) if isinstance(part, Choice) else hand_over(_output(task, part))[0]
                    for part in encode_stripes(
                        [files.choice(choice) for choice in run],
                        lambda: os.path.join(folder, f"part{next(names)}"),
                        like=task.like,
                        types=task.types,
                        full=task.unit.full_verify,
                    )
                )
                for run in task.runs
            )
        )


def _output(task: EncodeTask, path: str) -> Output:
    with LocalSource(path) as source:
        return Output(
            kind=DeltaKind.INSERT,
            path=path,
            number=task.unit.number,
            rows=read_tail(source).rows,
            length=source.length,
            crc32=crc32(source, 0, source.length),
        )


def run_assemble_task(task: AssembleTask, storage: Storage, folder: str, hand_over: HandOver) -> UnitResult:
    """Writes the unit's rows into the local directory ``folder``, and proves them.

    Raises:
        BadFile: an input cannot be read.
        VerificationFailed: a check of the output fails.
    """
    unit, target = task.unit, rows_target(task.unit, storage, folder)
    with reopened_inputs(storage) as files:
        file = concatenate(
            _parts(task, files, storage),
            target,
            like=task.like,
            types=task.types,
            version=unit.acid_version,
            full=unit.full_verify,
        )
        with closing(file.reading()) as source:
            tail = verify_source(
                source,
                file.last_keys,
                rows=task.figures.rows_out,
                full=unit.full_verify,
                deletes=_load_applied(task, storage, folder),
            )
    known = tail if unit.shape is Shape.MAJOR else None
    output = output_of(DeltaKind.INSERT, target.path, unit.number, file.written, file.ranges, known)
    figures = task.figures + file.figures(task.stripes, output)
    return UnitResult(number=unit.number, outputs=(*hand_over(output), *task.outputs), figures=figures)


def _parts(task: AssembleTask, files: ReopenedInputs, storage: Storage) -> Iterator[Choice | EncodedFile]:
    runs = [run for encoded in task.encoded for run in encoded.runs]
    for copies, run in zip_longest(task.copies, runs, fillvalue=()):
        for part in (*copies, *run):
            if isinstance(part, ChoiceValue):
                yield files.choice(part)
            else:
                yield EncodedFile(opener=partial(_open_part, storage, part))


def _open_part(storage: Storage, part: Output) -> LocalSource | RemoteSource:
    source = open_source(storage, part.path)
    if source.length != part.length:
        raise VerificationFailed(
            f"{part.path}: has {source.length} bytes, {part.length} were written; nothing was changed, request it again"
        )
    return source


def _load_applied(task: AssembleTask, storage: Storage, folder: str) -> Deletes | None:
    """Returns the delete events that must not hit a row of the output.

    Returns None unless the verification is full.
    """
    unit = task.unit
    if unit.version_1 or not unit.full_verify:
        return None
    events = load_delete_events(unit.location, unit.deletes, unit.number, unit.write_ids, folder, storage).events
    return events.split(unit.applies_from)[1]
