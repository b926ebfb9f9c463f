"""Stripes one after another in one file: copied as they are, re-encoded ones out of files of their own (DESIGN 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from compactor.acid.names import ACID_VERSION
from compactor.acid.row_id import RowId
from compactor.errors import NotLossless
from compactor.orc.assembler import Assembler, Written
from compactor.orc.format.acid_metadata import KEY_INDEX, last_keys_of, user_metadata
from compactor.orc.format.tail import Stripe, Tail, read_tail
from compactor.orc.format.types import Types
from compactor.orc.io.file_cache import Closable, FewOpen
from compactor.orc.io.source import LocalSink, Source
from compactor.orc.reencode import reencode
from compactor.rewrite.full_acid.content import same_bytes, same_rows
from compactor.rewrite.full_acid.outputs import piece_of
from compactor.rewrite.full_acid.stripe_choice import Choice
from compactor.rewrite.plan.unit import Figures, Output
from compactor.rows.sealing import Seal


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A file whose stripes are all taken; ``opener`` opens it."""

    opener: Callable[[], Closable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strung:
    """The file, the last key of each of its stripes, and the stripes that were copied from inputs."""

    written: Written
    last_keys: list[RowId]
    copied: list[Choice]

    def figures(self, stripes: int, output: Output) -> Figures:
        """What became of ``stripes`` stripes in ``output``."""
        return Figures(
            stripes_copied=len(self.copied),
            stripes_encoded=stripes - len(self.copied),
            bytes_copied=sum(c.length for c in self.copied),
            files_out=1,
            bytes_out=output.length,
        )


def string_together(
    parts: Iterable[Choice | Encoded],
    path: str,
    *,
    like: Tail,
    types: Types,
    version: bytes | None = ACID_VERSION,
    full: bool = False,
) -> Strung:
    """A file at ``path`` of these stripes, in this order; the metadata of inserts is computed from them.

    Args:
        parts: a stripe of an input that is copied, or all stripes of a file that ``encoded`` made.
        version: of ACID, what the metadata say; None says nothing.
        full: every stripe is read again and compared.

    Raises:
        VerificationFailed: (with ``full``) a stripe is another.
    """
    last_keys: list[RowId] = []
    copied: list[Choice] = []
    stripes: list[tuple[Source, Tail, Stripe]] = []
    with FewOpen() as few:
        with LocalSink(path, stays=True) as sink, Assembler(sink, like=like, types=types, checksum=True) as assembler:
            for part in parts:
                if isinstance(part, Choice):
                    file = part.file
                    assembler.copy(file.source, file.tail, part.stripe)
                    assert part.last is not None
                    last_keys.append(part.last)
                    copied.append(part)
                    stripes.append((file.source, file.tail, file.tail.stripes[part.stripe]))
                else:
                    source = few.open(part.opener)
                    tail = read_tail(source)
                    assembler.append_file(source, tail)
                    last_keys += last_keys_of(tail.name, tail.user_metadata.get(KEY_INDEX, b""))
                    stripes += [(source, tail, stripe) for stripe in tail.stripes]
            written = assembler.close(user_metadata(last_keys, inserts=assembler.rows, version=version))
        if full:
            same_bytes(stripes, path)
    return Strung(written=written, last_keys=last_keys, copied=copied)


def encoded(
    choices: Sequence[Choice], new_path: Callable[[], str], *, like: Tail, types: Types, full: bool = False
) -> Iterator[str | Choice]:
    """The kept rows of some stripes as files at new paths, or the stripes that are better copied after all. A file says
    the last key of each of its stripes, so that nobody must look for it.

    Args:
        full: all rows are decoded again and compared.

    Raises:
        VerificationFailed: (with ``full``) a row is another.
        NotLossless: something would be lost of rows that cannot be copied either.
    """
    path = new_path()
    pieces = [piece_of(c) for c in choices]
    try:
        reencode(pieces, path, like=like, types=types, metadata=Seal().metadata)
    except NotLossless:
        if not any(c.is_only_small for c in choices):
            raise
    else:
        if full:
            same_rows(pieces, path, types)
        yield path
        return
    yield from apart(choices, new_path, like=like, types=types, full=full)


def apart(
    choices: Sequence[Choice], new_path: Callable[[], str], *, like: Tail, types: Types, full: bool = False
) -> Iterator[str | Choice]:
    """As ``encoded``, of stripes that cannot be encoded together: those that are only small are copied."""
    for is_only_small, run in groupby(choices, key=lambda c: c.is_only_small):
        if is_only_small:
            yield from run
        else:
            yield from encoded(list(run), new_path, like=like, types=types, full=full)
