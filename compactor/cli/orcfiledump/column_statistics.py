"""The statistics of one column, of a file, a stripe or a row group, as a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from compactor.cli.orcfiledump.java_text import (
    decimal_text,
    double_text,
    hybrid_date_text,
    local_seconds,
    text_of,
    timestamp_text,
)
from compactor.orc.format import messages
from compactor.orc.format.types import OrcType, TypeKind

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_DECIMAL_64 = 18  #: digits up to which Java keeps a decimal as a long
_MOST_NANOS = 999_999  #: below a millisecond, where a writer kept none of the maximum


def statistics_text(found: messages.Message, column: OrcType, *, proleptic: bool) -> str:
    """Returns what Java's reader prints of the statistics ``found``.

    It goes by the kind of statistics and not by the column's type; ``proleptic`` is the calendar of the file.
    """
    has_null = found.has_null or not found.HasField("has_null")
    parts = [f"count: {found.number_of_values}", f"hasNull: {'true' if has_null else 'false'}"]
    if found.bytes_on_disk:
        parts.append(f"bytesOnDisk: {found.bytes_on_disk}")
    for field, printer in _PRINTERS:
        if found.HasField(field):
            parts += printer(getattr(found, field), found.number_of_values, column, proleptic)
            break
    return " ".join(parts)


def _booleans(found: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    yield f"true: {found.count[0] if found.count else 0}"


def _integers(found: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if found.HasField("minimum"):
        yield f"min: {found.minimum}"
        yield f"max: {found.maximum if found.HasField('maximum') else _LONG_MIN}"
    if found.HasField("sum"):
        yield f"sum: {found.sum}"


def _collections(found: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if count:
        yield f"minChildren: {found.min_children if found.HasField('min_children') else _LONG_MAX}"
        yield f"maxChildren: {found.max_children}"
        if found.total_children:
            yield f"totalChildren: {found.total_children}"


def _doubles(found: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if found.HasField("minimum"):
        yield f"min: {double_text(found.minimum)}"
        yield f"max: {double_text(found.maximum) if found.HasField('maximum') else '4.9E-324'}"
    yield f"sum: {double_text(found.sum)}"


def _strings(found: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    low = _exact_or_bound(found, ("minimum", "min"), ("lower_bound", "lower"))
    if low is None:
        return
    yield low
    yield _exact_or_bound(found, ("maximum", "max"), ("upper_bound", "upper")) or "max: null"
    yield f"sum: {found.sum}"


def _exact_or_bound(found: messages.Message, *fields: tuple[str, str]) -> str | None:
    for field, label in fields:
        if found.HasField(field):
            return f"{label}: {text_of(getattr(found, field))}"
    return None


def _decimals(found: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if not count:
        return
    yield f"min: {_decimal(found, 'minimum')}"
    yield f"max: {_decimal(found, 'maximum')}"
    if not found.HasField("sum"):
        return
    total = decimal_text(text_of(found.sum)) or "null"
    digits = len(total.lstrip("-").partition(".")[0].lstrip("0")) + column.scale
    if column.kind is not TypeKind.DECIMAL or column.precision > _DECIMAL_64 or digits <= _DECIMAL_64:
        yield f"sum: {total}"


def _decimal(found: messages.Message, field: str) -> str:
    return (decimal_text(text_of(getattr(found, field))) if found.HasField(field) else None) or "null"


def _dates(found: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if count:
        low = found.minimum if found.HasField("minimum") else _INT_MAX
        high = found.maximum if found.HasField("maximum") else _INT_MIN
        yield f"min: {hybrid_date_text(low, proleptic=proleptic)}"
        yield f"max: {hybrid_date_text(high, proleptic=proleptic)}"


def _timestamps(found: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    low, high = _milliseconds(found, "minimum", column), _milliseconds(found, "maximum", column)
    if low is None or high is None or low > high:
        return
    least = found.minimum_nanos - 1 if found.HasField("minimum_nanos") else 0
    most = found.maximum_nanos - 1 if found.HasField("maximum_nanos") else _MOST_NANOS
    yield f"min: {_timestamp(low, least, proleptic)}"
    yield f"max: {_timestamp(high, most, proleptic)}"


def _milliseconds(found: messages.Message, field: str, column: OrcType) -> int | None:
    """Returns what a clock shows: that of the writer, or here for an instant. The oldest writers kept instants only."""
    name = f"{field}_utc"
    is_instant = column.kind is TypeKind.TIMESTAMP_INSTANT
    if not found.HasField(name):
        name, is_instant = field, True
    if not found.HasField(name):
        return None
    value = int(getattr(found, name))
    if is_instant:
        seconds, rest = divmod(value, 1000)
        return local_seconds(seconds) * 1000 + rest
    return value


def _timestamp(milliseconds: int, nanos: int, proleptic: bool) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return timestamp_text(seconds, rest * 1_000_000 + nanos, proleptic=proleptic)


def _bytes(found: messages.Message, count: int, column: OrcType, proleptic: bool) -> Iterator[str]:
    if count:
        yield f"sum: {found.sum}"


_Printer = Callable[[messages.Message, int, OrcType, bool], Iterator[str]]
#: In the order in which Java looks for them.
_PRINTERS: tuple[tuple[str, _Printer], ...] = (
    ("bucket_statistics", _booleans),
    ("int_statistics", _integers),
    ("collection_statistics", _collections),
    ("double_statistics", _doubles),
    ("string_statistics", _strings),
    ("decimal_statistics", _decimals),
    ("date_statistics", _dates),
    ("timestamp_statistics", _timestamps),
    ("binary_statistics", _bytes),
)
