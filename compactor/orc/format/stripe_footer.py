"""Reads a stripe's footer and indexes, and checks them before any decoder sees them.

Decoders of the ORC C++ library trust that a row index has all its entries and positions, and that a stripe's footer lies
within its stripe. Otherwise they read beyond their memory. So both are checked here. Errors name the file and section.

If a stripe has no filter for a column, ORC 1.5 (Hive 3.1) looks its rows up in the filter of the stripe before, and loses
them. So a stripe that lacks a filter gets one that lets every value pass.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import NoReturn

from google.protobuf.message import DecodeError

from compactor.base.errors import BadFile, NotLossless
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression, decompress
from compactor.orc.format.java_zones import DEFAULT_ZONE
from compactor.orc.format.part_counts import SHORT, Surplus, check_parts
from compactor.orc.format.tail import FilterStream, Stripe, Tail
from compactor.orc.format.types import TEXT_KINDS, TypeKind, Types, cached_with_types
from compactor.orc.io.source import Source
from compactor.settings.file_limits import FOOTER_BYTES, FileLimits, beyond

PRESENT, DATA, LENGTH, DICTIONARY_DATA, DICTIONARY_COUNT, SECONDARY, ROW_INDEX, BLOOM, BLOOM_UTF8 = range(9)
DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2 = range(4)
INDEX_STREAMS = frozenset({ROW_INDEX, BLOOM, BLOOM_UTF8})
DATA_STREAMS = frozenset(range(BLOOM_UTF8)) - INDEX_STREAMS
_STREAMS, _COLUMNS, _ENTRIES = 1, 2, 1  #: fields of a stripe's footer, and that of an index
MAX_HASHES = 64  #: functions of a bloom filter; a probability of 1e-19 needs as many
_RUN_LENGTHS = frozenset(
    {
        TypeKind.SHORT,
        TypeKind.INT,
        TypeKind.LONG,
        TypeKind.BINARY,
        TypeKind.TIMESTAMP,
        TypeKind.TIMESTAMP_INSTANT,
        TypeKind.LIST,
        TypeKind.MAP,
        TypeKind.DECIMAL,
        TypeKind.DATE,
    }
)


SHORT_FOOTER = 512  #: bytes in the file
UTC_ENCODING = 1  #: of filters with texts in UTF-8 and timestamps in UTC; all filters that are encoded here have it
NO_ENCODING = -1  #: Trino records no encoding, and Java then ignores the filter


def read_stripe_footer(source: Source, tail: Tail, stripe_index: int) -> messages.Message:
    """Reads the footer of one stripe. Callers must not change it.

    A short footer is remembered until another one is read: a tiny file's footer is needed several times, and reading it
    takes as long as decoding the rows.

    Raises:
        BadFile: it cannot be read, or lists streams or columns that this stripe does not have.
    """
    if stripe_index in tail.last_footer:
        return tail.last_footer[stripe_index]
    stripe = tail.stripes[stripe_index]
    where = f"{tail.name}, stripe {stripe_index}"
    data = _read(source, tail, stripe.end - stripe.footer_length, stripe.footer_length, where, "footer")
    columns = len(tail.types)
    allowed = {_STREAMS: columns * (BLOOM_UTF8 + 1), _COLUMNS: columns}
    footer = _parse(messages.StripeFooter, data, where, "footer", allowed, source.limits)
    _check_streams(footer, stripe, columns, where)
    _check_encodings(footer, tail, where)
    tail.zones[stripe_index] = zone_named(footer)
    tail.last_footer.clear()
    if stripe.footer_length <= SHORT_FOOTER:
        tail.last_footer[stripe_index] = footer
    return footer


def zone_named(footer: messages.Message) -> str:
    """Returns the writer's time zone that a stripe's footer names, or an empty text."""
    return str(footer.writer_timezone.decode("utf-8", "replace"))


def stripe_zone(source: Source, tail: Tail, stripe_index: int) -> str:
    """Returns the writer's time zone that a stripe names. Reads its footer at most once for that.

    Raises:
        BadFile: the footer cannot be read.
    """
    if stripe_index not in tail.zones:
        read_stripe_footer(source, tail, stripe_index)
    return tail.zones[stripe_index]


def writer_zone(source: Source, tail: Tail, stripe_index: int) -> str:
    """Returns the zone in which a stripe's times count: its writer's, or the default zone.

    Raises:
        BadFile: the footer cannot be read.
        NotLossless: the stripe names no zone, and no default is set. Readers of such stripes use their machine's zone.
    """
    if name := stripe_zone(source, tail, stripe_index) or tail.default_zone:
        return name
    raise NotLossless(
        f"file {tail.name}, stripe {stripe_index}: has timestamps without their writer's time zone, as of Hive before 1.2; "
        f"set {DEFAULT_ZONE} of the table or site to the zone of that writer, such as Europe/Berlin"
    )


def _check_streams(footer: messages.Message, stripe: Stripe, columns: int, where: str) -> None:
    seen: set[int] = set()
    data = indexes = 0
    for stream in footer.streams:
        kind, column = stream.kind, stream.column
        place = column << 4 | kind
        if kind > BLOOM_UTF8 or column >= columns or place in seen:
            _report_damage(
                where,
                f"its footer has a stream of kind {kind} and column {column} that is unknown or a duplicate "
                f"(kinds 0..{BLOOM_UTF8}, columns 0..{columns - 1})",
            )
        seen.add(place)
        if kind < ROW_INDEX:
            data += stream.length
        else:
            indexes += stream.length
    if data != stripe.data_length or indexes != stripe.index_length:
        _report_damage(
            where,
            f"its footer has {indexes} bytes of indexes and {data} of data, the file's footer says "
            f"{stripe.index_length} and {stripe.data_length}",
        )


def _check_encodings(footer: messages.Message, tail: Tail, where: str) -> None:
    encodings = [encoding.kind for encoding in footer.columns]
    allowed = _encodings(tail.types)
    if len(encodings) != len(allowed):
        _report_damage(where, f"its footer has {len(encodings)} encodings for {len(allowed)} columns")
    for number, kind in enumerate(encodings):
        if kind not in allowed[number]:
            name = tail.types[number].kind.name
            _report_damage(
                where, f"column {number} ({name}) has encoding {kind}, one of {allowed[number]} was expected"
            )


@cached_with_types
def _encodings(types: Types) -> tuple[tuple[int, ...], ...]:
    """Returns the encodings that each column may have."""
    return tuple(
        (DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2)
        if item.kind in TEXT_KINDS
        else (DIRECT, DIRECT_V2)
        if item.kind in _RUN_LENGTHS
        else (DIRECT,)
        for item in types
    )


def check_key_index(source: Source, tail: Tail, stripe_index: int, footer: messages.Message) -> None:
    """Checks that rows can be looked up by their keys.

    The row indexes of the root and the key columns must have an entry for each row group and agree with the stripe's
    statistics, and bloom filters must be of a plausible size.

    Raises:
        BadFile: an index lacks entries or contradicts the statistics, or a bloom filter has an implausible size.
    """
    if not tail.is_acid or tail.row_index_stride == 0:
        return
    stripe = tail.stripes[stripe_index]
    keys = (0, *tail.types.keys)
    present = {stream.column for stream in footer.streams if stream.kind == PRESENT}
    indexed: set[int] = set()
    where = f"{tail.name}, stripe {stripe_index}"
    for kind, column, index in read_indexes(source, tail, stripe_index, footer, keys):
        if kind == ROW_INDEX:
            indexed.add(column)
            _check_entries(index.entry, tail, stripe_index, column, column in present, where)
    # Trino writes no index for the root, which has no nulls
    if stripe.rows and (missing := set(keys) - indexed - ({0} - present)):
        _report_damage(where, f"no row index of columns {sorted(missing)}")


def read_indexes(
    source: Source,
    tail: Tail,
    stripe_index: int,
    footer: messages.Message,
    columns: Container[int],
    kinds: Container[int] = INDEX_STREAMS,
) -> Iterator[tuple[int, int, messages.Message]]:
    """Yields kind, column and content of each index of a stripe with these ``kinds`` and ``columns``.

    Raises:
        BadFile: an index cannot be read, has more entries than the stripe has row groups, or is a bloom filter of an
            implausible size.
    """
    stripe = tail.stripes[stripe_index]
    where = f"{tail.name}, stripe {stripe_index}"
    allowed = {_ENTRIES: -(-stripe.rows // (tail.row_index_stride or 1))}
    place = stripe.offset
    for stream in footer.streams:
        kind, column = stream.kind, stream.column
        if kind in kinds and column in columns:
            part = f"index of column {column}"
            data = _read(source, tail, place, stream.length, where, part)
            message = messages.RowIndex if kind == ROW_INDEX else messages.BloomFilterIndex
            index = _parse(message, data, where, part, allowed, source.limits)
            if kind != ROW_INDEX:
                _check_bloom(index, column, where)
            yield kind, column, index
        place += stream.length


def _check_entries(
    entries: Sequence[messages.Message], tail: Tail, stripe_index: int, column: int, has_present: bool, where: str
) -> None:
    groups = -(-tail.stripes[stripe_index].rows // tail.row_index_stride)
    if len(entries) != groups:
        _report_damage(where, f"the row index of column {column} has {len(entries)} entries for {groups} row groups")
    offset = 1 if tail.compression is Compression.NONE else 2
    least = (offset + 2 if has_present else 0) + (offset + 1 if column else 0)
    if any(len(entry.positions) < least for entry in entries):
        _report_damage(where, f"the row index of column {column} has entries with fewer than {least} positions")
    if column == 0 or tail.stripe_statistics is None:
        return
    expected = tail.stripe_statistics[stripe_index][column]
    parts = [entry.statistics for entry in entries]
    counted = sum(part.number_of_values for part in parts)
    if not expected.int_statistics.HasField("minimum") or counted != expected.number_of_values:
        return
    numbers = [part.int_statistics for part in parts if part.int_statistics.HasField("minimum")]
    if len(numbers) == len(parts) and (
        min(n.minimum for n in numbers) != expected.int_statistics.minimum
        or max(n.maximum for n in numbers) != expected.int_statistics.maximum
    ):
        _report_damage(where, f"the row index of column {column} contradicts the stripe's statistics")


def _check_bloom(index: messages.Message, column: int, where: str) -> None:
    for item in index.bloom_filter:
        size = max(8 * len(item.bitset), len(item.utf8bitset))
        if not 0 < item.num_hash_functions <= MAX_HASHES or size == 0:
            _report_damage(
                where,
                f"a bloom filter of column {column} has {item.num_hash_functions} functions over {size} bytes, "
                f"1..{MAX_HASHES} over at least one byte were expected",
            )


def _read(source: Source, tail: Tail, start: int, length: int, where: str, part: str) -> bytes:
    """Returns the plain bytes of a footer or index."""
    limits = source.limits
    if length > limits.footer_bytes:
        raise beyond(where, f"its {part} has {length} bytes", limits.footer_bytes, FOOTER_BYTES)
    data = source.read(start, length)
    return decompress(data, tail.compression, tail.compression_block_size, where, part=part, limits=limits)


def _parse(
    kind: messages.Message, data: bytes, where: str, part: str, allowed: Mapping[int, int], limits: FileLimits
) -> messages.Message:
    try:
        if len(data) > SHORT:
            check_parts(data, allowed, limits.parts)
        return kind.FromString(data)
    except Surplus as surplus:
        if surplus.field == 0:
            raise limits.too_many_parts(where, part, surplus.count) from None
        _report_damage(
            where, f"its {part} has {surplus.count} entries or more, at most {allowed[surplus.field]} were expected"
        )
    except DecodeError as error:
        raise BadFile(f"file {where}: its {part} cannot be read ({error}); restore the file or move it away") from error


def _report_damage(where: str, what: str) -> NoReturn:
    raise BadFile(f"file {where}: {what}; the file is damaged, restore it or move it away")


def filter_streams(footer: messages.Message) -> frozenset[FilterStream]:
    """Returns the filters that the footer of a stripe lists."""
    return frozenset(
        [
            FilterStream(stream.column, stream.kind, _encoding(footer.columns[stream.column]))
            for stream in footer.streams
            if stream.kind == BLOOM_UTF8 or stream.kind == BLOOM
        ]
    )


def _encoding(column: messages.Message) -> int:
    return column.bloom_encoding if column.HasField("bloom_encoding") else NO_ENCODING


def with_one_encoding(streams: Collection[FilterStream]) -> frozenset[FilterStream]:
    """Returns the streams with one encoding for each column: the newest."""
    encodings: dict[int, int] = {}
    for column, _, encoding in streams:
        encodings[column] = max(encoding, encodings.get(column, NO_ENCODING))
    return frozenset(FilterStream(column, kind, encodings[column]) for column, kind, _ in streams)


def open_filters(kind: int, row_groups: int) -> bytes:
    """Returns the content of a stream with a filter for each row group that lets every value pass."""
    index = messages.BloomFilterIndex()
    for _ in range(row_groups):
        if kind == BLOOM_UTF8:
            index.bloom_filter.add(num_hash_functions=1, utf8bitset=b"\xff" * 8)
        else:
            index.bloom_filter.add(num_hash_functions=1, bitset=[(1 << 64) - 1])
    return bytes(index.SerializeToString())


def set_encoding(footer: messages.Message, stream: FilterStream) -> None:
    """Writes the encoding of a column's filters into the footer of a stripe."""
    if stream.encoding == NO_ENCODING:
        footer.columns[stream.column].ClearField("bloom_encoding")
    else:
        footer.columns[stream.column].bloom_encoding = stream.encoding
