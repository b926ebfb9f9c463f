"""Finds the parts of a file that may have rows for a condition: stripes, and row groups of a stripe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, DecimalException

import numpy as np

from compactor.orc.format import messages
from compactor.orc.format.stripe_footer import BLOOM, BLOOM_UTF8, ROW_INDEX, read_indexes, read_stripe_footer
from compactor.orc.format.tail import FIRST_GREGORIAN_DAY, Tail
from compactor.orc.format.types import INTEGERS, OrcType, TypeKind
from compactor.orc.io.source import Source
from compactor.orc.stripe_compatibility import ORC_135
from compactor.rows.keys import Mask
from compactor.tables.filters.conditions import Condition, FilterColumn, Value, ValueKind
from compactor.tables.filters.outcomes import UNKNOWN, ColumnFacts, Outcomes, find_outcomes, may_match

NULLS = ColumnFacts(has_value=False)  #: facts about a column that is newer than the file
_MILLISECOND, _DAY = 10**6, 86_400 * 10**9  #: in nanoseconds
_JAVA = 0  #: the id of the Java writer
_HIVE_8732 = 1  #: the first writer version with correct statistics of texts
_64, _32 = (1 << 64) - 1, (1 << 32) - 1
_SEED, _C1, _C2 = 104_729, 0x87C37B91114253D5, 0x4CF5AD432745937F
_INTEGERS = frozenset({TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.DATE})
_TEXTS = frozenset({TypeKind.STRING, TypeKind.VARCHAR})


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePruner:
    """A condition on the rows of one file.

    ``constants`` are facts about partition columns. ``columns`` are the condition's other columns by name, each with its id
    in the file, or None if the column is newer than the file.
    """

    source: Source
    tail: Tail
    condition: Condition
    constants: Mapping[str, ColumnFacts]
    columns: Mapping[str, tuple[FilterColumn, int | None]]

    def of_stripe(self, stripe: int) -> Outcomes:
        """Returns the possible outcomes of the condition in a stripe, by its statistics."""
        facts = dict(self.constants)
        for name, (column, number) in self.columns.items():
            if number is None:
                facts[name] = NULLS
            elif self.tail.stripe_statistics is not None:
                rows = self.tail.stripes[stripe].rows
                part = self.tail.stripe_statistics[stripe][number]
                facts[name] = read_facts(part, rows, column, self.tail.types[number], self.tail)
        return find_outcomes(self.condition, facts)

    def groups(self, stripe: int) -> Mask | None:
        """Tells for each row group of a stripe whether it may have matching rows.

        Row indexes and bloom filters decide.

        Returns None unless a row index has an entry for each group: a damaged stripe may claim billions of groups.
        """
        stride, rows = self.tail.row_index_stride, self.tail.stripes[stripe].rows
        if stride == 0 or not rows or all(number is None for _, number in self.columns.values()):
            return None
        count = -(-rows // stride)
        footer = read_stripe_footer(self.source, self.tail, stripe)
        numbers = {number for _, number in self.columns.values() if number is not None}
        indexes = {
            (number, kind): index
            for kind, number, index in read_indexes(self.source, self.tail, stripe, footer, numbers)
        }
        if any(kind == ROW_INDEX and len(index.entry) != count for (_, kind), index in indexes.items()) or not indexes:
            return None
        last = rows - (count - 1) * stride
        known = [self._facts(indexes, group, stride if group < count - 1 else last) for group in range(count)]
        return np.array([may_match(self.condition, facts) for facts in known], dtype=np.bool_)

    def _facts(
        self, indexes: Mapping[tuple[int, int], messages.Message], group: int, rows: int
    ) -> dict[str, ColumnFacts]:
        """Returns facts about a row group."""
        facts = dict(self.constants)
        for name, (column, number) in self.columns.items():
            if number is None:
                facts[name] = NULLS
                continue
            stored, index = self.tail.types[number], indexes.get((number, ROW_INDEX))
            known = UNKNOWN
            if index is not None and group < len(index.entry):
                known = read_facts(index.entry[group].statistics, rows, column, stored, self.tail)
            for kind in (BLOOM, BLOOM_UTF8):
                blooms = indexes.get((number, kind))
                contains = None
                if blooms is not None and group < len(blooms.bloom_filter):
                    contains = build_lookup(stored.kind, kind, blooms.bloom_filter[group])
                known = known if contains is None else replace(known, contains=contains)
            facts[name] = known
        return facts


def read_facts(part: messages.Message, rows: int, column: FilterColumn, stored: OrcType, tail: Tail) -> ColumnFacts:
    """Returns what statistics of ``rows`` rows tell of ``column``, which the file holds as ``stored``.

    Bounds are only taken where every writer's can be trusted, else they are unknown: none of texts by the first writers
    (HIVE-8732), of times before ORC-135 and before 1582, of chars, booleans and floating point with NaN, nor of a column
    that has another type in the table.
    """
    values = part.number_of_values
    empty = rows > 0 and values == 0 and part.has_null
    low, high = (None, None) if empty else _bounds(part, column, stored, tail)
    return ColumnFacts(
        low=low,
        high=high,
        has_null=part.has_null or values != rows,
        has_value=not empty,
    )


def _bounds(
    part: messages.Message, column: FilterColumn, stored: OrcType, tail: Tail
) -> tuple[Value | None, Value | None]:
    if column.kind is ValueKind.NUMBER and stored.kind in INTEGERS:
        return _extremes(part.int_statistics)
    if column.kind is ValueKind.NUMBER and stored.kind is TypeKind.DECIMAL:
        return _decimals(part.decimal_statistics)
    if column.kind is ValueKind.FLOAT and stored.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        low, high = _extremes(part.double_statistics)
        return (low, high) if low == low and high == high else (None, None)
    if column.kind is ValueKind.TEXT and stored.kind in (TypeKind.STRING, TypeKind.VARCHAR):
        return _texts(part.string_statistics) if tail.writer or tail.writer_version >= _HIVE_8732 else (None, None)
    if column.kind is ValueKind.DATE and stored.kind is TypeKind.DATE:
        low, high = _extremes(part.date_statistics)
        return (low, high) if isinstance(low, int) and low >= FIRST_GREGORIAN_DAY else (None, None)
    if column.kind is ValueKind.TIMESTAMP and stored.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        return _times(part.timestamp_statistics, tail)
    return None, None


def _extremes(part: messages.Message) -> tuple[Value | None, Value | None]:
    known = part.HasField("minimum") and part.HasField("maximum")
    return (part.minimum, part.maximum) if known else (None, None)


def _decimals(part: messages.Message) -> tuple[Value | None, Value | None]:
    low, high = _extremes(part)
    if not isinstance(low, bytes) or not isinstance(high, bytes) or max(len(low), len(high)) > 100:
        return None, None
    try:
        bounds = Decimal(low.decode("ascii")), Decimal(high.decode("ascii"))
    except (DecimalException, UnicodeDecodeError):
        return None, None
    return bounds if all(bound.is_finite() for bound in bounds) else (None, None)


def _texts(part: messages.Message) -> tuple[Value | None, Value | None]:
    low = part.minimum if part.HasField("minimum") else part.lower_bound if part.HasField("lower_bound") else None
    high = part.maximum if part.HasField("maximum") else part.upper_bound if part.HasField("upper_bound") else None
    return (low, high) if low is not None and high is not None else (None, None)


def _times(part: messages.Message, tail: Tail) -> tuple[Value | None, Value | None]:
    """Returns bounds wider than written: by a millisecond, because written bounds are rounded.

    For writers other than Java, by a day, because their bounds may not follow the wall clock.
    """
    if tail.writer_version < ORC_135 or not (part.HasField("minimum_utc") and part.HasField("maximum_utc")):
        return None, None
    slack = _MILLISECOND if tail.writer == _JAVA else _DAY
    low, high = part.minimum_utc * _MILLISECOND - slack, part.maximum_utc * _MILLISECOND + slack
    return (low, high) if low >= FIRST_GREGORIAN_DAY * _DAY else (None, None)


def build_lookup(kind: TypeKind, stream: int, bloom: messages.Message) -> Callable[[Value], bool] | None:
    """Returns a function that is false for values that the filter surely does not hold.

    Returns None if it cannot be used.

    It is used for integers, days, and UTF-8 texts. Other types are unreliable: the C++ library fills filters of tinyint
    wrongly, Java leaves filters of booleans empty, units of timestamps differ, chars may be padded, and floating point has
    equal values with different hashes.
    """
    if stream != BLOOM_UTF8 and kind in _TEXTS:
        return None  # hashed in the writer's own character set (ORC-101)
    bits = bloom.utf8bitset or b"".join(word.to_bytes(8, "little") for word in bloom.bitset)
    count, functions = 8 * len(bits), bloom.num_hash_functions

    def holds(value: Value) -> bool:
        hashed = _hash(value, kind)
        return hashed is None or all(bits[at >> 3] >> (at & 7) & 1 for at in _places(hashed, functions, count))

    return holds if kind in _INTEGERS | _TEXTS and count else None


def _hash(value: Value, kind: TypeKind) -> int | None:
    """Returns the hash of a value as the file stores it.

    Returns None if the file stores the value in another form.
    """
    if isinstance(value, bytes):
        return murmur3(value) if kind in _TEXTS else None
    if kind in _TEXTS or not isinstance(value, int) or isinstance(value, bool):
        return None
    return None if kind is TypeKind.DATE and value < FIRST_GREGORIAN_DAY else long_hash(value)


def _places(hashed: int, functions: int, count: int) -> list[int]:
    first, second = _signed(hashed & _32), _signed(hashed >> 32)
    places = []
    for number in range(1, functions + 1):
        combined = _signed((first + number * second) & _32)
        places.append((~combined if combined < 0 else combined) % count)
    return places


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


def long_hash(key: int) -> int:
    """Returns Thomas Wang's 64-bit hash, like ``BloomFilter.getLongHash``."""
    key &= _64
    key = (~key + (key << 21)) & _64
    key ^= _shift_right(key, 24)
    key = (key + (key << 3) + (key << 8)) & _64
    key ^= _shift_right(key, 14)
    key = (key + (key << 2) + (key << 4)) & _64
    key ^= _shift_right(key, 28)
    return (key + (key << 31)) & _64


def _shift_right(key: int, by: int) -> int:
    """Shifts right and keeps the sign, like ``>>`` in Java."""
    return ((key - (1 << 64) if key >> 63 else key) >> by) & _64


def murmur3(data: bytes) -> int:
    """Returns the 64-bit hash of ``Murmur3.hash64``."""
    state = _SEED
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        state ^= _mix(int.from_bytes(data[at : at + 8], "little"))
        state = (_rotate(state, 27) * 5 + 0x52DCE729) & _64
    if whole < len(data):
        state ^= _mix(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        state = ((state ^ (state >> 33)) * factor) & _64
    return state ^ (state >> 33)


def _mix(word: int) -> int:
    return _rotate(word * _C1 & _64, 31) * _C2 & _64


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & _64
