"""Converts rows of an ORC file to JSON, in the format of ``orcfiledump -d``.

Dates, timestamps and decimals are texts as Java prints them, binary is a list of bytes, a map is a list of ``_key`` and
``_value``; NaN and the infinities are texts. Dates and timestamps are in the proleptic Gregorian calendar, whatever the
file's calendar. Timestamps beyond 64 bits of nanoseconds come from the second codec as seconds and nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from compactor.errors import NotLossless
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Unfit, column_names
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TypeKind, Types
from compactor.orc.io.source import Source

_NANOS = 10**9
_INFINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  #: not representable as JSON numbers
_TIMESTAMPS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)


def rows(source: Source, tail: Tail) -> Iterator[dict[str, object]]:
    """Yields every row in file order; memory is bounded by a batch of rows.

    Raises:
        BadFile: a stripe cannot be decoded.
        NotLossless: neither codec decodes a type completely (unions), or columns are encrypted.
    """
    names = column_names(tail.types)
    children = tail.types[0].children
    for batch in batches(source, tail):
        for index in range(batch.num_rows):
            yield {
                name: value(batch.column(place)[index], tail.types, child)
                for place, (name, child) in enumerate(zip(names, children, strict=True))
            }


def batches(source: Source, tail: Tail) -> Iterator[pa.RecordBatch]:
    """Yields the rows of ``rows`` as they are decoded; raises as it does."""
    if tail.encrypted:
        raise NotLossless(f"{tail.name}: has encrypted columns; its rows cannot be shown, its metadata can (--meta)")
    for stripe in range(len(tail.stripes)):
        yield from _stripe(source, tail, stripe)


def _stripe(source: Source, tail: Tail, stripe: int) -> Iterator[pa.RecordBatch]:
    done = 0
    if tail.types.is_encodable:
        try:
            for batch in ARROW.read_batches(source, tail, stripes=[stripe]):
                yield batch
                done += batch.num_rows
            return
        except Unfit:
            pass  # the other codec starts over and skips the rows that are done
    for batch in PYORC.read_batches(source, tail, stripes=[stripe]):
        left = max(0, done)
        done -= batch.num_rows
        if left < batch.num_rows:
            yield batch.slice(left)


def value(scalar: Any, types: Types, column: int) -> object:
    """Converts an Arrow scalar of ``column`` to a JSON value."""
    if not scalar.is_valid:
        return None
    item = types[column]
    if item.kind in _TIMESTAMPS:
        return timestamp(*seconds_and_nanos(scalar))
    if item.kind is TypeKind.DATE:
        return str(np.datetime64(scalar.value, "D"))
    if item.kind is TypeKind.DECIMAL:
        return format(scalar.as_py(), "f")
    if item.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        number = scalar.as_py()
        return number if math.isfinite(number) else _INFINITE[str(number)]
    if item.kind is TypeKind.BINARY:
        return list(scalar.as_py())
    if item.kind is TypeKind.STRUCT:
        fields = zip(item.field_names, item.children, strict=True)
        return {name: value(scalar[place], types, child) for place, (name, child) in enumerate(fields)}
    if item.kind is TypeKind.LIST:
        return [value(part, types, item.children[0]) for part in scalar.values or ()]
    if item.kind is TypeKind.MAP:
        key, content = item.children
        return [
            {"_key": value(pair[0], types, key), "_value": value(pair[1], types, content)}
            for pair in scalar.values or ()
        ]
    return scalar.as_py()


def seconds_and_nanos(scalar: Any) -> tuple[int, int]:
    """Splits a timestamp of either codec."""
    if pa.types.is_struct(scalar.type):
        return scalar[0].as_py(), scalar[1].as_py()
    seconds, nanos = divmod(scalar.value, _NANOS)
    return seconds, nanos


def timestamp(seconds: int, nanos: int) -> str:
    """Formats a timestamp like Java's ``Timestamp.toString``: at least one fractional digit, no trailing zeros."""
    whole = str(np.datetime64(seconds, "s")).replace("T", " ")
    return f"{whole}.{f'{nanos:09d}'.rstrip('0') or '0'}"
