"""Counts, bounds and offsets of a data file, as Iceberg's manifests hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal, InvalidOperation

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from compactor.mirror.data_file_types import field_ids
from compactor.orc.format import messages
from compactor.orc.format.statistics import merge
from compactor.orc.format.tail import FIRST_GREGORIAN_DAY, Tail

_LONGEST_TEXT = 64  #: bytes of a bound; longer ones would fill manifests
_REPLACED = "\ufffd".encode()  #: what ORC Java writes for characters that it cut apart
_EXACT = Context(prec=76)
_EARLIEST = FIRST_GREGORIAN_DAY * 86_400_000  #: milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFigures:
    """Facts about the columns of a data file, by field ID.

    Bounds are Iceberg's single-value bytes. Where a bound might leave a value out, there is none: floating point has
    none, since readers disagree about NaN and -0.0.
    """

    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()


def file_figures(tail: Tail, schema: Schema) -> FileFigures:
    """Returns the figures of a data file with this tail.

    Only columns at the top, without parts, have some.
    """
    value_counts, null_counts, lower, upper = {}, {}, {}, {}
    for column, field_id in field_ids(tail.types):
        kind = schema.find_type(field_id)
        if not isinstance(kind, PrimitiveType) or tail.stripe_statistics is None:
            continue
        statistics = merge([stripe[column] for stripe in tail.stripe_statistics], tail.types[column])
        value_counts[field_id] = tail.rows
        null_counts[field_id] = tail.rows - statistics.number_of_values
        low, high = _bounds(statistics, kind) if statistics.number_of_values else (None, None)
        if low is not None:
            lower[field_id] = low
        if high is not None:
            upper[field_id] = high
    return FileFigures(
        value_counts=value_counts,
        null_counts=null_counts,
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=tuple(stripe.offset for stripe in tail.stripes),
    )


def _bounds(statistics: messages.Message, kind: IcebergType) -> tuple[bytes | None, bytes | None]:
    match kind:
        case IntegerType() | LongType():
            return _pair(statistics.int_statistics, kind)
        case DateType():
            days = statistics.date_statistics
            return _pair(days, kind) if days.minimum >= FIRST_GREGORIAN_DAY else (None, None)
        case StringType():
            return _texts(statistics.string_statistics)
        case DecimalType():
            return _decimals(statistics.decimal_statistics, kind)
        case TimestampType() | TimestamptzType():
            return _times(statistics.timestamp_statistics)
    return None, None


def _pair(numbers: messages.Message, kind: PrimitiveType) -> tuple[bytes | None, bytes | None]:
    if not (numbers.HasField("minimum") and numbers.HasField("maximum")):
        return None, None
    return to_bytes(kind, numbers.minimum), to_bytes(kind, numbers.maximum)


def _texts(texts: messages.Message) -> tuple[bytes | None, bytes | None]:
    """Returns bounds only if they are the extremes themselves."""
    low, high = texts.minimum, texts.maximum
    if not (texts.HasField("minimum") and texts.HasField("maximum")) or _REPLACED in low + high:
        return None, None
    try:
        low.decode()
        high.decode()
    except UnicodeDecodeError:
        return None, None
    return low if len(low) <= _LONGEST_TEXT else None, high if len(high) <= _LONGEST_TEXT else None


def _decimals(texts: messages.Message, kind: DecimalType) -> tuple[bytes | None, bytes | None]:
    try:
        low, high = (Decimal(text.decode("ascii")) for text in (texts.minimum, texts.maximum))
        return _unscaled(low, kind), _unscaled(high, kind)
    except (InvalidOperation, UnicodeDecodeError, ValueError):
        return None, None


def _unscaled(number: Decimal, kind: DecimalType) -> bytes:
    """Returns the bytes of a decimal in the scale of its column.

    Raises:
        ValueError: it has more digits.
    """
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or not 0 <= exponent + kind.scale <= kind.precision:
        raise ValueError(number)
    unscaled = int(Decimal((sign, digits, 0)).scaleb(exponent + kind.scale, _EXACT))
    return unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)


def _times(times: messages.Message) -> tuple[bytes | None, bytes | None]:
    """Returns bounds in microseconds around those of the statistics, which are in milliseconds."""
    has_both = times.HasField("minimum_utc") and times.HasField("maximum_utc")
    if not has_both or times.minimum_utc < _EARLIEST:
        return None, None
    kind = LongType()
    return to_bytes(kind, times.minimum_utc * 1000), to_bytes(kind, times.maximum_utc * 1000 + 999)


def data_file_entry(
    path: str, length: int, rows: int, figures: FileFigures, partition: Record, spec_id: int
) -> DataFile:
    """Returns the entry of a data file whose URI is ``path``."""
    entry = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.ORC,
        partition=partition,
        record_count=rows,
        file_size_in_bytes=length,
        value_counts=dict(figures.value_counts),
        null_value_counts=dict(figures.null_counts),
        lower_bounds=dict(figures.lower_bounds),
        upper_bounds=dict(figures.upper_bounds),
        split_offsets=list(figures.split_offsets) or None,
    )
    entry.spec_id = spec_id
    return entry
