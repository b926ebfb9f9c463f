"""Presents some stripes of a file to decoders, decompressed and with types that decoders know."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from compactor.base.errors import BadFile, NotLossless
from compactor.orc.codecs.codec import MOST_BUFFERS, Unfit
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression, compress
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.java_zones import UTC_NAME, is_utc
from compactor.orc.format.length_checks import Lengths, check_lengths, exact_lengths
from compactor.orc.format.plain_streams import KEPT_BYTES, SMALL_BYTES, PlainPart, PlainStream, plain_streams
from compactor.orc.format.stripe_footer import (
    DATA,
    DATA_STREAMS,
    DICTIONARY,
    DICTIONARY_V2,
    LENGTH,
    read_stripe_footer,
    zone_named,
)
from compactor.orc.format.tail import MAGIC, Stripe, Tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.format.types import TEXT_KINDS, OrcType, TypeKind, Types, cached_with_types, subtree
from compactor.orc.io.source import Readable, Source

BATCH_BYTES = 32 * 1024 * 1024  #: the most decoded bytes that a batch of rows has on average
BATCH_ROWS = 65_536
MOST_BYTES = 256 * 1024 * 1024  #: of a batch of rows, even if one value is much longer than the others
MOST_ROW_BYTES = 1 << 33  #: of one row with the longest value of each column
EXACT_BYTES = 256 * 1024  #: below it an estimate is good enough; it may be a hundred times too high
_LONG = frozenset({TypeKind.DECIMAL, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
_BINARIES = TEXT_KINDS | {TypeKind.BINARY}
_WORD = 8


class StripeView(Readable):
    """A file of some ``stripes`` of another file, uncompressed and without indexes. Its times are in UTC.

    It has only the streams of ``columns`` (positions in the root struct, None for all), decompressed as they are read.
    Other columns get a kind that every decoder knows, since they will not be read. With ``inner``, ids of columns within the
    row of an ACID file, the root has only these columns. ``rows_at_once`` is the most rows, up to ``rows``, of a batch,
    whatever the file's statistics say.

    Raises:
        NotLossless: the file has encrypted columns.
        BadFile: a stripe has wrong data that a decoder would trust, or a stream cannot be decompressed.
    """

    def __init__(
        self,
        source: Source,
        tail: Tail,
        stripes: Sequence[int],
        columns: Collection[int] | None,
        rows: int = BATCH_ROWS,
        inner: Sequence[int] | None = None,
    ) -> None:
        if tail.encrypted:
            raise NotLossless(f"file {tail.name}: it has encrypted columns, which cannot be decoded; exclude the table")
        if tail.types[0].kind is not TypeKind.STRUCT:
            raise BadFile(f"file {tail.name}: its root is {schema_text(tail.types)}, that of Hive's files is a struct")
        shown = _present(
            tail.types, None if columns is None else tuple(columns), None if inner is None else tuple(inner)
        )
        self._parts, self.rows_at_once = _plain_file(source, tail, stripes, shown, rows)
        self._starts = [0, *accumulate(part.length for part in self._parts)]
        super().__init__(self._starts[-1])

    def part(self, start: int, end: int) -> bytes:
        return _join_parts(self._parts, self._starts, start, end)


def _join_parts(parts: Sequence[PlainPart], starts: Sequence[int], start: int, end: int) -> bytes:
    """Returns the bytes from ``start`` to before ``end`` of a file of ``parts`` that begin at ``starts``."""
    chunks = []
    number = bisect_right(starts, start) - 1
    while start < end:
        part, begin = parts[number], starts[number]
        stop = min(part.length, end - begin)
        chunks.append(part.read(start - begin, stop))
        if stop == part.length:
            part.forget()
        start = begin + stop
        number += 1
    return b"".join(chunks)


def can_decode_together(a: Tail, b: Tail) -> bool:
    """Returns true if stripes of both files can be decoded as if they belonged to one file."""
    return (
        (a.types is b.types or a.types == b.types)
        and a.file_version == b.file_version
        and a.compression is b.compression
        and a.row_index_stride == b.row_index_stride
        and a.calendar == b.calendar
        and a.writer == b.writer
        and a.writer_version == b.writer_version
        and not (a.encrypted or b.encrypted)
        and a.types[0].kind is TypeKind.STRUCT
    )


def joint_file(stripes: Sequence[tuple[Source, Tail, int]]) -> bytes:
    """Returns a file in memory of small stripes, each given by its file and its number there.

    ``can_decode_together`` must hold for any two of the files. The stripes are copied compressed, because decompressing
    small ones here would take longer than in the decoder.

    Raises:
        BadFile: a stripe has wrong data that a decoder would trust.
        Unfit: a decoder would take much memory for them at once.
    """
    tails = [tail for _, tail, _ in stripes]
    stream_kinds = DATA_STREAMS if tails[0].compression is Compression.ZSTD else frozenset({LENGTH})
    parts, place, listed = [MAGIC], len(MAGIC), []
    block = max(tail.compression_block_size for tail in tails)
    taken = 0
    for source, tail, number in stripes:
        footer = read_stripe_footer(source, tail, number)
        read = plain_streams(source, tail, number, footer, range(len(tail.types)), kinds=stream_kinds, room=SMALL_BYTES)
        lengths = check_lengths(read, footer, tail, number)
        stripe = tail.stripes[number]
        bound = flat_bytes(tail.types, lengths, stripe.rows)
        if bound is None or bound > EXACT_BYTES:
            widths = RowWidths(types=tail.types, footer=footer, streams=read, lengths=lengths)
            bound = widths.bytes_of(tail.types[0].children, stripe.rows)
        taken += bound
        if taken > MOST_BYTES or len(footer.streams) * block > MOST_BUFFERS:
            raise Unfit(f"{tail.name}: its rows take {taken} bytes, its {len(footer.streams)} streams {block} each")
        data = stripe.length - stripe.footer_length
        end = utc_footer(source, tail, stripe, footer)
        parts += [source.read(stripe.offset, data), end]
        listed.append(stripe._replace(offset=place, footer_length=len(end)))
        place = listed[-1].end
    whole = replace(
        tails[0],
        types=_view_types(tails[0].types, None),
        compression_block_size=block,
        stripes=tuple(listed),
        stripe_statistics=None,
        user_metadata={},
        rows=sum(stripe.rows for stripe in listed),
        content_length=place,
    )
    return b"".join((*parts, tail_bytes(whole)))


def utc_footer(source: Source, tail: Tail, stripe: Stripe, footer: messages.Message) -> bytes:
    """Returns the compressed footer of a stripe with UTC as the writer's zone.

    Otherwise decoders would convert times from the named zone, and refuse zones that only Java knows.
    """
    if is_utc(zone_named(footer)):
        return source.read(stripe.end - stripe.footer_length, stripe.footer_length)
    new_footer = messages.StripeFooter()
    new_footer.CopyFrom(footer)
    new_footer.writer_timezone = UTC_NAME.encode()
    return compress(new_footer.SerializeToString(), tail.compression, tail.compression_block_size)


class UtcFile(Readable):
    """A file of some ``stripes`` of another file.

    They name UTC as their zone, and are unchanged otherwise.
    """

    def __init__(self, source: Source, tail: Tail, stripes: Sequence[int]) -> None:
        self._parts, place = [_part(MAGIC)], len(MAGIC)
        listed = []
        for number in stripes:
            stripe, footer = tail.stripes[number], read_stripe_footer(source, tail, number)
            end = utc_footer(source, tail, stripe, footer)
            data = PlainPart(stripe.length - stripe.footer_length, source=source, offset=stripe.offset)
            self._parts += [data, _part(end)]
            listed.append(stripe._replace(offset=place, footer_length=len(end)))
            place = listed[-1].end
        statistics = tail.stripe_statistics
        whole = replace(
            tail,
            stripes=tuple(listed),
            stripe_statistics=None if statistics is None else tuple(statistics[number] for number in stripes),
            user_metadata={},
            rows=sum(stripe.rows for stripe in listed),
            content_length=place,
        )
        self._parts.append(_part(tail_bytes(whole)))
        self._starts = [0, *accumulate(part.length for part in self._parts)]
        super().__init__(self._starts[-1])

    def part(self, start: int, end: int) -> bytes:
        return _join_parts(self._parts, self._starts, start, end)


class _Presentation(NamedTuple):
    """The columns of a file that a decoder sees."""

    read: frozenset[int]  #: ids of all columns that are read
    outer: tuple[int, ...]  #: ids that are columns of batches
    types: Types
    order: tuple[int, ...] | None = None  #: the ids in their new order; None if they keep their numbers


@cached_with_types
def _present(types: Types, columns: tuple[int, ...] | None, inner: tuple[int, ...] | None) -> _Presentation:
    if inner is None:
        read = _column_ids(types, columns) | {0}
        outer = tuple(column for column in types[0].children if column in read)
        return _Presentation(read=read, outer=outer, types=_view_types(types, columns))
    order = (0, *(number for column in inner for number in range(column, column + len(subtree(types, column)))))
    places = {number: place for place, number in enumerate(order)}
    root = OrcType(
        kind=TypeKind.STRUCT,
        children=tuple(places[column] for column in inner),
        field_names=tuple(f"f{place}" for place in range(len(inner))),
    )
    below = [replace(types[n], children=tuple(places[child] for child in types[n].children)) for n in order[1:]]
    return _Presentation(read=frozenset(order), outer=inner, types=Types([root, *below]).for_encoders, order=order)


def _plain_file(
    source: Source, tail: Tail, stripes: Sequence[int], shown: _Presentation, at_once: int
) -> tuple[list[PlainPart], int]:
    """Returns the parts of the file, and how many rows, up to ``at_once``, a batch may have."""
    parts, place, room = [_part(MAGIC)], len(MAGIC), KEPT_BYTES
    listed = []
    for number in stripes:
        footer = read_stripe_footer(source, tail, number)
        streams = plain_streams(source, tail, number, footer, shown.read, room=room)
        lengths = check_lengths(streams, footer, tail, number)
        widths = RowWidths(types=tail.types, footer=footer, streams=streams, lengths=lengths)
        row = widths.bytes_of(shown.outer, 1)
        if row > MOST_ROW_BYTES:
            raise BadFile(
                f"file {tail.name}, stripe {number}: one of its rows takes {row} bytes, at most {MOST_ROW_BYTES} can be "
                "decoded; find out who wrote it, and move it away"
            )
        at_once = widths.rows_within(shown.outer, at_once)
        stripe_parts = [part for stream in streams for part in stream.parts]
        room -= sum(part.kept for part in stripe_parts)
        end, size = _footer(streams, footer, shown.order), sum(stream.length for stream in streams)
        parts += [*stripe_parts, _part(end)]
        listed.append(
            Stripe(
                offset=place,
                index_length=0,
                data_length=size,
                footer_length=len(end),
                rows=tail.stripes[number].rows,
            )
        )
        place = listed[-1].end
    whole = replace(
        tail,
        types=shown.types,
        compression=Compression.NONE,
        row_index_stride=0,
        stripes=tuple(listed),
        stripe_statistics=None,
        user_metadata={},
        rows=sum(stripe.rows for stripe in listed),
        content_length=place,
    )
    return [*parts, _part(tail_bytes(whole))], at_once


def _part(data: bytes) -> PlainPart:
    return PlainPart(len(data), data)


def _footer(streams: Sequence[PlainStream], footer: messages.Message, order: tuple[int, ...] | None) -> bytes:
    """Returns a stripe's footer that lists only these streams."""
    columns = footer.columns if order is None else [footer.columns[number] for number in order]
    places = None if order is None else {number: place for place, number in enumerate(order)}
    new_footer = messages.StripeFooter(columns=columns)
    for stream in streams:
        if stream.column or places is None:
            column = stream.column if places is None else places[stream.column]
            new_footer.streams.add(kind=stream.kind, column=column, length=stream.length)
    new_footer.writer_timezone = UTC_NAME.encode()  # with Arrow's own zone it need not compare zones
    return bytes(new_footer.SerializeToString())


@cached_with_types
def _column_ids(types: Types, columns: tuple[int, ...] | None) -> frozenset[int]:
    """Returns the ids of ``columns`` (positions in the root, None for all) and of all columns below them."""
    return frozenset(
        number
        for place, column in enumerate(types[0].children)
        if columns is None or place in columns
        for number in range(column, column + len(subtree(types, column)))
    )


@cached_with_types
def _view_types(types: Types, columns: tuple[int, ...] | None) -> Types:
    unread: set[int] = set()
    for place, column in enumerate(types[0].children):
        if columns is not None and place not in columns:
            unread.update(range(column, column + len(subtree(types, column))))
    return Types(
        replace(item, kind=TypeKind.STRUCT, field_names=tuple(f"f{place}" for place in range(len(item.children))))
        if number in unread and item.kind is TypeKind.UNION
        else replace(item, kind=TypeKind.LONG)
        if number in unread and not item.children and item.kind is not TypeKind.STRUCT
        else item
        for number, item in enumerate(types.for_encoders)
    )


def batch_rows(
    tail: Tail, stripes: Sequence[int], columns: Collection[int] | None, inner: Sequence[int] | None = None
) -> int:
    """Returns the number of rows of these stripes to decode at once.

    Bounds memory by rows × width (PROTOCOL 2.4).
    """
    columns_read = _column_ids(tail.types, None if columns is None else tuple(columns))
    if inner is not None:
        columns_read = _present(tail.types, None, tuple(inner)).read - {0}
    if (columns is not None or inner is not None) and all(tail.types[number].kind in _FIXED for number in columns_read):
        return BATCH_ROWS
    if not tail.complete_statistics or tail.stripe_statistics is None:
        return 1024
    texts = [number for number in tail.types.text_columns if number in columns_read]
    binaries = [number for number in tail.types.binary_columns if number in columns_read]
    width = 1.0
    for stripe in stripes:
        parts = tail.stripe_statistics[stripe]
        total = (
            8 * sum([parts[number].number_of_values for number in columns_read])
            + sum([parts[number].string_statistics.sum for number in texts])
            + sum([parts[number].binary_statistics.sum for number in binaries])
        )
        width = max(width, total / max(1, tail.stripes[stripe].rows))
    return max(16, min(BATCH_ROWS, int(BATCH_BYTES / width)))


_FIXED = frozenset(
    {
        TypeKind.BOOLEAN,
        TypeKind.BYTE,
        TypeKind.SHORT,
        TypeKind.INT,
        TypeKind.LONG,
        TypeKind.FLOAT,
        TypeKind.DOUBLE,
        TypeKind.DATE,
    }
)


def flat_bytes(types: Types, lengths: Mapping[int, Lengths], rows: int) -> int | None:
    """Returns a quick bound of the bytes of ``rows`` rows; None if columns have lists or maps."""
    if not _is_flat(types):
        return None
    return rows * (2 * _WORD * len(types) + sum([known.longest for known in lengths.values()]))


@cached_with_types
def _is_flat(types: Types) -> bool:
    return not any(item.kind in (TypeKind.LIST, TypeKind.MAP) for item in types)


@dataclass(frozen=True, kw_only=True)
class RowWidths:
    """The widths of one stripe's columns, by its checked ``lengths`` and the sizes of its data streams."""

    types: Types
    footer: messages.Message
    lengths: Mapping[int, Lengths]
    streams: Sequence[PlainStream]

    def bytes_of(self, columns: Iterable[int], rows: int) -> int:
        """Returns the most bytes that ``rows`` consecutive rows of ``columns`` (ids) may take."""
        quick = self._bytes(columns, rows)
        return quick if quick <= EXACT_BYTES else self._exact._bytes(columns, rows)

    def rows_within(self, columns: Sequence[int], rows: int) -> int:
        """Returns how many rows at once stay within ``MOST_BYTES``, at most ``rows`` and at least one."""
        if self._bytes(columns, rows) > MOST_BYTES:
            exact = self._exact
            while rows > 1 and exact._bytes(columns, rows) > MOST_BYTES:
                rows //= 2
        return max(1, rows)

    @cached_property
    def _exact(self) -> RowWidths:
        exact = {s.column: exact_lengths(s, self.footer) for s in self.streams if s.kind == LENGTH}
        return replace(self, lengths={**self.lengths, **exact})

    def _bytes(self, columns: Iterable[int], rows: int) -> int:
        return sum([self._column(column, rows) for column in columns])

    def _column(self, column: int, rows: int) -> int:
        item = self.types[column]
        known = self.lengths.get(column)
        if not item.children:
            if known is None or item.kind not in _BINARIES:
                return rows * (2 * _WORD if item.kind in _LONG else _WORD)
            if self.footer.columns[column].kind in (DICTIONARY, DICTIONARY_V2):
                return rows * (_WORD + known.longest)
            return rows * _WORD + min(rows * known.longest, self._data.get(column, known.total))
        inside = rows
        if item.kind in (TypeKind.LIST, TypeKind.MAP):
            inside = 0 if known is None else min(rows * known.longest, known.total)
        return rows * _WORD + self._bytes(item.children, inside)

    @cached_property
    def _data(self) -> Mapping[int, int]:
        return {stream.column: stream.length for stream in self.streams if stream.kind == DATA}
