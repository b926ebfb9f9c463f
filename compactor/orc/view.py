"""A file as decoders shall see it: some of its stripes, and types that suit them, without copying its data."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache

from compactor.errors import BadFile, NotLossless
from compactor.orc import messages
from compactor.orc.compression import Compression, decompress
from compactor.orc.lengths import check_lengths
from compactor.orc.source import Source
from compactor.orc.stripe_footer import INDEX_STREAMS, read_stripe_footer
from compactor.orc.tail import MAGIC, Tail
from compactor.orc.tail_writer import tail_bytes
from compactor.orc.types import Kind, Types, schema_text, subtree

BATCH_BYTES = 32 * 1024 * 1024  #: decoded bytes that a batch of rows has on average at most
BATCH_ROWS = 65_536


class StripeView(io.RawIOBase):
    """The bytes of ``source`` up to ``tail.length``, followed by another tail that lists only ``stripes``.

    Decoders then read just those, in batches of rows, and never see more of the file. Columns that are not among
    ``columns`` (places in the root struct) are named by a kind that every decoder knows, since it will not read them.
    """

    def __init__(self, source: Source, tail: Tail, stripes: Sequence[int], columns: Collection[int] | None) -> None:
        super().__init__()
        if tail.encrypted:
            raise NotLossless(
                f"file {tail.name}: it has encrypted columns, which cannot be decoded here; exclude the table"
            )
        if tail.types[0].kind is not Kind.STRUCT:
            raise BadFile(f"file {tail.name}: its root is {schema_text(tail.types)}, Hive's files hold a struct")
        _check(source, tail, stripes, columns)
        self._source = source
        self._end = tail.length
        self._tail = tail_bytes(
            replace(
                tail,
                types=_viewed(tail.types, None if columns is None else tuple(columns)),
                stripes=tuple(tail.stripes[number] for number in stripes),
                stripe_statistics=None,
                user_metadata={},
                rows=sum(tail.stripes[number].rows for number in stripes),
                content_length=tail.length,
            )
        )
        self._place = 0

    def size(self) -> int:
        return self._end + len(self._tail)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size()}[whence]
        self._place = max(0, start + offset)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self.size() - self._place)
        wanted = left if size is None or size < 0 else min(size, left)
        data = b""
        if self._place < self._end:
            data = self._source.read(self._place, min(wanted, self._end - self._place))
        start = self._place + len(data) - self._end
        if len(data) < wanted:
            data += self._tail[start : start + wanted - len(data)]
        self._place += len(data)
        return data


def may_join(a: Tail, b: Tail) -> bool:
    """Whether stripes of both files can be decoded as if they were of one."""
    found = [
        (
            t.types,
            t.file_version,
            t.compression,
            t.row_index_stride,
            t.calendar,
            t.writer,
            t.writer_version,
            t.encrypted,
        )
        for t in (a, b)
    ]
    return found[0] == found[1] and not a.encrypted and a.types[0].kind is Kind.STRUCT


def joint_file(stripes: Sequence[tuple[Source, Tail, int]]) -> bytes:
    """A file in memory of these stripes, each given by its file and its number there; any two of the files may join.

    Raises:
        BadFile: what a decoder would believe of a stripe is wrong.
    """
    tails = [tail for _, tail, _ in stripes]
    parts, place, listed = [MAGIC], len(MAGIC), []
    for source, tail, number in stripes:
        _check(source, tail, [number], None)
        stripe = tail.stripes[number]
        parts.append(source.read(stripe.offset, stripe.length))
        listed.append(stripe._replace(offset=place))
        place += stripe.length
    end = replace(
        tails[0],
        types=_viewed(tails[0].types, None),
        compression_block_size=max(tail.compression_block_size for tail in tails),
        stripes=tuple(listed),
        stripe_statistics=None,
        user_metadata={},
        rows=sum(stripe.rows for stripe in listed),
        content_length=place,
    )
    return b"".join((*parts, tail_bytes(end)))


def _check(source: Source, tail: Tail, stripes: Sequence[int], columns: Collection[int] | None) -> None:
    """What decoders would believe blindly: where a stripe's streams lie, and the lengths in them."""
    read = _within(tail.types, None if columns is None else tuple(columns))
    for stripe in stripes:
        footer = read_stripe_footer(source, tail, stripe)
        if tail.compression is Compression.ZSTD:
            _check_chunks(source, tail, stripe, footer, read)
        check_lengths(source, tail, stripe, footer, read)


def _check_chunks(source: Source, tail: Tail, stripe: int, footer: messages.Message, columns: Collection[int]) -> None:
    """That every chunk can be decompressed. The ORC C++ library takes an error of zstd for a length, and goes on with
    whatever its memory holds; it hears the other codecs."""
    place = tail.stripes[stripe].offset
    for stream in footer.streams:
        if stream.column in columns and stream.kind not in INDEX_STREAMS:
            where, part = f"{tail.name}, stripe {stripe}", f"stream {stream.kind} of column {stream.column}"
            data = source.read(place, stream.length)
            at = 0
            while at < len(data):
                end = at + 3 + (int.from_bytes(data[at : at + 3], "little") >> 1)
                decompress(data[at:end], tail.compression, tail.compression_block_size, where, part=part)
                at = end
        place += stream.length


@lru_cache(maxsize=256)
def _within(types: Types, columns: tuple[int, ...] | None) -> frozenset[int]:
    """The ids of ``columns`` (places in the root struct, None for all) and of all below them."""
    return frozenset(
        number
        for place, column in enumerate(types[0].children)
        if columns is None or place in columns
        for number in range(column, column + len(subtree(types, column)))
    )


@lru_cache(maxsize=256)
def _viewed(types: Types, columns: tuple[int, ...] | None) -> Types:
    unread: set[int] = set()
    for place, column in enumerate(types[0].children):
        if columns is not None and place not in columns:
            unread.update(range(column, column + len(subtree(types, column))))
    return Types(
        replace(item, kind=Kind.STRUCT, field_names=tuple(f"f{place}" for place in range(len(item.children))))
        if number in unread and item.kind is Kind.UNION
        else replace(item, kind=Kind.LONG)
        if number in unread and not item.children and item.kind is not Kind.STRUCT
        else item
        for number, item in enumerate(types.for_encoders)
    )


def batch_rows(tail: Tail, stripes: Sequence[int], columns: Collection[int] | None) -> int:
    """How many rows of these stripes to decode at once, so that memory is bounded by rows × width (PROTOCOL 2.4)."""
    wanted = _within(tail.types, None if columns is None else tuple(columns))
    if columns is not None and all(tail.types[number].kind in _FIXED for number in wanted):
        return BATCH_ROWS
    if not tail.complete_statistics or tail.stripe_statistics is None:
        return 1024
    texts = [number for number in tail.types.texts if number in wanted]
    binaries = [number for number in tail.types.binaries if number in wanted]
    width = 1.0
    for stripe in stripes:
        parts = tail.stripe_statistics[stripe]
        total = (
            8 * sum([parts[number].number_of_values for number in wanted])
            + sum([parts[number].string_statistics.sum for number in texts])
            + sum([parts[number].binary_statistics.sum for number in binaries])
        )
        width = max(width, total / max(1, tail.stripes[stripe].rows))
    return max(16, min(BATCH_ROWS, int(BATCH_BYTES / width)))


_FIXED = frozenset({Kind.BOOLEAN, Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.DATE})
