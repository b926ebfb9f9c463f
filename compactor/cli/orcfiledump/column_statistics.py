"""Column statistics, row indexes and bloom filters as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from compactor.base.errors import BadFile
from compactor.cli.orcfiledump.java_text import (
    decimal_text,
    decode_text,
    double_text,
    float_text,
    hybrid_date_text,
    local_seconds,
    round_text,
    timestamp_text,
)
from compactor.orc.format import messages
from compactor.orc.format.stripe_footer import BLOOM, BLOOM_UTF8, ROW_INDEX, read_indexes
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TEXT_KINDS, OrcType, TypeKind
from compactor.orc.io.source import Source

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_DECIMAL_64 = 18  #: digits up to which Java keeps a decimal as a long
_MOST_NANOS = 999_999  #: below a millisecond, for a maximum without nanoseconds


def statistics_text(statistics: messages.Message, column: OrcType, *, proleptic: bool) -> str:
    """Returns the line that Java's reader prints for ``statistics``.

    Java looks at the kind of statistics, not at the column's type. ``proleptic`` is the file's calendar.
    """
    has_null = statistics.has_null or not statistics.HasField("has_null")
    parts = [f"count: {statistics.number_of_values}", f"hasNull: {'true' if has_null else 'false'}"]
    if statistics.bytes_on_disk:
        parts.append(f"bytesOnDisk: {statistics.bytes_on_disk}")
    for kind, printer in _PRINTERS:
        if statistics.HasField(kind):
            parts += printer(getattr(statistics, kind), statistics.number_of_values, column, proleptic)
            break
    return " ".join(parts)


def _boolean_parts(statistics: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    yield f"true: {statistics.count[0] if statistics.count else 0}"


def _integers(statistics: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if statistics.HasField("minimum"):
        yield f"min: {statistics.minimum}"
        yield f"max: {statistics.maximum if statistics.HasField('maximum') else _LONG_MIN}"
    if statistics.HasField("sum"):
        yield f"sum: {statistics.sum}"


def _collections(statistics: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if count:
        yield f"minChildren: {statistics.min_children if statistics.HasField('min_children') else _LONG_MAX}"
        yield f"maxChildren: {statistics.max_children}"
        if statistics.total_children:
            yield f"totalChildren: {statistics.total_children}"


def _doubles(statistics: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if statistics.HasField("minimum"):
        yield f"min: {double_text(statistics.minimum)}"
        yield f"max: {double_text(statistics.maximum) if statistics.HasField('maximum') else '4.9E-324'}"
    yield f"sum: {double_text(statistics.sum)}"


def _strings(statistics: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    low = _exact_or_bound(statistics, ("minimum", "min"), ("lower_bound", "lower"))
    if low is None:
        return
    yield low
    yield _exact_or_bound(statistics, ("maximum", "max"), ("upper_bound", "upper")) or "max: null"
    yield f"sum: {statistics.sum}"


def _exact_or_bound(statistics: messages.Message, *fields: tuple[str, str]) -> str | None:
    for name, label in fields:
        if statistics.HasField(name):
            return f"{label}: {decode_text(getattr(statistics, name))}"
    return None


def _decimals(statistics: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if not count:
        return
    yield f"min: {_decimal(statistics, 'minimum')}"
    yield f"max: {_decimal(statistics, 'maximum')}"
    if not statistics.HasField("sum"):
        return
    total = decimal_text(decode_text(statistics.sum)) or "null"
    digits = len(total.lstrip("-").partition(".")[0].lstrip("0")) + column.scale
    if column.kind is not TypeKind.DECIMAL or column.precision > _DECIMAL_64 or digits <= _DECIMAL_64:
        yield f"sum: {total}"


def _decimal(statistics: messages.Message, field: str) -> str:
    return (decimal_text(decode_text(getattr(statistics, field))) if statistics.HasField(field) else None) or "null"


def _dates(statistics: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if count:
        low = statistics.minimum if statistics.HasField("minimum") else _INT_MAX
        high = statistics.maximum if statistics.HasField("maximum") else _INT_MIN
        yield f"min: {hybrid_date_text(low, proleptic=proleptic)}"
        yield f"max: {hybrid_date_text(high, proleptic=proleptic)}"


def _timestamps(statistics: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    low, high = _milliseconds(statistics, "minimum", column), _milliseconds(statistics, "maximum", column)
    if low is None or high is None or low > high:
        return
    least = statistics.minimum_nanos - 1 if statistics.HasField("minimum_nanos") else 0
    most = statistics.maximum_nanos - 1 if statistics.HasField("maximum_nanos") else _MOST_NANOS
    yield f"min: {_timestamp(low, least, proleptic)}"
    yield f"max: {_timestamp(high, most, proleptic)}"


def _milliseconds(statistics: messages.Message, field: str, column: OrcType) -> int | None:
    """Returns the wall clock of the writer, or the local one for an instant.

    The oldest writers kept only instants.
    """
    name = f"{field}_utc"
    is_instant = column.kind is TypeKind.TIMESTAMP_INSTANT
    if not statistics.HasField(name):
        name, is_instant = field, True
    if not statistics.HasField(name):
        return None
    value = int(getattr(statistics, name))
    if is_instant:
        seconds, rest = divmod(value, 1000)
        return local_seconds(seconds) * 1000 + rest
    return value


def _timestamp(milliseconds: int, nanos: int, proleptic: bool) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return timestamp_text(seconds, rest * 1_000_000 + nanos, proleptic=proleptic)


def _bytes(statistics: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if count:
        yield f"sum: {statistics.sum}"


_Printer = Callable[[messages.Message, int, OrcType, bool], Iterator[str]]
#: In the order in which Java looks for them.
_PRINTERS: tuple[tuple[str, _Printer], ...] = (
    ("bucket_statistics", _boolean_parts),
    ("int_statistics", _integers),
    ("collection_statistics", _collections),
    ("double_statistics", _doubles),
    ("string_statistics", _strings),
    ("decimal_statistics", _decimals),
    ("date_statistics", _dates),
    ("timestamp_statistics", _timestamps),
    ("binary_statistics", _bytes),
)


#: Versions of Java's writer whose bloom filters of texts, and of times, are the first correct ones.
_HIVE_12055, _ORC_135 = 3, 6
_TIMES = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)


@dataclass(slots=True)
class _Indexes:
    """The indexes of one column; a filter over UTF-8 replaces an older one."""

    rows: messages.Message | None = None
    filters: dict[int, messages.Message] = field(default_factory=dict)

    @property
    def filter(self) -> messages.Message | None:
        return self.filters.get(BLOOM_UTF8, self.filters.get(BLOOM))


def index_lines(
    source: Source, tail: Tail, stripe_index: int, footer: messages.Message, columns: Sequence[int]
) -> Iterator[str]:
    """Yields the lines about ``columns`` of one stripe, in their order.

    Raises:
        BadFile: an index cannot be read.
    """
    indexes: Mapping[int, _Indexes] = {column: _Indexes() for column in columns}
    for kind, column, index in read_indexes(source, tail, stripe_index, footer, frozenset(columns)):
        if kind == ROW_INDEX:
            indexes[column].rows = index
        elif kind == BLOOM_UTF8 or _is_reliable(tail, column):
            indexes[column].filters[kind] = index
    for column in columns:
        yield f"    Row group indices for column {column}:" + ("" if indexes[column].rows else " not found")
        if indexes[column].rows is None:
            yield ""
        else:
            yield from _entry_lines(indexes[column].rows, tail, column)
        if (filters := indexes[column].filter) is not None:
            yield from _filter_lines(filters, tail, column)


def _is_reliable(tail: Tail, column: int) -> bool:
    """Tells whether readers may use a filter of the older kind: early writers hashed some values wrongly."""
    if tail.writer != 0:
        return True
    kind = tail.types[column].kind
    if kind in TEXT_KINDS or kind is TypeKind.DECIMAL:
        return tail.writer_version >= _HIVE_12055
    return kind not in _TIMES or tail.writer_version >= _ORC_135


def _entry_lines(index: messages.Message, tail: Tail, column: int) -> Iterator[str]:
    for number, entry in enumerate(index.entry):
        known = "no stats at "
        if entry.HasField("statistics"):
            known = statistics_text(entry.statistics, tail.types[column], proleptic=tail.is_proleptic)
        yield f"      Entry {number}: {known} positions: {','.join(map(str, entry.positions))}"


def _filter_lines(index: messages.Message, tail: Tail, column: int) -> Iterator[str]:
    yield f"    Bloom filters for column {column}:"
    whole: np.ndarray[tuple[int], np.dtype[np.uint8]] | None = None
    hashes = 0
    for number, item in enumerate(index.bloom_filter):
        bits = _bits(item)
        yield f"      Entry {number}:{_filter_text(bits, item.num_hash_functions)}"
        if whole is not None and (len(whole), hashes) != (len(bits), item.num_hash_functions):
            raise BadFile(
                f"file {tail.name}: the bloom filters of column {column} differ in size or in number of functions; the file "
                "is damaged: restore it or move it away"
            )
        whole, hashes = bits if whole is None else whole | bits, item.num_hash_functions
    if whole is not None:
        yield f"      Stripe level merge:{_filter_text(whole, hashes)}"


def _bits(item: messages.Message) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    data = bytes(item.utf8bitset) or np.array(item.bitset, np.uint64).tobytes()
    return np.frombuffer(data, np.uint8, count=len(data) // 8 * 8)


def _filter_text(bits: np.ndarray[tuple[int], np.dtype[np.uint8]], hashes: int) -> str:
    count, ones = 8 * len(bits), int(np.unpackbits(bits).sum())
    load = float(np.float32(ones) / np.float32(count)) if count else float("nan")
    return (
        f" numHashFunctions: {hashes} bitCount: {count} popCount: {ones} loadFactor: {round_text(load, 4)} "
        f"expectedFpp: {float_text(load**hashes)}"
    )
