"""Finds Hive types for the columns of an Arrow schema; the reverse of ``schema.column_type``."""

from __future__ import annotations

import pyarrow as pa

from compactor.base.errors import NotSupported
from compactor.orc.codecs.arrow_types import ArrowType

_SIMPLE = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.date64(): "date",
}


def hive_columns(table: str, schema: pa.Schema) -> dict[str, str]:
    """Returns the Hive type of each column.

    Raises:
        NotSupported: Hive has no equivalent of a column's type.
    """
    return {field.name: _hive_type(table, field.name, field.type) for field in schema}


def _hive_type(table: str, column: str, kind: ArrowType) -> str:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return "timestamp"
    if pa.types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= 38:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_dictionary(kind):
        return _hive_type(table, column, kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_hive_type(table, column, kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_hive_type(table, column, kind.key_type)},{_hive_type(table, column, kind.item_type)}>"
    if pa.types.is_struct(kind):
        fields = (f"{field.name}:{_hive_type(table, column, field.type)}" for field in kind)
        return f"struct<{','.join(fields)}>"
    raise NotSupported(
        f"{table}: column {column} is a {kind} in Arrow, which has no equivalent in Hive's full ACID tables; give another "
        "type, or a mapping from columns to Hive types instead of a pyarrow schema"
    )
