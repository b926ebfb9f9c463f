"""The tasks of a divided unit: sections are re-encoded wherever there is room, then strung together by copying."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, zip_longest
from typing import TypeAlias

from compactor.acid.names import DeltaKind
from compactor.errors import VerificationFailed
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource, crc32
from compactor.rewrite.full_acid.concatenate import Encoded, encoded, string_together
from compactor.rewrite.full_acid.delete_events import Deletes, load
from compactor.rewrite.full_acid.outputs import output_of
from compactor.rewrite.full_acid.split import Assembly, Chosen, EncodedSection, Reopened, Section, reopened, value_of
from compactor.rewrite.full_acid.stripe_choice import Choice
from compactor.rewrite.full_acid.verify import verify
from compactor.rewrite.plan.unit import Output, UnitResult
from compactor.rows.opening import RemoteSource, open_source
from compactor.storage.protocol import Storage

Hand: TypeAlias = Callable[[Output], tuple[Output, ...]]  #: gives finished files to the table's store


def encode_section(section: Section, storage: Storage, folder: str, hand: Hand) -> EncodedSection:
    """Writes what stays of the section's stripes into ``folder``, a local directory: by run one file or several.

    Raises:
        UnforeseenKeys: the section's stripes were chosen by statistics, and their keys are others.
        BadFile: an input cannot be read.
        NotLossless: something would be lost.
        VerificationFailed: what was written is not what was read.
    """
    names = count()
    with reopened(storage) as files:
        return EncodedSection(
            runs=tuple(
                tuple(
                    value_of(made) if isinstance(made, Choice) else hand(_output(section, made))[0]
                    for made in encoded(
                        [files.choice(chosen) for chosen in run],
                        lambda: os.path.join(folder, f"part{next(names)}"),
                        like=section.like,
                        types=section.types,
                        full=section.unit.full_verify,
                    )
                )
                for run in section.runs
            )
        )


def _output(section: Section, path: str) -> Output:
    with LocalSource(path) as source:
        return Output(
            kind=DeltaKind.INSERT,
            path=path,
            number=section.unit.number,
            rows=read_tail(source).rows,
            length=source.length,
            crc32=crc32(source, 0, source.length),
        )


def assemble(assembly: Assembly, storage: Storage, folder: str, hand: Hand) -> UnitResult:
    """Writes the unit's rows into ``folder``, a local directory, and proves them.

    Raises:
        BadFile: an input cannot be read.
        VerificationFailed: the output is not what it must be.
    """
    unit, path = assembly.unit, os.path.join(folder, "rows")
    with reopened(storage) as files:
        strung = string_together(
            _parts(assembly, files, storage),
            path,
            like=assembly.like,
            types=assembly.types,
            version=unit.acid_version,
            full=unit.full_verify,
        )
    verify(
        path,
        strung.last_keys,
        rows=assembly.figures.rows_out,
        full=unit.full_verify,
        deletes=_applied(assembly, storage, folder),
    )
    output = output_of(DeltaKind.INSERT, path, unit.number, strung.written)
    figures = assembly.figures + strung.figures(assembly.stripes, output)
    return UnitResult(number=unit.number, outputs=(*hand(output), *assembly.outputs), figures=figures)


def _parts(assembly: Assembly, files: Reopened, storage: Storage) -> Iterator[Choice | Encoded]:
    runs = [run for section in assembly.sections for run in section.runs]
    for copies, run in zip_longest(assembly.copies, runs, fillvalue=()):
        for part in (*copies, *run):
            if isinstance(part, Chosen):
                yield files.choice(part)
            else:
                yield Encoded(opener=partial(_opened, storage, part))


def _opened(storage: Storage, part: Output) -> LocalSource | RemoteSource:
    source = open_source(storage, part.path)
    if source.length != part.length:
        raise VerificationFailed(
            f"{part.path}: {source.length} bytes, {part.length} were written; nothing was changed, ask again"
        )
    return source


def _applied(assembly: Assembly, storage: Storage, folder: str) -> Deletes | None:
    """The delete events that no row of the output may meet; only a full proof asks for them."""
    unit = assembly.unit
    if unit.version_1 or not unit.full_verify:
        return None
    events = load(unit.location, unit.deletes, unit.number, unit.write_ids, folder, storage).events
    return events.split(unit.applies_from)[1]
