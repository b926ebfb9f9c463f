"""Chooses the bloom filters of an output, and the columns for which an encoder writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from compactor.orc.codecs.arrow_types import Array
from compactor.orc.format import messages
from compactor.orc.format.stripe_footer import (
    BLOOM_UTF8,
    UTC_ENCODING,
    filter_streams,
    read_stripe_footer,
    with_one_encoding,
)
from compactor.orc.format.tail import Filters, FilterStream, Tail
from compactor.orc.format.types import TypeKind, Types, cached_with_types, subtree
from compactor.orc.io.source import Source

FALSE_POSITIVES = (
    0.05  #: share of false positives for values that a row group does not have; the default of ORC's writers
)
StripeFilters: TypeAlias = tuple[Types, frozenset[FilterStream]]  #: the types of a stripe's file, and its filters
#: Kinds of values that the C++ library hashes like Java's. Java looks up values by its own hashes: others would lose
#: rows. Excluded are tinyint, whose values the library corrupts before it hashes them, and boolean, whose filters Java
#: leaves empty.
KINDS = frozenset(
    {
        *(TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL),
        *(TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT),
        *(TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.BINARY),
    }
)
#: Kinds with filters that some readers look up wrongly: Trino 476 (``orc_bloom_filters_enabled``, ``timestamp_precision``
#: milliseconds) looks up microseconds, but the filters hold milliseconds. Rows without such filters never get any, so
#: no reader misses rows that it has found until now.
MISREAD = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
_ZEROS = (0, -(2**63))  #: 0.0 and -0.0, their bits as a signed number
#: Kinds in which some values equal others with a different hash.
_AMBIGUOUS = frozenset({TypeKind.CHAR, TypeKind.FLOAT, TypeKind.DOUBLE})


class Ambiguous(Exception):
    """Rows cannot have filters for ``columns``.

    Readers would look up some of their values by another hash.
    """

    def __init__(self, columns: frozenset[int]) -> None:
        super().__init__(f"columns {sorted(columns)} hold values that equal others with another hash")
        self.columns = columns


def stripe_filters(source: Source, tail: Tail, stripe_index: int) -> StripeFilters:
    """Returns the filters of one stripe.

    Raises:
        BadFile: the stripe's footer cannot be read.
    """
    return tail.types, filter_streams(read_stripe_footer(source, tail, stripe_index))


def common_filters(copied: Collection[StripeFilters], encoded: Collection[StripeFilters], types: Types) -> Filters:
    """Returns the filters of all stripes in a file of ``types``: all that any of these stripes has.

    A stripe that lacks a filter gets one that lets every value pass (``Assembler``), and so do encoded rows for which it
    cannot be written. Filters that some readers misread are written only if all stripes have them.
    """
    streams = {stream for _, own in copied for stream in own}
    filtered = [frozenset(stream.column for stream in own) for _, own in copied]
    for old, own in encoded:
        places = _same_columns(old, types) if own else {}
        filtered.append(frozenset(places[stream.column] for stream in own if stream.column in places))
    columns = frozenset().union(*filtered)
    if not encoded or not columns:
        return Filters(streams=with_one_encoding(streams))
    everywhere = columns.intersection(*filtered)
    written = frozenset(
        column
        for column in columns
        if types[column].kind in KINDS
        and not (types.is_acid and column in types.keys)
        and (types[column].kind not in MISREAD or column in everywhere)
    )
    return Filters(streams=with_one_encoding(streams | stored_filters(written)), encoded=written)


def stored_filters(columns: Collection[int]) -> frozenset[FilterStream]:
    """Returns the streams in which an encoder stores the filters of ``columns``."""
    return frozenset(FilterStream(column, BLOOM_UTF8, UTC_ENCODING) for column in columns)


@cached_with_types
def _same_columns(old: Types, new: Types) -> dict[int, int]:
    """Maps each column of the row in ``old`` to its number in ``new``, by position."""
    roots = [types[0].children[-1] if types.is_acid else 0 for types in (old, new)]
    pairs = [(roots[0], roots[1])]
    for i, j in pairs:  # which grows meanwhile
        pairs += zip(old[i].children, new[j].children, strict=False)
    return dict(pairs)


def filters_by_name(types: Types, names: Collection[str]) -> Filters:
    """Returns the filters for columns of the row by their lower-case names; ``*`` means all columns.

    A column includes all columns within it. Unknown names are ignored, and so are kinds that some reader looks up wrongly.
    """
    root = types[0].children[-1] if types.is_acid else 0
    named = zip(types[root].field_names, types[root].children, strict=True)
    columns = frozenset(
        column
        for name, child in named
        if "*" in names or name.lower() in names
        for column in range(child, child + len(subtree(types, child)))
        if types[column].kind in KINDS - MISREAD
    )
    return Filters(streams=stored_filters(columns), encoded=columns)


def false_positives(like: Tail) -> float:
    """Returns the share of false positives of the filters in a file like this."""
    return (
        FALSE_POSITIVES
        if like.requested_class is None or like.requested_class.false_positives is None
        else like.requested_class.false_positives
    )


def check_hashes(batch: pa.RecordBatch, types: Types, filtered: Collection[int]) -> None:
    """Checks that readers find all values of the columns ``filtered`` by the hash that they look up.

    They would not find NaN, and char texts with trailing blanks, which Trino strips and Hive looks up.

    Raises:
        Ambiguous: some column has such values.
    """
    doubtful = {column for column in filtered if types[column].kind in _AMBIGUOUS}
    if doubtful:
        columns = zip(types[0].children, batch.columns, strict=True)
        ambiguous = {
            column
            for child, array in columns
            for column, values in _below(array, types, child)
            if column in doubtful and _is_ambiguous(values, types[column].kind, types[column].maximum_length)
        }
        if ambiguous:
            raise Ambiguous(frozenset(ambiguous))


def _below(array: Array, types: Types, column: int) -> Iterator[tuple[int, Array]]:
    """Yields the values of a column and of all columns within it."""
    item = types[column]
    yield column, array
    if item.kind is TypeKind.MAP:
        parts = [array.keys, array.items]
    elif item.kind in (TypeKind.STRUCT, TypeKind.LIST):
        parts = array.flatten() if item.kind is TypeKind.STRUCT else [array.flatten()]
    else:
        return
    for part, child in zip(parts, item.children, strict=True):
        yield from _below(part, types, child)


def _is_ambiguous(array: Array, kind: TypeKind, length: int) -> bool:
    if kind is TypeKind.CHAR:
        from pyarrow import compute  # which takes as long to import as all the rest that units need

        shortest = compute.min(compute.utf8_length(array)).as_py()
        return shortest is not None and bool(shortest < length)
    return bool(np.any(np.isnan(array.drop_null().to_numpy())))


def admit_both_zeros(bloom: messages.Message) -> bool:
    """Makes a filter of floats that lets one of 0.0 and -0.0 pass let both pass.

    Returns true if that changed it.

    The two are equal, but readers look them up by their different bits.
    """
    bits = np.unpackbits(np.frombuffer(bloom.utf8bitset, np.uint8), bitorder="little")
    places = [_places(number, len(bits), bloom.num_hash_functions) for number in _ZEROS]
    if not any(bits[place].all() for place in places) or all(bits[place].all() for place in places):
        return False
    bits[np.concatenate(places)] = 1
    bloom.utf8bitset = np.packbits(bits, bitorder="little").tobytes()
    return True


def _places(number: int, bits: int, hashes: int) -> list[int]:
    """Returns the bits of a signed 64-bit number in a filter of this size, by ORC's specification."""
    key = _to_signed(~number + (number << 21), 64)
    key ^= key >> 24
    key = _to_signed(key * 265, 64)
    key ^= key >> 14
    key = _to_signed(key * 21, 64)
    key ^= key >> 28
    key = _to_signed(key + (key << 31), 64)
    low, high = _to_signed(key, 32), _to_signed(key >> 32, 32)
    sums = (_to_signed(low + number * high, 32) for number in range(1, hashes + 1))
    return [(~total if total < 0 else total) % bits for total in sums]


def _to_signed(number: int, bits: int) -> int:
    """Returns the low ``bits`` of a number as a signed one."""
    low = number & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low
