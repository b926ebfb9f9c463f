"""Joins ORC files of an insert-only table: stripes are copied, small neighbours re-encoded.

Files are joined only if their types are equal in every name, since readers find the columns of such files by name, and if
their stripes may share a file. Any other file stays separate: an insert-only directory may hold any number of files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

from compactor.base.errors import NotLossless, VerificationFailed
from compactor.orc.assembler import Assembler, WrittenFile
from compactor.orc.codecs.bloom_filters import StripeFilters, common_filters, stripe_filters
from compactor.orc.footer_figures import row_figures
from compactor.orc.format.compression import Compression
from compactor.orc.format.tail import Filters, Tail, read_tail
from compactor.orc.io.file_pool import FilePool
from compactor.orc.io.source import LocalSource, Source
from compactor.orc.pieces import Piece, lacks_zone, zone_of_stripe
from compactor.orc.point_check import check_filters
from compactor.orc.reencode import reencode
from compactor.orc.stripe_compatibility import encodable_target, is_copyable, is_writable
from compactor.rewrite.full_acid.verify import check_same_bytes, check_same_rows
from compactor.rewrite.insert_only.output_file import FinishedFile
from compactor.rows.acid_file import AcidFile
from compactor.rows.new_file import NewFileTarget
from compactor.settings.output_class import OutputClass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputStripe:
    """One stripe, which is copied or re-encoded."""

    file: AcidFile
    number: int
    copied: bool
    can_copy: bool

    @property
    def length(self) -> int:
        return self.file.tail.stripes[self.number].length


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinedFiles:
    """Files that become one file, and the tail whose class it gets."""

    files: tuple[AcidFile, ...]
    like: Tail
    avoids: frozenset[str] = frozenset()  #: codecs of stripes that are not copied

    @property
    def rows(self) -> int:
        return sum(file.tail.rows for file in self.files)

    @property
    def user_metadata(self) -> dict[str, bytes]:
        """Returns the entries that are equal in all files.

        Others tell who wrote a file, such as Trino's query IDs.
        """
        first, *others = (file.tail.user_metadata for file in self.files)
        return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}

    def stripes(self, small_stripe_bytes: int) -> list[OutputStripe]:
        """Decides for every stripe whether it is copied.

        Small neighbours are encoded together, because many tiny stripes are slow to read.
        """
        stripes = [
            OutputStripe(file=file, number=number, copied=can_copy, can_copy=can_copy)
            for file in self.files
            for fits in [_can_copy(file.tail, self.avoids) and file.tail.stripe_class == self.like.stripe_class]
            for number, stripe in enumerate(file.tail.stripes)
            if stripe.rows
            for can_copy in [fits and not lacks_zone(file.source, file.tail, number)]
        ]
        if not is_writable(self.like) or not self.like.types.is_encodable:
            return stripes
        small = [stripe.length < small_stripe_bytes for stripe in stripes]
        return [
            OutputStripe(
                file=stripe.file,
                number=stripe.number,
                can_copy=stripe.can_copy,
                copied=stripe.copied and not (here and (before or after)),
            )
            for stripe, before, here, after in zip(stripes, [False, *small], small, [*small[1:], False], strict=False)
        ]


def joinable_files(files: Sequence[AcidFile], avoids: frozenset[str] = frozenset()) -> list[JoinedFiles]:
    """Groups the files that may become one, in the order of each group's first file.

    Leaves out files without rows.

    Args:
        avoids: codecs that outputs must not use, since a reader of the table does not know them.

    Raises:
        NotLossless: a file holds ACID events, which readers of an insert-only table take for columns.
    """
    groups: dict[Any, list[AcidFile]] = {}
    for file in files:
        if not file.is_raw:
            raise NotLossless(f"{file.path}: holds ACID events in an insert-only table; find out who wrote it")
        if file.tail.rows:
            groups.setdefault(_key(file, avoids), []).append(file)
    return [JoinedFiles(files=tuple(of_key), like=_like(of_key, avoids), avoids=avoids) for of_key in groups.values()]


def _can_copy(tail: Tail, avoids: frozenset[str]) -> bool:
    return is_copyable(tail) and tail.compression.name not in avoids


def _key(file: AcidFile, avoids: frozenset[str]) -> tuple[Any, ...]:
    tail = file.tail
    zones = {zone_of_stripe(file.source, tail, stripe) for stripe in range(len(tail.stripes))}
    zone = (
        file.path if len(zones) > 1 else zones.pop()
    )  # readers may not tell the zones of one file apart: PROTOCOL 2.6
    return (tail.types, _target(tail, avoids).stripe_class, zone)


def _target(tail: Tail, avoids: frozenset[str]) -> Tail:
    """Returns a tail of the class that the rows of a file get."""
    if _can_copy(tail, avoids):
        return tail
    target = encodable_target(tail)
    return replace(target, compression=Compression.ZLIB) if target.compression.name in avoids else target


def _like(files: Sequence[AcidFile], avoids: frozenset[str]) -> Tail:
    return next((file.tail for file in files if _can_copy(file.tail, avoids)), _target(files[0].tail, avoids))


def write(
    files: Sequence[AcidFile],
    target: NewFileTarget,
    *,
    small_stripe_bytes: int,
    full: bool,
    avoids: frozenset[str] = frozenset(),
) -> list[FinishedFile]:
    """Writes all rows of ``files`` to few files next to ``target``, in their order within each.

    See ``joinable_files``.

    Raises:
        NotLossless: rows can neither be copied nor re-encoded.
        VerificationFailed: an output differs from its inputs.
    """
    return [
        _write(group, replace(target, path=f"{target.path}.{n}"), small_stripe_bytes, full)
        for n, group in enumerate(joinable_files(files, avoids))
    ]


@dataclass(slots=True, kw_only=True, eq=False)
class _Growing:
    """An output that grows stripe by stripe.

    ``stripes`` are the sources of its stripes, in inputs or encoded ``parts``.
    """

    assembler: Assembler
    like: Tail
    path: str
    few: FilePool
    full: bool
    parts: list[str] = field(default_factory=list)
    stripes: list[tuple[Source, Tail, int]] = field(default_factory=list)
    copied: list[OutputStripe] = field(default_factory=list)
    encoded: int = 0

    def copy(self, stripe: OutputStripe) -> None:
        file = stripe.file
        self.assembler.copy(file.source, file.tail, stripe.number)
        self.copied.append(stripe)
        self.stripes.append((file.source, file.tail, stripe.number))

    def encode(self, stripes: Sequence[OutputStripe]) -> None:
        part = f"{self.path}.part{len(self.parts)}"
        pieces = [Piece(source=s.file.source, tail=s.file.tail, stripe_index=s.number) for s in stripes]
        try:
            tail = reencode(pieces, part, like=self.like, types=self.like.types)
        except NotLossless:
            if not any(stripe.can_copy for stripe in stripes):
                raise
            for can_copy, run in groupby(stripes, key=lambda stripe: stripe.can_copy):
                if can_copy:
                    for stripe in run:
                        self.copy(stripe)
                else:
                    self.encode(list(run))
            return
        self.parts.append(part)
        if self.full:
            check_same_rows(pieces, part, self.like.types)
        self.encoded += len(stripes)
        source = self.few.open(partial(LocalSource, part))
        self.assembler.append_file(source, tail)
        self.stripes += [(source, tail, number) for number in range(len(tail.stripes))]


def _write(group: JoinedFiles, target: NewFileTarget, small_stripe_bytes: int, full: bool) -> FinishedFile:
    path, stripes = target.path, group.stripes(small_stripe_bytes)
    like = replace(
        group.like, filters=_common_filters(stripes, group.like), requested_class=OutputClass(avoids=group.avoids)
    )
    parts: list[str] = []
    with FilePool() as few:
        try:
            with target.sink() as sink, Assembler(sink, like=like, checksum=True) as assembler:
                growing = _Growing(assembler=assembler, like=like, path=path, few=few, full=full, parts=parts)
                for copies, run in groupby(stripes, key=lambda stripe: stripe.copied):
                    if copies:
                        for stripe in run:
                            growing.copy(stripe)
                    else:
                        growing.encode(list(run))
                written = assembler.close(group.user_metadata)
            with sink.reading() as source:
                tail = _verify(group, source, written)
            if full:
                check_same_bytes(growing.stripes, path, for_orc_1_5=like.is_for_orc_1_5)
        finally:
            for part in parts:
                os.unlink(part)
    return FinishedFile(
        path=path,
        rows=written.rows,
        length=written.length,
        crc32=written.checksum,
        copied=len(growing.copied),
        encoded=growing.encoded,
        bytes_copied=sum(stripe.length for stripe in growing.copied),
        bytes_taken_over=written.taken_over,
        ranges=tuple(sink.ranges),
        row_figures=row_figures(tail),
    )


def _common_filters(stripes: Sequence[OutputStripe], like: Tail) -> Filters:
    filters: tuple[list[StripeFilters], list[StripeFilters]] = ([], [])
    for stripe in stripes:
        filters[stripe.copied].append(stripe_filters(stripe.file.source, stripe.file.tail, stripe.number))
    return common_filters(filters[True], filters[False], like.types)


def _verify(group: JoinedFiles, source: Source, written: WrittenFile) -> Tail:
    """Checks that the file has as many rows and values in each column as its inputs, and returns its tail."""
    tail = read_tail(source)
    if tail.rows != group.rows or tail.types != group.like.types or written.rows != group.rows:
        raise VerificationFailed(
            f"{source.name}: holds {tail.rows} rows, expected {group.rows}; nothing was changed, please report this"
        )
    check_filters(source, tail)
    tails = [file.tail for file in group.files]
    if all(each_tail.complete_statistics for each_tail in (tail, *tails)) and _values([tail]) != _values(tails):
        raise VerificationFailed(
            f"{source.name}: its columns do not hold as many values as those of its inputs; nothing was changed, please "
            "report this"
        )
    return tail


def _values(tails: Sequence[Tail]) -> list[int]:
    """Counts the values of each column in all stripes."""
    totals = [0] * len(tails[0].types)
    for tail in tails:
        for columns in tail.stripe_statistics or ():
            for place, part in enumerate(columns):
                totals[place] += part.number_of_values
    return totals
