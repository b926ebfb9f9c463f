"""Reads the tail of an ORC file: everything that planning needs to know, in one or two small reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from compactor.base.errors import BadFile
from compactor.orc.format import messages
from compactor.orc.format.compression import MAX_BLOCK, Compression, decompress
from compactor.orc.format.part_counts import SHORT, Surplus, check_parts
from compactor.orc.format.types import Types, from_messages
from compactor.orc.io.source import Source
from compactor.settings.file_limits import FOOTER_BYTES, FileLimits, beyond
from compactor.settings.output_class import OutputClass

MAGIC = b"ORC"
JULIAN, PROLEPTIC_GREGORIAN = 1, 2  #: numbers of calendars; the first changes to the Gregorian calendar in 1582
FIRST_GREGORIAN_DAY = -141_427  #: 1582-10-15, in days from 1970-01-01: from here on all calendars agree
FIRST_READ = 16 * 1024  #: bytes at the end that mostly hold the whole tail
MAX_TAIL = 1 << 30  #: bytes; a tail that claims to be longer is damaged
MAX_ROWS = (1 << 31) - 1  #: of a stripe; no writer counts further
DEFAULT_BLOCK = 256 * 1024  #: bytes of a compression block if the postscript names no size
_COMPRESSIONS = tuple(Compression)  #: by their numbers
FILE_VERSIONS = ((), (0, 11), (0, 12))  #: the earliest files have none


class Stripe(NamedTuple):
    """The offset and lengths of a stripe, in bytes, and its number of rows."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def length(self) -> int:
        return self.index_length + self.data_length + self.footer_length

    @property
    def end(self) -> int:
        return self.offset + self.index_length + self.data_length + self.footer_length


class StripeClass(NamedTuple):
    """The properties that stripes of one file must have in common (PROTOCOL 2.2).

    ``types`` lacks the names that readers ignore. ``calendar`` is None if no column depends on it. An unset calendar is a
    separate class: all versions of Hive write 1, Trino writes nothing, and readers guess what that means.
    """

    types: Types
    file_version: tuple[int, ...]
    compression: Compression
    row_index_stride: int
    calendar: int | None


class FilterStream(NamedTuple):
    """The bloom filters of one column, with the kind (``BLOOM`` or ``BLOOM_UTF8``) and the encoding."""

    column: int
    kind: int
    encoding: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The bloom filters that every stripe of a file has, and the columns for which an encoder writes them."""

    streams: frozenset[FilterStream] = frozenset()
    encoded: frozenset[int] = frozenset()


@dataclass(kw_only=True)
class Tail:
    """PostScript, footer and stripe statistics of one file.

    ``stripe_statistics`` is None if the file lacks them for some stripe or column. ``writer`` and ``writer_version`` are the
    specification's numbers. ``calendar`` is 0 for unset, 1 for Julian and Gregorian, 2 for proleptic Gregorian.
    ``row_index_stride`` is in rows; 0 means that there is no row index. Statistics are messages: compare them, but never
    change them.

    A tail never changes. Only the type checker enforces that, because freezing would take a seventh of the time of reading
    a small file's tail. It has no slots, because it caches derived values.
    """

    name: Final[str]
    length: Final[int]
    file_version: Final[tuple[int, ...]]
    writer: Final[int]
    writer_version: Final[int]
    software: Final[str]
    compression: Final[Compression]
    compression_block_size: Final[int]
    row_index_stride: Final[int]
    calendar: Final[int]
    types: Final[Types]
    stripes: Final[tuple[Stripe, ...]]
    stripe_statistics: Final[tuple[tuple[messages.Message, ...], ...] | None]
    statistics: Final[Sequence[messages.Message]]
    user_metadata: Final[Mapping[str, bytes]]
    rows: Final[int]
    header_length: Final[int]
    content_length: Final[int]
    encrypted: Final[bool]
    requested_class: Final[OutputClass | None] = None  #: for files written like this one; never stored in a file
    filters: Final[Filters | None] = None  #: for files written like this one; None for those of the first stripe
    default_zone: Final[str | None] = None  #: of stripes that name no writer's zone; never stored in a file

    @property
    def is_acid(self) -> bool:
        """True if the file has ACID events; otherwise it is an original file."""
        return self.types.is_acid

    @property
    def is_proleptic(self) -> bool:
        """True if days and times count in the proleptic Gregorian calendar; false if the calendar is unset."""
        return self.calendar == PROLEPTIC_GREGORIAN

    @cached_property
    def stripe_class(self) -> StripeClass:
        """The class of the file's stripes."""
        return StripeClass(
            types=self.types.shape,
            file_version=self.file_version,
            compression=self.compression,
            row_index_stride=self.row_index_stride,
            calendar=self.calendar if self.types.calendar_columns else None,
        )

    @property
    def is_for_orc_1_5(self) -> bool:
        """True if ORC Java 1.5 reads files that are written like this one."""
        return self.requested_class is not None and self.requested_class.is_for_orc_1_5

    @cached_property
    def zones(self) -> dict[int, str]:
        """The zone that each stripe names whose footer has been read, by the stripe's number.

        May be an empty text.
        """
        return {}

    @cached_property
    def last_footer(self) -> dict[int, messages.Message]:
        """The most recent stripe footer, by the stripe's number, if it is short."""
        return {}

    @cached_property
    def complete_statistics(self) -> bool:
        """True if each stripe has statistics of each column that cover all its rows."""
        return self.stripe_statistics is not None and all(
            stripe.rows == columns[0].number_of_values
            for stripe, columns in zip(self.stripes, self.stripe_statistics, strict=True)
        )


def empty_tail(
    types: Types,
    *,
    compression: Compression = Compression.ZLIB,
    compression_block_size: int = 256 * 1024,
    row_index_stride: int = 10_000,
    calendar: int = 0,
    name: str = "<new>",
    requested_class: OutputClass | None = None,
    filters: Filters | None = None,
) -> Tail:
    """Returns the tail of a new file without rows: the template if no input can be one."""
    return Tail(
        name=name,
        length=0,
        file_version=(0, 12),
        writer=0,
        writer_version=6,
        software="",
        compression=compression,
        compression_block_size=compression_block_size,
        row_index_stride=row_index_stride,
        calendar=calendar,
        types=types,
        stripes=(),
        stripe_statistics=(),
        statistics=(),
        user_metadata=MappingProxyType({}),
        rows=0,
        header_length=len(MAGIC),
        content_length=len(MAGIC),
        encrypted=False,
        requested_class=requested_class,
        filters=filters,
    )


def read_tail(source: Source, length: int | None = None) -> Tail:
    """Reads the tail of ``source``, or of its first ``length`` bytes (of a streaming file).

    Raises:
        BadFile: the file is empty, truncated, not ORC, beyond its source's limits, or its tail contradicts itself.
    """
    end = source.length if length is None else length
    name = source.name
    if end == 0:
        raise BadFile(f"file {name}: 0 bytes; an ORC file has at least a footer, restore it or remove it")
    if end > source.length:
        raise BadFile(f"file {name}: has {source.length} bytes, expected {end}; the file is truncated, restore it")
    read = min(end, FIRST_READ)
    data = source.read(end - read, read)
    size = 1 + data[-1]
    script = _post_script(data, size, name)
    tail_size = size + script.footer_length + script.metadata_length
    if tail_size > min(end - len(MAGIC), MAX_TAIL):
        raise BadFile(f"file {name}: a tail of {tail_size} bytes in a file of {end}; the file is truncated or damaged")
    limits = source.limits
    if (longest := max(script.footer_length, script.metadata_length)) > limits.footer_bytes:
        raise beyond(name, f"its footer or metadata has {longest} bytes", limits.footer_bytes, FOOTER_BYTES)
    if tail_size > len(data):
        data = source.read(end - tail_size, tail_size - len(data)) + data
    metadata_start = len(data) - tail_size
    footer_start = metadata_start + script.metadata_length
    compression, block = _COMPRESSIONS[script.compression], script.compression_block_size or DEFAULT_BLOCK
    plain = decompress(data[footer_start : len(data) - size], compression, block, name, part="footer", limits=limits)
    footer = _footer(plain, name, limits)
    plain = decompress(data[metadata_start:footer_start], compression, block, name, part="metadata", limits=limits)
    metadata = _metadata(plain, name, limits)
    return _tail(script, footer, metadata, name, end, end - tail_size - script.stripe_statistics_length, limits.depth)


def _post_script(data: bytes, size: int, name: str) -> messages.Message:
    if size > len(data):
        raise BadFile(
            f"file {name}: a postscript of {size} bytes in a file of {len(data)}; it is not ORC, or truncated"
        )
    script = _parse(messages.PostScript, data[-size:-1], name)
    if script.magic != MAGIC:
        raise BadFile(
            f"file {name}: its end is not an ORC postscript (magic {script.magic!r}, expected {MAGIC!r}); "
            "it is not ORC, or truncated; restore it or move it away"
        )
    if script.compression >= len(_COMPRESSIONS):
        raise BadFile(f"file {name}: compression {script.compression} is unknown, 0..{max(Compression)} are known")
    if tuple(script.version) not in FILE_VERSIONS:
        raise BadFile(f"file {name}: file version {list(script.version)} is unknown, 0.11 and 0.12 are known")
    if script.compression_block_size > MAX_BLOCK + 1:
        raise BadFile(f"file {name}: compression blocks of {script.compression_block_size} bytes, at most {MAX_BLOCK}")
    return script


_FOOTER_FIELDS = {field.name: field.number for field in messages.Footer.DESCRIPTOR.fields}
_STRIPES, _TYPES, _STATISTICS = (_FOOTER_FIELDS[name] for name in ("stripes", "types", "statistics"))
_STRIPE_STATISTICS = 1  #: the only field of a file's metadata


def _footer(data: bytes, name: str, limits: FileLimits) -> messages.Message:
    if len(data) > SHORT:
        allowed = {_STRIPES: limits.stripes, _TYPES: limits.columns, _STATISTICS: limits.columns}
        try:
            check_parts(data, allowed, limits.parts, inside=_TYPES)
        except Surplus as surplus:
            raise _too_many(surplus, "footer", name, limits) from None
    footer = _parse(messages.Footer, data, name)
    if (stripes := len(footer.stripes)) > limits.stripes:
        raise limits.too_many_stripes(name, stripes)
    if (columns := max(len(footer.types), len(footer.statistics))) > limits.columns:
        raise limits.too_many_columns(name, columns)
    return footer


def _metadata(data: bytes, name: str, limits: FileLimits) -> messages.Message:
    if len(data) > SHORT:
        try:
            check_parts(data, {_STRIPE_STATISTICS: limits.stripes}, limits.parts, inside=_STRIPE_STATISTICS)
        except Surplus as surplus:
            raise _too_many(surplus, "metadata", name, limits) from None
    return _parse(messages.Metadata, data, name)


def _too_many(surplus: Surplus, part: str, name: str, limits: FileLimits) -> BadFile:
    if surplus.field == 0:
        return limits.too_many_parts(name, part, surplus.count)
    is_of_stripes = part == "metadata" or surplus.field == _STRIPES
    return (limits.too_many_stripes if is_of_stripes else limits.too_many_columns)(name, surplus.count)


def _parse(kind: Any, data: bytes, name: str) -> messages.Message:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        part = kind.DESCRIPTOR.name
        raise BadFile(
            f"file {name}: its {part} cannot be read ({error}); it is not ORC, or damaged; restore it or move it away"
        ) from error


def _tail(
    script: messages.Message,
    footer: messages.Message,
    metadata: messages.Message,
    name: str,
    length: int,
    end: int,
    depth: int,
) -> Tail:
    types = from_messages(footer.types, name, depth)
    stripes = tuple(
        [
            Stripe(item.offset, item.index_length, item.data_length, item.footer_length, item.number_of_rows)
            for item in footer.stripes
        ]
    )
    encrypted = footer.HasField("encryption") or script.stripe_statistics_length > 0
    _check_stripes(stripes, footer.number_of_rows, end, name)
    per_stripe = tuple([tuple(item.col_stats) for item in metadata.stripe_stats])
    complete = [len(columns) for columns in per_stripe] == [len(types)] * len(stripes)
    return Tail(
        name=name,
        length=length,
        file_version=tuple(script.version),
        writer=footer.writer,
        writer_version=script.writer_version,
        software=footer.software_version.decode("utf-8", "replace"),
        compression=_COMPRESSIONS[script.compression],
        compression_block_size=script.compression_block_size or DEFAULT_BLOCK,
        row_index_stride=footer.row_index_stride,
        calendar=footer.calendar,
        types=types,
        stripes=stripes,
        stripe_statistics=per_stripe if complete else None,
        statistics=footer.statistics,
        user_metadata=MappingProxyType(
            {item.name.decode("utf-8", "surrogateescape"): item.value for item in footer.metadata}
        ),
        rows=footer.number_of_rows,
        header_length=footer.header_length,
        content_length=footer.content_length,
        encrypted=encrypted,
    )


def _check_stripes(stripes: tuple[Stripe, ...], rows: int, end: int, name: str) -> None:
    place, rows_in_stripes = len(MAGIC), 0
    for number, stripe in enumerate(stripes):
        stripe_end = stripe.end
        if stripe.offset < place or stripe_end > end:
            raise BadFile(
                f"file {name}: stripe {number} is at {stripe.offset}..{stripe.end}, expected within {place}..{end}; "
                "the footer is damaged or of another file"
            )
        if stripe.rows > MAX_ROWS:
            raise BadFile(
                f"file {name}: stripe {number} claims {stripe.rows} rows, no writer makes more than {MAX_ROWS}; "
                "the footer is damaged, restore the file or move it away"
            )
        place = stripe_end
        rows_in_stripes += stripe.rows
    if rows_in_stripes != rows:
        raise BadFile(f"file {name}: {rows} rows in the footer, {rows_in_stripes} in its stripes; the file is damaged")


class KeyRange(NamedTuple):
    """The smallest and largest value of a key column in a stripe.

    ``total`` is the sum; None if it overflowed.
    """

    minimum: int
    maximum: int
    total: int | None

    @property
    def is_one(self) -> bool:
        """True if all values are equal."""
        return self.minimum == self.maximum


class KeyStatistics(NamedTuple):
    """Facts about the keys of a stripe's ``rows`` rows, from its statistics."""

    rows: int
    operation: KeyRange
    original_transaction: KeyRange
    bucket: KeyRange
    row_id: KeyRange
    current_transaction: KeyRange


def key_statistics(tail: Tail, stripe_index: int) -> KeyStatistics | None:
    """Returns the key ranges of one stripe; None if its statistics are unusable (PROTOCOL 2.1).

    They are unusable if some key column's statistics do not cover every row or lack minimum or maximum, or if the file has
    no ACID events.
    """
    if tail.stripe_statistics is None or not tail.is_acid:
        return None
    rows = tail.stripes[stripe_index].rows
    columns = tail.stripe_statistics[stripe_index]
    ranges = []
    for column in tail.types.keys:
        known = columns[column]
        numbers = known.int_statistics
        # a number other than 0 is surely set, so HasField is needed only for 0
        minimum, maximum, total = numbers.minimum, numbers.maximum, numbers.sum
        if (
            known.number_of_values != rows
            or known.has_null
            or not (minimum or numbers.HasField("minimum"))
            or not (maximum or numbers.HasField("maximum"))
        ):
            return None
        ranges.append(KeyRange(minimum, maximum, total if total or numbers.HasField("sum") else None))
    return KeyStatistics(rows, *ranges)
