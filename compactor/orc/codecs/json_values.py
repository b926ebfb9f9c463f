"""Values of ORC as JSON, in the format of ``orcfiledump -d``.

Dates, timestamps and decimals are texts as Java prints them, and so are NaN and the infinities. Binary is a list of bytes,
a map a list of ``_key`` and ``_value``. Dates and timestamps are in the proleptic Gregorian calendar.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from compactor.orc.format.types import TypeKind, Types

_NANOS = 10**9
_INFINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  #: not representable as JSON numbers
_TIMESTAMPS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)


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
    """Formats a timestamp like Java's ``Timestamp.toString``, as in ``1999-12-31 23:59:59.5``."""
    whole = str(np.datetime64(seconds, "s")).replace("T", " ")
    return f"{whole}.{f'{nanos:09d}'.rstrip('0') or '0'}"
