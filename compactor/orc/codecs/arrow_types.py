"""The Arrow type that holds the values of an ORC type without loss."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from compactor.base.errors import NotLossless
from compactor.orc.format.hive_types import schema_text, valid_name
from compactor.orc.format.types import TypeKind, Types

#: Arrow's types and arrays are of many classes, which can be distinguished only at run time.
ArrowType: TypeAlias = Any
Array: TypeAlias = Any


def arrow_type(types: Types, root: int = 0, *, timestamp: ArrowType | None = None) -> ArrowType:
    """Returns the Arrow type for values of column ``root``.

    Char and varchar become strings. Timestamps become nanoseconds, or the type ``timestamp``.

    Raises:
        NotLossless: Arrow has no equal type (unions, decimals without precision).
    """
    item = types[root]
    below = partial(arrow_type, types, timestamp=timestamp)
    if timestamp is not None and item.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        return timestamp
    if item.kind in _ARROW:
        return _ARROW[item.kind]
    if item.kind is TypeKind.DECIMAL and 1 <= item.precision <= 38:
        return pa.decimal128(item.precision, item.scale)
    if item.kind is TypeKind.LIST:
        return pa.list_(below(item.children[0]))
    if item.kind is TypeKind.MAP:
        return pa.map_(below(item.children[0]), below(item.children[1]))
    if item.kind is TypeKind.STRUCT:
        return pa.struct(
            [
                pa.field(valid_name(name), below(child))
                for name, child in zip(item.field_names, item.children, strict=True)
            ]
        )
    raise NotLossless(f"column {root} of {schema_text(types)}: Arrow has no type equal to {schema_text(types, root)}")


_ARROW: dict[TypeKind, ArrowType] = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.LONG: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.VARCHAR: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.TIMESTAMP: pa.timestamp("ns"),
    TypeKind.TIMESTAMP_INSTANT: pa.timestamp("ns", tz="UTC"),
    TypeKind.DATE: pa.date32(),
}
