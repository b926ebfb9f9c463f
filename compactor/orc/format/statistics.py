"""Merges column statistics of parts into the statistics of all rows, for each kind of column.

If a part lacks a number, the whole lacks it, too. A missing number never counts as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation, Overflow
from math import isnan
from typing import Any

from compactor.orc.format import messages
from compactor.orc.format.tail import FIRST_GREGORIAN_DAY
from compactor.orc.format.types import OrcType, TypeKind

_REPLACED = "\ufffd".encode()
_INT64 = range(-(2**63), 2**63)
#: Sums of decimals have 38 digits. No writer makes numbers that do not fit in here, and they could fill all memory.
_EXACT = Context(prec=200, Emax=200, Emin=-200, traps=[InvalidOperation, Inexact, Overflow])
FLOAT_KINDS = frozenset({TypeKind.FLOAT, TypeKind.DOUBLE})
_TIME_KINDS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
MENDED_KINDS = FLOAT_KINDS | _TIME_KINDS | {TypeKind.DATE}  #: the kinds whose statistics ``mend_statistics`` may change
_INTEGER_KINDS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG)
#: Kinds with statistics that can always be trusted; those of doubles may come from NaN.
_PLAIN_KINDS = frozenset(
    {*_INTEGER_KINDS, TypeKind.STRUCT, TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.BINARY}
)

_NO_NANOS = 1  #: nanoseconds are stored plus one
_GREGORIAN = -12_219_206_400_000  #: 1582-10-16 in milliseconds since 1970, a day late for the sake of zones


def merge(parts: Sequence[messages.Message], column: OrcType) -> messages.Message:
    """Returns the statistics of all rows of ``parts``, which are one column's statistics of disjoint rows.

    Without parts, the result is the statistics of a column without rows.
    """
    if len(parts) == 1 and column.kind in _PLAIN_KINDS:
        return parts[0]
    whole = messages.ColumnStatistics(number_of_values=sum(part.number_of_values for part in parts))
    # If a writer did not record has_null (Trino never does), it stays absent, unless some part surely has a null.
    if any(part.has_null for part in parts):
        whole.has_null = True
    elif all(part.HasField("has_null") for part in parts):
        whole.has_null = False
    if parts and all(part.HasField("bytes_on_disk") for part in parts):
        whole.bytes_on_disk = sum(part.bytes_on_disk for part in parts)
    known = _FIELD.get(column.kind)
    if known is None:
        return whole
    field, merger = known
    # A part without values has no minimum and maximum.
    valued = [part for part in parts if part.number_of_values]
    if all(part.HasField(field) for part in valued):
        target = getattr(whole, field)
        target.SetInParent()
        merger(target, [getattr(part, field) for part in valued])
        if valued:
            return mend_statistics(whole, column.kind)
    return whole


def mend_statistics(statistics: messages.Message, kind: TypeKind) -> messages.Message:
    """Returns statistics of a column of ``kind`` by which no reader loses rows (PROTOCOL 2.7)."""
    if kind in FLOAT_KINDS:
        return _mend_floats(statistics)
    if kind is TypeKind.DATE:
        return _mend_dates(statistics)
    return _mend_times(statistics) if kind in _TIME_KINDS else statistics


def _mend_floats(statistics: messages.Message) -> messages.Message:
    """Returns bounds of floats that hold for every reader.

    Zeros as bounds become -0.0 and 0.0, because ORC Java compares their bits. With NaN, the statistics lose their numbers:
    ORC Java 1.5 takes NaN for a value beyond all bounds, and absent bounds for an empty range.
    """
    bounds = statistics.double_statistics
    numbers = bounds.minimum, bounds.maximum, bounds.sum
    is_known = bounds.HasField("minimum") and bounds.HasField("maximum") and not any(map(isnan, numbers))
    if not statistics.HasField("double_statistics") or (is_known and 0 not in numbers[:2]):
        return statistics
    mended = messages.ColumnStatistics()
    mended.CopyFrom(statistics)
    if not is_known:
        if statistics.number_of_values:
            mended.ClearField("double_statistics")
        return mended
    if bounds.minimum == 0:
        mended.double_statistics.minimum = -0.0
    if bounds.maximum == 0:
        mended.double_statistics.maximum = 0.0
    return mended


def _mend_dates(statistics: messages.Message) -> messages.Message:
    """Returns statistics of dates without bounds if one is before the Gregorian calendar.

    If ORC Java 1.5 converts the days of a file to that calendar, it converts their bounds, but not the literals of a
    predicate.
    """
    if not statistics.number_of_values or statistics.date_statistics.minimum >= FIRST_GREGORIAN_DAY:
        return statistics
    mended = messages.ColumnStatistics()
    mended.CopyFrom(statistics)
    mended.ClearField("date_statistics")
    return mended


def _mend_times(statistics: messages.Message) -> messages.Message:
    """Returns bounds of times that hold for every reader.

    ORC Java 1.5 ignores the digits of bounds below a millisecond (ORC-611), so a maximum with such digits becomes the next
    millisecond. Values before the Gregorian calendar get no bounds: since 1.6 ORC Java moves their bounds to that calendar,
    but neither the values nor the literals of a predicate.
    """
    times = statistics.timestamp_statistics
    if not statistics.number_of_values or not times.HasField("maximum_utc"):
        return statistics
    is_old = times.minimum_utc < _GREGORIAN
    if not is_old and times.maximum_nanos == _NO_NANOS:
        return statistics
    mended = messages.ColumnStatistics()
    mended.CopyFrom(statistics)
    if is_old:
        mended.ClearField("timestamp_statistics")
        return mended
    mended.timestamp_statistics.maximum_utc += 1
    mended.timestamp_statistics.maximum_nanos = _NO_NANOS
    return mended


def text_statistics_for_orc_1_5(statistics: messages.Message) -> messages.Message:
    """Returns statistics of texts by which ORC Java 1.5 loses no rows (PROTOCOL 2.7).

    ORC Java 1.5 takes values without a minimum for NULLs. Bounds of texts that their writer cut (ORC-203) become minimum and
    maximum, since all values are between them. The statistics lose their texts if a writer left out even the bounds, as
    Trino does, or if ORC Java may have damaged them: it turns a pair of UTF-16 surrogates into two U+FFFD, which sort after
    the values.
    """
    texts = statistics.string_statistics
    is_known = texts.HasField("minimum") and texts.HasField("maximum")
    if not statistics.HasField("string_statistics") or not statistics.number_of_values or is_known:
        return statistics
    mended = messages.ColumnStatistics()
    mended.CopyFrom(statistics)
    for exact, bound in (("minimum", "lower_bound"), ("maximum", "upper_bound")):
        if texts.HasField(exact):
            continue
        if not texts.HasField(bound) or _REPLACED in getattr(texts, bound):
            mended.ClearField("string_statistics")
            break
        setattr(mended.string_statistics, exact, getattr(texts, bound))
        mended.string_statistics.ClearField(bound)
    return mended


def _all_have(parts: Sequence[messages.Message], field: str) -> bool:
    return bool(parts) and all(part.HasField(field) for part in parts)


def _extremes(
    target: messages.Message, parts: Sequence[messages.Message], key: Callable[[Any], Any] = lambda value: value
) -> None:
    if _all_have(parts, "minimum") and _all_have(parts, "maximum"):
        target.minimum = min((part.minimum for part in parts), key=key)
        target.maximum = max((part.maximum for part in parts), key=key)


def _total(target: messages.Message, parts: Sequence[messages.Message]) -> None:
    if not parts:
        target.sum = 0
    elif _all_have(parts, "sum") and (total := sum(part.sum for part in parts)) in _INT64:
        target.sum = total


def _integers(target: messages.Message, parts: Sequence[messages.Message]) -> None:
    _extremes(target, parts)
    _total(target, parts)


def _doubles(target: messages.Message, parts: Sequence[messages.Message]) -> None:
    # NaN has no order: a minimum or maximum with NaN says nothing.
    if not any(isnan(part.minimum) or isnan(part.maximum) for part in parts):
        _extremes(target, parts)
    if not parts or _all_have(parts, "sum"):
        target.sum = sum(part.sum for part in parts)


def _strings(target: messages.Message, parts: Sequence[messages.Message]) -> None:
    """Merges minimum and maximum, or the bounds of truncated long texts (ORC-203).

    A bound remains a bound.
    """
    lows = [part.minimum if part.HasField("minimum") else part.lower_bound for part in parts]
    highs = [part.maximum if part.HasField("maximum") else part.upper_bound for part in parts]
    if all(part.HasField("minimum") or part.HasField("lower_bound") for part in parts) and parts:
        low = min(lows)
        exact = any(part.HasField("minimum") and part.minimum == low for part in parts)
        setattr(target, "minimum" if exact else "lower_bound", low)
    if all(part.HasField("maximum") or part.HasField("upper_bound") for part in parts) and parts:
        high = max(highs)
        exact = any(part.HasField("maximum") and part.maximum == high for part in parts)
        setattr(target, "maximum" if exact else "upper_bound", high)
    _total(target, parts)


def _counts(target: messages.Message, parts: Sequence[messages.Message]) -> None:
    """Merges the number of true booleans."""
    if all(len(part.count) == 1 for part in parts):
        target.count.append(sum(part.count[0] for part in parts))


def _decimals(target: messages.Message, parts: Sequence[messages.Message]) -> None:
    try:
        _extremes(target, parts, lambda text: _EXACT.create_decimal(text.decode("ascii")))
        if _all_have(parts, "sum"):
            total = Decimal(0)
            for part in parts:
                total = _EXACT.add(total, _EXACT.create_decimal(part.sum.decode("ascii")))
            # The specification's sum is a decimal; readers could not read one with more digits.
            if len(total.as_tuple().digits) <= 38:
                target.sum = format(total, "f").encode("ascii")
    except (DecimalException, UnicodeDecodeError):
        target.Clear()
        target.SetInParent()


def _dates(target: messages.Message, parts: Sequence[messages.Message]) -> None:
    _extremes(target, parts)


def _timestamps(target: messages.Message, parts: Sequence[messages.Message]) -> None:
    """Merges milliseconds, and nanoseconds below them if the writer kept them.

    Nanoseconds are stored plus one; 0 means that they were not kept.
    """
    if _all_have(parts, "minimum") and _all_have(parts, "maximum"):
        target.minimum = min(part.minimum for part in parts)
        target.maximum = max(part.maximum for part in parts)
    if _all_have(parts, "minimum_utc") and _all_have(parts, "maximum_utc"):
        # Readers take a missing minimum_nanos as 0 and a missing maximum_nanos as 999999: the widest range.
        low = min((part.minimum_utc, part.minimum_nanos - 1 if part.minimum_nanos else 0) for part in parts)
        high = max((part.maximum_utc, part.maximum_nanos - 1 if part.maximum_nanos else 999_999) for part in parts)
        target.minimum_utc, target.maximum_utc = low[0], high[0]
        if low[1] != 0:
            target.minimum_nanos = low[1] + 1
        if high[1] != 999_999:
            target.maximum_nanos = high[1] + 1


def _collections(target: messages.Message, parts: Sequence[messages.Message]) -> None:
    """Merges the numbers of children per list or map."""
    if _all_have(parts, "min_children") and _all_have(parts, "max_children"):
        target.min_children = min(part.min_children for part in parts)
        target.max_children = max(part.max_children for part in parts)
    if _all_have(parts, "total_children"):
        target.total_children = sum(part.total_children for part in parts)


_Merger = Callable[[messages.Message, Sequence[messages.Message]], None]
_FIELD: dict[TypeKind, tuple[str, _Merger]] = {
    **dict.fromkeys(_INTEGER_KINDS, ("int_statistics", _integers)),
    **dict.fromkeys(FLOAT_KINDS, ("double_statistics", _doubles)),
    **dict.fromkeys((TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR), ("string_statistics", _strings)),
    TypeKind.BOOLEAN: ("bucket_statistics", _counts),
    TypeKind.DECIMAL: ("decimal_statistics", _decimals),
    TypeKind.DATE: ("date_statistics", _dates),
    TypeKind.BINARY: ("binary_statistics", _total),
    TypeKind.TIMESTAMP: ("timestamp_statistics", _timestamps),
    TypeKind.TIMESTAMP_INSTANT: ("timestamp_statistics", _timestamps),
    TypeKind.LIST: ("collection_statistics", _collections),
    TypeKind.MAP: ("collection_statistics", _collections),
}
