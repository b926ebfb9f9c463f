"""The slow codec: pyorc with raw values, for rows that Arrow's adapter cannot hold without loss.

Its Arrow batches hold a timestamp as ``struct<seconds,nanos>`` since 1970, by the wall clock or in UTC according to the
column's kind. That holds every value of an ORC file. All other columns are as in ``arrow_codec``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Context, Decimal
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyorc
from pyorc.converters import ORCConverter

from compactor.base.errors import NotLossless, NotSupported
from compactor.orc.codecs.arrow_types import Array, ArrowType, arrow_type
from compactor.orc.codecs.bloom_filters import false_positives
from compactor.orc.codecs.codec import (
    column_names,
    decoding_failed,
    encoder_block_size,
    name_file_in_errors,
    stripe_bytes,
)
from compactor.orc.codecs.stripe_view import StripeView, batch_rows
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.java_zones import UTC_NAME
from compactor.orc.format.length_checks import exact_lengths
from compactor.orc.format.plain_streams import plain_streams
from compactor.orc.format.stripe_footer import LENGTH, read_stripe_footer
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TypeKind, Types, cached_with_types, subtree
from compactor.orc.io.source import Source, SourceFile

name = "pyorc"
COMPRESSIONS = {
    Compression.NONE: pyorc.CompressionKind.NONE,
    Compression.ZLIB: pyorc.CompressionKind.ZLIB,
    Compression.SNAPPY: pyorc.CompressionKind.SNAPPY,
    Compression.LZ4: pyorc.CompressionKind.LZ4,
    Compression.ZSTD: pyorc.CompressionKind.ZSTD,
}
TIMESTAMP = pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())])
_EXACT = Context(prec=76)
_TIMESTAMPS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
_LARGEST_HIDDEN = 999_999  #: nanoseconds up to which readers do not correct the second for rounding
#: The values for which this codec writes instead of Arrow, for messages.
_BESIDE_TIMES = "next to timestamps that are before 1970 with a fraction of a second, before 1677 or after 2262"


class _RawTimestamp(ORCConverter):  # type: ignore[misc]  # pyorc has no types
    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: object) -> tuple[int, int]:
        return seconds, nanoseconds

    @staticmethod
    def to_orc(value: tuple[int, int], timezone: object) -> tuple[int, int]:
        return value


class _RawDate(ORCConverter):  # type: ignore[misc]  # pyorc has no types
    @staticmethod
    def from_orc(days: int) -> int:
        return days

    @staticmethod
    def to_orc(days: int) -> int:
        return days


class _RawDecimal(ORCConverter):  # type: ignore[misc]  # pyorc has no types
    @staticmethod
    def from_orc(text: str) -> Decimal:
        return Decimal(text)

    @staticmethod
    def to_orc(precision: int, scale: int, value: Decimal) -> int:
        return int(value.scaleb(scale, _EXACT))


CONVERTERS = {
    pyorc.TypeKind.TIMESTAMP: _RawTimestamp,
    pyorc.TypeKind.TIMESTAMP_INSTANT: _RawTimestamp,
    pyorc.TypeKind.DATE: _RawDate,
    pyorc.TypeKind.DECIMAL: _RawDecimal,
}


def raw_type(types: Types, root: int = 0) -> ArrowType:
    """Returns the Arrow type of column ``root`` in this codec's batches.

    Raises:
        NotLossless: pyorc does not return values of this kind completely (unions lack their tags), or has no maps with such
            keys.
    """
    for number in range(root, root + len(subtree(types, root))):
        if types[number].kind is TypeKind.MAP and any(
            item.kind in (TypeKind.LIST, TypeKind.MAP) for item in subtree(types, types[number].children[0])
        ):
            raise NotLossless(
                f"column {number}: a map whose keys hold arrays or maps cannot be encoded {_BESIDE_TIMES}; insert other "
                "rows; if the rows are in the table already, rewrite the partition with INSERT OVERWRITE"
            )
    return arrow_type(types, root, timestamp=TIMESTAMP)


@cached_with_types
def schema(types: Types) -> pa.Schema:
    """Returns the Arrow schema of a file's batches."""
    fields = [raw_type(types, child) for child in types[0].children]
    return pa.schema([pa.field(field, kind) for field, kind in zip(column_names(types), fields, strict=True)])


def read_batches(
    source: Source,
    tail: Tail,
    *,
    columns: Sequence[int] | None = None,
    stripes: Sequence[int] | None = None,
    rows: int | None = None,
    inner: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of ``stripes`` (default: all), in batches that bound memory by rows × width.

    With ``inner``, yields only these columns (ids) within the row of an ACID file.

    Raises:
        NotLossless: a value cannot be represented: a union, a text that is not UTF-8, a NULL key of a map. Also raised
            after the last batch if a map had a key twice.
        BadFile: the stripes cannot be decoded.
    """
    chosen = range(len(tail.stripes)) if stripes is None else stripes
    places = range(len(tail.types[0].children)) if columns is None else columns
    children = [tail.types[0].children[place] for place in places]
    names = [column_names(tail.types)[place] for place in places]
    if inner is not None:
        places, children = range(len(inner)), list(inner)
        names = [f"f{place}" for place in places]
    with name_file_in_errors(tail):
        kinds = [raw_type(tail.types, child) for child in children]
    expected_schema = pa.schema([pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)])
    size = max(16, (rows or batch_rows(tail, chosen, columns, inner)) // (1 if rows else 8))
    view = StripeView(source, tail, chosen, columns, 8 * size, inner)
    size = max(1, view.rows_at_once // 8)
    values = Values(tail, children, kinds, in_given_order=inner is not None)
    try:
        reader = pyorc.Reader(view, batch_size=min(size, 1024), column_indices=list(places), converters=CONVERTERS)
        while batch := list(islice(reader, size)):
            yield pa.RecordBatch.from_arrays(values.arrays(batch), schema=expected_schema)
    except (pyorc.errors.ORCError, UnicodeDecodeError, ValueError, OSError) as error:
        raise decoding_failed(tail, error) from error
    if values.entries != (expected := _entries(source, tail, chosen, children)):
        raise NotLossless(
            f"file {tail.name}: {expected - values.entries} of {expected} entries of maps have a key that occurs twice in "
            "its map (0.0 and -0.0 count as one here); such rows cannot be re-encoded; rewrite the partition with INSERT "
            "OVERWRITE"
        )


def read_rows(source: Source, tail: Tail, ranges: Sequence[range]) -> Iterator[pa.RecordBatch]:
    """Yields rows of a file that was encoded here, without the checks of ``read_batches``.

    Raises:
        NotLossless: a value cannot be represented.
        BadFile: the file cannot be decoded.
    """
    children = list(tail.types[0].children)
    expected_schema = schema(tail.types)
    values = Values(tail, children, list(expected_schema.types))
    try:
        reader = pyorc.Reader(SourceFile(source, tail.length), batch_size=1024, converters=CONVERTERS)
        for rows in ranges:
            reader.seek(rows.start)
            for start in range(rows.start, rows.stop, 1024):
                batch = list(islice(reader, min(1024, rows.stop - start)))
                yield pa.RecordBatch.from_arrays(values.arrays(batch), schema=expected_schema)
    except (pyorc.errors.ORCError, UnicodeDecodeError, ValueError, OSError) as error:
        raise decoding_failed(tail, error) from error


class Values:
    """Turns rows of pyorc into arrays of ``columns`` (ids), of the types ``kinds``.

    Args:
        in_given_order: rows have their columns in the order of ``columns``, otherwise in the file's order.
    """

    def __init__(
        self, tail: Tail, columns: Sequence[int], kinds: Sequence[ArrowType], *, in_given_order: bool = False
    ) -> None:
        self._tail, self._columns, self._kinds = tail, columns, kinds
        places = range(len(columns))
        self._order = places if in_given_order else sorted(places, key=lambda place: columns[place])
        self._plain = _PlainValues(tail.types)

    @property
    def entries(self) -> int:
        """The number of entries of maps so far."""
        return self._plain.entries

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> list[Array]:
        arrays: list[Array] = [pa.nulls(0)] * len(self._columns)
        for position, place in enumerate(self._order):
            values = [self._plain(row[position], self._columns[place]) for row in rows]
            arrays[place] = _array(values, self._kinds[place], self._tail)
        return arrays


def _array(values: list[Any], kind: ArrowType, tail: Tail) -> Array:
    try:
        return pa.array(values, kind)
    except MemoryError:
        raise
    except (pa.ArrowException, TypeError) as error:
        raise NotLossless(
            f"file {tail.name}: a value of {kind} cannot be represented ({error}); its rows cannot be re-encoded"
        ) from error


class _PlainValues:
    """Converts pyorc's values to values that Arrow accepts: maps become lists of pairs.

    ``entries`` counts the pairs, because pyorc turns a map into a dictionary, which drops entries with equal keys.
    """

    def __init__(self, types: Types) -> None:
        self._types = types
        self.entries = 0

    def __call__(self, value: Any, column: int) -> Any:
        item = self._types[column]
        if value is None or not item.children:
            return value
        if item.kind is TypeKind.STRUCT:
            return tuple(self(part, child) for part, child in zip(value, item.children, strict=True))
        if item.kind is TypeKind.LIST:
            return [self(part, item.children[0]) for part in value]
        key, content = item.children
        self.entries += len(value)
        return [(self(k, key), self(v, content)) for k, v in value.items()]


def _entries(source: Source, tail: Tail, stripes: Sequence[int], columns: Sequence[int]) -> int:
    """Counts the entries of all maps in or below ``columns`` of these stripes, by their length streams."""
    maps = frozenset(
        number
        for column in columns
        for number in range(column, column + len(subtree(tail.types, column)))
        if tail.types[number].kind is TypeKind.MAP
    )
    footers = {number: read_stripe_footer(source, tail, number) for number in stripes} if maps else {}
    return sum(
        exact_lengths(stream, footer).total
        for number, footer in footers.items()
        for stream in plain_streams(source, tail, number, footer, maps, kinds=frozenset({LENGTH}))
    )


class PyorcWriter:
    """Encodes batches; see ``codec.BatchWriter``."""

    def __init__(
        self, path: str | os.PathLike[str], *, like: Tail, types: Types, filtered: Collection[int] = ()
    ) -> None:
        if like.compression not in COMPRESSIONS or like.file_version != (0, 12):
            raise NotSupported(
                f"file {like.name}: compression {like.compression.name}, file version {like.file_version} cannot be "
                "written here; run a major compaction of Hive once"
            )
        self._path = Path(path)
        self._types = types.for_encoders
        raw_type(types)
        self._file = open(path, "wb")  # noqa: SIM115 - closed by __exit__
        self._writer = pyorc.Writer(
            self._file,
            schema_text(self._types),
            stripe_size=stripe_bytes(like),
            row_index_stride=like.row_index_stride,
            compression=COMPRESSIONS[like.compression],
            compression_block_size=encoder_block_size(like),
            dict_key_size_threshold=0.8,
            bloom_filter_columns=sorted(filtered),
            bloom_filter_fpp=false_positives(like),
            timezone=ZoneInfo(UTC_NAME),
            converters=CONVERTERS,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows."""
        columns = [
            _values(array, self._types, child)
            for array, child in zip(batch.columns, self._types[0].children, strict=True)
        ]
        for row in zip(*columns, strict=True):
            self._writer.write(row)

    def __enter__(self) -> PyorcWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        self._file.close()
        if kind is not None:
            self._path.unlink(missing_ok=True)


def writer(path: str | os.PathLike[str], *, like: Tail, types: Types, filtered: Collection[int] = ()) -> PyorcWriter:
    """Returns a writer of ``types`` in the class of ``like``, with bloom filters of ``filtered``."""
    return PyorcWriter(path, like=like, types=types, filtered=filtered)


def _values(array: Array, types: Types, column: int) -> list[Any]:
    """Returns the values of an Arrow array as pyorc accepts them."""
    item = types[column]
    if item.kind is TypeKind.DATE:
        array = array.cast(pa.int32())
    if item.kind in _TIMESTAMPS:
        pairs = zip(array.field(0).to_pylist(), array.field(1).to_pylist(), array.is_valid().to_pylist(), strict=True)
        return [_timestamp(seconds, nanos) if valid else None for seconds, nanos, valid in pairs]
    if item.kind is TypeKind.STRUCT:
        parts = [_values(part, types, child) for part, child in zip(array.flatten(), item.children, strict=True)]
        rows = zip(*parts, strict=True) if parts else iter([()] * len(array))
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if item.kind is TypeKind.LIST:
        return _spread(array, _values(array.values, types, item.children[0]), list)
    if item.kind is TypeKind.MAP:
        keys = _values(array.keys, types, item.children[0])
        contents = _values(array.items, types, item.children[1])
        return _spread(array, list(zip(keys, contents, strict=True)), _mapping)
    return list(array.to_pylist())


def _timestamp(seconds: int, nanos: int) -> tuple[int, int]:
    """Returns a timestamp that a stripe in UTC can hold, and refuses any other.

    ORC stores a fraction before 1970 under the next whole second. So a time in the last second before 1970 would be read
    back a second later.
    """
    if seconds == -1 and nanos > _LARGEST_HIDDEN:
        raise NotLossless(
            f"a timestamp of 1969-12-31 23:59:59 with a fraction ({nanos} ns), written in another time zone, cannot be "
            "encoded again without moving by a second; rewrite the partition with INSERT OVERWRITE"
        )
    return seconds, nanos


def _mapping(pairs: list[Any]) -> dict[Any, Any]:
    """Returns a map as pyorc accepts it."""
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise NotLossless(
            f"a map that has a key twice cannot be encoded {_BESIDE_TIMES}; insert the key once; if the row is in the "
            "table already, rewrite the partition with INSERT OVERWRITE"
        )
    return mapping


def _spread(array: Array, values: list[Any], kind: Callable[[list[Any]], Any]) -> list[Any]:
    """Splits ``values`` into the lists of ``array``."""
    bounds = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [
        kind(values[start:end]) if present else None
        for start, end, present in zip(bounds[:-1], bounds[1:], valid, strict=True)
    ]
