"""Compresses uncompressed files with zlib, and adds columns before their own.

When the ORC C++ library encodes a stripe with zlib, it spends nine tenths of the time in zlib. ISA-L makes streams of the
same format and size in a third of that time or less. So the library encodes without compression, and this module
compresses the streams in chunks and the row indexes, whose positions refer to these chunks. Nothing else changes, except
for the numbers of columns after added ones, and bounds of floats by which readers would lose rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compactor.base.errors import NotLossless
from compactor.orc.format import messages
from compactor.orc.format.compression import LEVELS, SMALL, Compression, chunks
from compactor.orc.format.run_length_encoding import EncodedColumn
from compactor.orc.format.statistics import MENDED_KINDS, mend_statistics
from compactor.orc.format.stripe_footer import (
    DATA,
    DICTIONARY,
    DICTIONARY_V2,
    DIRECT_V2,
    INDEX_STREAMS,
    LENGTH,
    PRESENT,
    ROW_INDEX,
    SECONDARY,
    read_stripe_footer,
)
from compactor.orc.format.tail import MAGIC, Stripe, Tail, read_tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.format.types import TEXT_KINDS, OrcType, TypeKind, Types
from compactor.orc.io.source import LocalSink, Source

#: The streams of a column in the order of its positions, and how many numbers follow each offset there: the values that a
#: run-length decoder skips, and for bits also the bits within a byte (ORC specification, "Row Group Index").
_STREAMS: Mapping[TypeKind, Sequence[tuple[int, int]]] = {
    TypeKind.BOOLEAN: ((DATA, 2),),
    **dict.fromkeys((TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.DATE), ((DATA, 1),)),
    **dict.fromkeys((TypeKind.FLOAT, TypeKind.DOUBLE), ((DATA, 0),)),
    **dict.fromkeys((*TEXT_KINDS, TypeKind.BINARY), ((DATA, 0), (LENGTH, 1))),
    **dict.fromkeys((TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT), ((DATA, 1), (SECONDARY, 1))),
    TypeKind.DECIMAL: ((DATA, 0), (SECONDARY, 1)),
    **dict.fromkeys((TypeKind.LIST, TypeKind.MAP), ((LENGTH, 1),)),
    TypeKind.STRUCT: (),
}
PROBE = 16  #: one chunk in this many decides the level for those that follow
SAMPLE = 64 * 1024  #: bytes of that chunk that are tried; references reach back 32 KiB
WORSE = 1.03  #: size that a quick level may produce, relative to the smallest
_DICTIONARY_STREAMS = ((DATA, 1),)
_PRESENT_STREAM = (PRESENT, 2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PackedStream:
    """A stream in chunks. ``starts`` are the offsets of the chunks, and the offset after the last."""

    parts: Sequence[bytes]
    starts: Sequence[int]

    @property
    def length(self) -> int:
        return self.starts[-1]


_EMPTY = _PackedStream(parts=(), starts=(0,))


class Recompressor:
    """Writes uncompressed files of the ORC C++ library, one after another, to ``path`` in zlib chunks.

    A chunk has at most ``block_size`` plain bytes. One compressed stripe is in memory.
    """

    def __init__(self, path: str | os.PathLike[str], *, block_size: int) -> None:
        self._sink = LocalSink(path)
        self._block_size = block_size
        self._stripes: list[Stripe] = []
        self._statistics: list[tuple[messages.Message, ...]] = []
        self._like: Tail | None = None
        self._sink.write(MAGIC)

    def append(self, plain: Source, front: Sequence[EncodedColumn] = ()) -> None:
        """Appends all stripes of a file. With ``front`` it has one stripe; its root begins with those columns.

        Raises:
            NotLossless: a position of a row index violates the specification, or a column has another number of rows.
        """
        tail = read_tail(plain)
        if front and any([stripe.rows for stripe in tail.stripes] != [column.rows] for column in front):
            raise NotLossless(
                f"file {tail.name}: has stripes of {[stripe.rows for stripe in tail.stripes]} rows, expected one of "
                f"{[column.rows for column in front]}; nothing was changed, please report this"
            )
        self._like = replace(tail, types=_after(tail.types, front))
        for number, stripe in enumerate(tail.stripes):
            self._stripes.append(self._pack_stripe(plain, tail, number, stripe, front))
        extra = [column.statistics for column in front]
        for parts in tail.stripe_statistics or ():
            first, *others = (mend_statistics(part, item.kind) for part, item in zip(parts, tail.types, strict=True))
            self._statistics.append((first, *extra, *others))

    def _pack_stripe(
        self, source: Source, tail: Tail, number: int, stripe: Stripe, front: Sequence[EncodedColumn]
    ) -> Stripe:
        start = self._sink.tell()
        lengths = [0, 0]
        footer = messages.StripeFooter()
        footer.CopyFrom(read_stripe_footer(source, tail, number))
        streams = list(_streams(source, tail, number, footer, self._block_size))
        for stream, _ in streams:
            stream.column += len(front) if stream.column else 0
        for place, column in enumerate(front, 1):
            streams += _front_streams(column, place, self._block_size)
        streams.sort(key=lambda item: (item[0].kind not in INDEX_STREAMS, item[0].column))
        for stream, packed in streams:
            for part in packed.parts:
                self._sink.write(part)
            stream.length = packed.length
            lengths[stream.kind in INDEX_STREAMS] += packed.length
        first, *others = footer.columns
        new_footer = messages.StripeFooter(
            streams=[stream for stream, _ in streams],
            columns=[first, *({"kind": DIRECT_V2} for _ in front), *others],
            writer_timezone=footer.writer_timezone,
        )
        end = b"".join(chunks(new_footer.SerializeToString(), Compression.ZLIB, self._block_size))
        self._sink.write(end)
        return stripe._replace(offset=start, index_length=lengths[1], data_length=lengths[0], footer_length=len(end))

    def close(self) -> None:
        """Completes the file. At least one stripe must have been appended."""
        assert self._like is not None
        whole = replace(
            self._like,
            compression=Compression.ZLIB,
            compression_block_size=self._block_size,
            stripes=tuple(self._stripes),
            stripe_statistics=tuple(self._statistics),
            rows=sum(stripe.rows for stripe in self._stripes),
            content_length=self._sink.tell(),
        )
        self._sink.write(tail_bytes(whole))
        self._sink.close()

    def abort(self) -> None:
        """Abandons the file; nothing of it remains."""
        self._sink.abort()


def _streams(
    source: Source, tail: Tail, stripe: int, footer: messages.Message, block_size: int
) -> Iterator[tuple[messages.Message, _PackedStream]]:
    """Yields the compressed streams of a stripe in order, indexes with the offsets of the compressed data."""
    place = tail.stripes[stripe].offset
    spans = []
    for stream in footer.streams:
        spans.append((stream, place))
        place += stream.length
    data = {
        (stream.column, stream.kind): _pack(_blocks(source, start, stream.length, block_size), block_size)
        for stream, start in spans
        if stream.kind not in INDEX_STREAMS
    }
    for stream, start in spans:
        if stream.kind not in INDEX_STREAMS:
            yield stream, data[stream.column, stream.kind]
            continue
        index = source.read(start, stream.length)
        if stream.kind == ROW_INDEX:
            index = _move_positions(
                index, tail, stripe, stream.column, footer.columns[stream.column].kind, data, block_size
            )
        yield stream, _pack([index], block_size)


def _blocks(source: Source, start: int, length: int, block_size: int) -> Iterator[bytes]:
    for place in range(0, length, block_size):
        yield source.read(start + place, min(block_size, length - place))


def _front_streams(column: EncodedColumn, number: int, block_size: int) -> list[tuple[messages.Message, _PackedStream]]:
    """Returns the streams of a column that was encoded separately."""
    data = _pack(
        [column.data[place : place + block_size] for place in range(0, len(column.data), block_size)], block_size
    )
    index = messages.RowIndex()
    for entry in column.index.entry:
        place, run = entry.positions
        chunk, within = divmod(place, block_size)
        index.entry.add(positions=[data.starts[chunk], within, run], statistics=entry.statistics)
    return [
        (messages.Stream(kind=ROW_INDEX, column=number), _pack([index.SerializeToString()], block_size)),
        (messages.Stream(kind=DATA, column=number), data),
    ]


def _after(types: Types, front: Sequence[EncodedColumn]) -> Types:
    """Returns ``types`` with the columns ``front`` as the first fields of the root."""
    if not front:
        return types
    moved = [replace(item, children=tuple(child + len(front) for child in item.children)) for item in types]
    places = range(1, len(front) + 1)
    root = replace(
        moved[0],
        children=(*places, *moved[0].children),
        field_names=(*(column.name for column in front), *moved[0].field_names),
    )
    return Types((root, *(OrcType(kind=column.kind) for column in front), *moved[1:]))


def _pack(plain: Iterator[bytes] | Sequence[bytes], block_size: int) -> _PackedStream:
    """Compresses chunks.

    Tries every level on the start of some chunks to choose a level for those that follow.
    """
    parts: list[bytes] = []
    level = SMALL
    for number, data in enumerate(plain):
        if number % PROBE == 0:
            level = _quickest(data, block_size)
        parts += chunks(data, Compression.ZLIB, block_size, level=level)
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part))
    return _PackedStream(parts=parts, starts=starts)


def _quickest(data: bytes, block_size: int) -> int:
    """Returns the quickest level that makes the first bytes of ``data`` about as small as any."""
    part = data[:SAMPLE]
    sizes = {level: sum(map(len, chunks(part, Compression.ZLIB, block_size, level=level))) for level in LEVELS}
    return next(level for level, size in sizes.items() if size <= WORSE * min(sizes.values()))


def _move_positions(
    index: bytes,
    tail: Tail,
    stripe: int,
    column: int,
    encoding: int,
    data: Mapping[tuple[int, int], _PackedStream],
    block_size: int,
) -> bytes:
    """Returns a row index with positions in chunks instead of positions in the plain stream."""
    kind = tail.types[column].kind
    is_dictionary = kind in TEXT_KINDS and encoding in (DICTIONARY, DICTIONARY_V2)
    streams = [*(_DICTIONARY_STREAMS if is_dictionary else _STREAMS.get(kind, ()))]
    if (column, PRESENT) in data:
        streams.insert(0, _PRESENT_STREAM)
    expected = sum(1 + more for _, more in streams)
    row_index = messages.RowIndex.FromString(index)
    for entry in row_index.entry:
        if kind in MENDED_KINDS:
            entry.statistics.CopyFrom(mend_statistics(entry.statistics, kind))
        old = list(entry.positions)
        if kind not in _STREAMS or len(old) != expected:
            raise NotLossless(
                f"file {tail.name}, stripe {stripe}: a position of column {column} ({kind.name}) has {len(old)} numbers, "
                f"expected {expected}; nothing was changed, please report this"
            )
        del entry.positions[:]
        at = 0
        for stream, more in streams:
            packed = data.get((column, stream), _EMPTY)
            number, within = divmod(old[at], block_size)
            if number >= len(packed.starts) or (number == len(packed.parts) and within):
                raise NotLossless(
                    f"file {tail.name}, stripe {stripe}: a position of column {column} is beyond its stream; nothing was "
                    "changed, please report this"
                )
            entry.positions.extend([packed.starts[number], within, *old[at + 1 : at + 1 + more]])
            at += 1 + more
    return bytes(row_index.SerializeToString())
