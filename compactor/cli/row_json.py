"""Rows of an ORC file as JSON, in the forms of ``orcfiledump -d``.

Dates, timestamps and decimals are texts as Java prints them, binary is a list of bytes, a map a list of ``_key`` and
``_value``; NaN and the infinities are texts. Days and seconds count in the proleptic Gregorian calendar, whatever the
file's. Timestamps outside 64 bits of nanoseconds come from the second codec as seconds and nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec, Unfit, column_names
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TypeKind, Types
from compactor.orc.io.source import Source

_NANOS = 10**9
_INFINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  #: JSON has no numbers for them
_TIMESTAMPS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)


def rows(source: Source, tail: Tail) -> Iterator[dict[str, object]]:
    """Every row in file order; memory is bounded by a batch of rows.

    Raises:
        BadFile: a stripe cannot be decoded.
        NotLossless: a type whose values neither codec gives completely (unions).
    """
    for stripe in range(len(tail.stripes)):
        yield from _stripe(source, tail, stripe)


def _stripe(source: Source, tail: Tail, stripe: int) -> Iterator[dict[str, object]]:
    told = 0
    if tail.types.is_encodable:
        try:
            for row in _decoded(ARROW, source, tail, stripe):
                yield row
                told += 1
            return
        except Unfit:
            pass  # the other codec begins anew and passes over what was told
    for number, row in enumerate(_decoded(PYORC, source, tail, stripe)):
        if number >= told:
            yield row


def _decoded(codec: Codec, source: Source, tail: Tail, stripe: int) -> Iterator[dict[str, object]]:
    names = column_names(tail.types)
    children = tail.types[0].children
    for batch in codec.read_batches(source, tail, stripes=[stripe]):
        for index in range(batch.num_rows):
            yield {
                name: value(batch.column(place)[index], tail.types, child)
                for place, (name, child) in enumerate(zip(names, children, strict=True))
            }


def value(scalar: Any, types: Types, column: int) -> object:
    """An Arrow scalar of ``column`` as what JSON can hold."""
    if not scalar.is_valid:
        return None
    item = types[column]
    if item.kind in _TIMESTAMPS:
        return timestamp(*_seconds(scalar))
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


def _seconds(scalar: Any) -> tuple[int, int]:
    if pa.types.is_struct(scalar.type):
        return scalar[0].as_py(), scalar[1].as_py()
    seconds, nanos = divmod(scalar.value, _NANOS)
    return seconds, nanos


def timestamp(seconds: int, nanos: int) -> str:
    """As Java's ``Timestamp.toString``: at least one digit of the fraction, no trailing zeros."""
    whole = str(np.datetime64(seconds, "s")).replace("T", " ")
    return f"{whole}.{f'{nanos:09d}'.rstrip('0') or '0'}"
