"""Concatenates copied stripes of inputs and re-encoded stripes in one file (DESIGN 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from compactor.acid.bucket import RowId
from compactor.acid.names import ACID_VERSION
from compactor.base.errors import NotLossless
from compactor.orc.assembler import Assembler, WrittenFile
from compactor.orc.format.acid_metadata import KEY_INDEX, parse_key_index, user_metadata
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.types import Types
from compactor.orc.io.file_pool import Closable, FilePool
from compactor.orc.io.source import Source
from compactor.orc.reencode import reencode
from compactor.rewrite.full_acid.output_format import piece_of
from compactor.rewrite.full_acid.stripe_choice import Choice
from compactor.rewrite.full_acid.verify import check_same_bytes, check_same_rows
from compactor.rewrite.plan.unit import Figures, Output
from compactor.rows.new_file import NewFileTarget, OutputMetadata
from compactor.storage.capabilities import TakenRange


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFile:
    """A file whose stripes are all copied. ``opener`` opens it."""

    opener: Callable[[], Closable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concatenated:
    """A concatenated file. ``reading`` opens it as long as the inputs are open."""

    written: WrittenFile
    last_keys: list[RowId]  #: one for each stripe
    copied: list[Choice]  #: the stripes that were copied from inputs
    reading: Callable[[], Closable]
    ranges: tuple[TakenRange, ...] = ()  #: that the store will take over

    def figures(self, stripes: int, output: Output) -> Figures:
        """Returns the figures of the ``stripes`` stripes that became ``output``."""
        return Figures(
            stripes_copied=len(self.copied),
            stripes_encoded=stripes - len(self.copied),
            bytes_copied=sum(c.length for c in self.copied),
            bytes_taken_over=self.written.taken_over,
            files_out=1,
            bytes_out=output.length,
        )


def concatenate(
    parts: Iterable[Choice | EncodedFile],
    target: NewFileTarget,
    *,
    like: Tail,
    types: Types,
    version: bytes | None = ACID_VERSION,
    full: bool = False,
) -> Concatenated:
    """Writes stripes in the given order to a new file, with the metadata of insert events.

    Args:
        parts: a stripe of an input that is copied, or all stripes of a file from ``encode_stripes``.
        version: the ACID version in the metadata; None leaves it out.
        full: read every stripe back and compare it.

    Raises:
        VerificationFailed: (with ``full``) a stripe differs from its source.
    """
    last_keys: list[RowId] = []
    copied: list[Choice] = []
    stripes: list[tuple[Source, Tail, int]] = []
    with FilePool() as few:
        with target.sink() as sink, Assembler(sink, like=like, types=types, checksum=True) as assembler:
            for part in parts:
                if isinstance(part, Choice):
                    file = part.file
                    assembler.copy(file.source, file.tail, part.stripe)
                    assert part.last is not None
                    last_keys.append(part.last)
                    copied.append(part)
                    stripes.append((file.source, file.tail, part.stripe))
                else:
                    source = few.open(part.opener)
                    tail = read_tail(source)
                    assembler.append_file(source, tail)
                    last_keys += parse_key_index(tail.name, tail.user_metadata.get(KEY_INDEX, b""))
                    stripes += [(source, tail, number) for number in range(len(tail.stripes))]
            written = assembler.close(user_metadata(last_keys, inserts=assembler.rows, version=version))
        if full:
            check_same_bytes(stripes, target.path, for_orc_1_5=like.is_for_orc_1_5)
    return Concatenated(
        written=written, last_keys=last_keys, copied=copied, reading=sink.reading, ranges=tuple(sink.ranges)
    )


def encode_stripes(
    choices: Sequence[Choice], new_path: Callable[[], str], *, like: Tail, types: Types, full: bool = False
) -> Iterator[str | Choice]:
    """Re-encodes the kept rows of stripes.

    Yields the new files, and stripes that must be copied after all.

    The metadata of each file holds the last key of each stripe, so nobody needs to look for it.

    Args:
        full: decode all rows again and compare them.

    Raises:
        VerificationFailed: (with ``full``) a row differs.
        NotLossless: rows can neither be encoded without loss nor copied.
    """
    path = new_path()
    pieces = [piece_of(c) for c in choices]
    try:
        reencode(pieces, path, like=like, types=types, metadata=OutputMetadata().compute)
    except NotLossless:
        if not any(c.is_only_small for c in choices):
            raise
    else:
        if full:
            check_same_rows(pieces, path, types)
        yield path
        return
    yield from encode_apart(choices, new_path, like=like, types=types, full=full)


def encode_apart(
    choices: Sequence[Choice], new_path: Callable[[], str], *, like: Tail, types: Types, full: bool = False
) -> Iterator[str | Choice]:
    """Does the same for stripes that cannot be encoded together; copies the stripes that are only small."""
    for is_only_small, run in groupby(choices, key=lambda c: c.is_only_small):
        if is_only_small:
            yield from run
        else:
            yield from encode_stripes(list(run), new_path, like=like, types=types, full=full)
