"""Which columns of a stripe have bloom filters that an encoder can make again."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.orc.format.stripe_footer import BLOOM, BLOOM_UTF8, read_stripe_footer
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import Array, TypeKind, Types
from compactor.orc.io.source import Source

FALSE_POSITIVES = 0.05  #: of questions for a value that a row group has not; what ORC's writers take if nobody says
#: Whose values the C++ library hashes as Java's does, which asks by its own hashes: a filter that misses a value loses
#: its rows. Not those of tinyint, whose values the library spoils before it hashes them, and of boolean, which Java
#: leaves empty.
KINDS = frozenset(
    {
        *(TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL),
        *(TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT),
        *(TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.BINARY),
    }
)
#: Which not all readers ask rightly: Trino 476 (``orc_bloom_filters_enabled``, ``timestamp_precision`` milliseconds)
#: asks for microseconds, and these hold milliseconds. No row gets them that had none, so that nobody misses rows that he
#: has found so far.
MISREAD = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
#: Of which some values are equal to others with another hash.
_AMBIGUOUS = frozenset({TypeKind.CHAR, TypeKind.FLOAT, TypeKind.DOUBLE})


class Ambiguous(Exception):
    """Rows cannot have filters of these ``columns``: readers would ask for a value of theirs by another hash."""

    def __init__(self, columns: frozenset[int]) -> None:
        super().__init__(f"columns {sorted(columns)} hold values that equal others with another hash")
        self.columns = columns


def filtered_columns(source: Source, tail: Tail, stripe_index: int) -> frozenset[int]:
    """Those with a filter of either kind.

    Raises:
        BadFile: the stripe's footer cannot be read.
    """
    footer = read_stripe_footer(source, tail, stripe_index)
    return frozenset(
        stream.column
        for stream in footer.streams
        if stream.kind in (BLOOM, BLOOM_UTF8) and tail.types[stream.column].kind in KINDS
    )


def check_hashes(batch: pa.RecordBatch, types: Types, filtered: Collection[int]) -> None:
    """That all values of the columns ``filtered`` are found by the hash of what readers ask for.

    Not so are zeros below zero, numbers that are none, and texts of char without their blanks, which Trino leaves out
    and Hive asks for.

    Raises:
        Ambiguous: otherwise.
    """
    doubtful = {column for column in filtered if types[column].kind in _AMBIGUOUS}
    if doubtful:
        columns = zip(types[0].children, batch.columns, strict=True)
        found = {
            column
            for child, array in columns
            for column, values in _below(array, types, child)
            if column in doubtful and _is_ambiguous(values, types[column].kind, types[column].maximum_length)
        }
        if found:
            raise Ambiguous(frozenset(found))


def _below(array: Array, types: Types, column: int) -> Iterator[tuple[int, Array]]:
    """The values of a column and of all columns within it."""
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
        shortest = pc.min(pc.utf8_length(array)).as_py()
        return shortest is not None and bool(shortest < length)
    values = array.drop_null().to_numpy()
    return bool(np.any(np.isnan(values) | (np.signbit(values) & (values == 0))))
