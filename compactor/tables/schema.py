"""A table's columns in Arrow, and Hive types for the columns of an Arrow schema.

A scan has one schema, whatever types its files were written with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from compactor.base.errors import BadSetting, NotFound, NotLossless, NotSupported
from compactor.orc.codecs.arrow_types import ArrowType, arrow_type
from compactor.orc.format.hive_types import parse_hive_type

if TYPE_CHECKING:
    from compactor.metastore.catalog.values import Column, Table

ROW_ID = "row__id"  #: the column of Hive's ROW__ID
ROW_ID_TYPE = pa.struct(
    [pa.field("writeid", pa.int64()), pa.field("bucketid", pa.int32()), pa.field("rowid", pa.int64())]
)
NANOSECONDS = "ns"
IN_PARTS = "parts"  #: the lossless form of timestamps
PER_SECOND = {NANOSECONDS: 10**9, "us": 10**6}  #: units of timestamps
PARTS = pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())])  #: a lossless timestamp
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The columns of a scan: positions among the table's columns and partition keys, in order."""

    columns: tuple[int, ...]
    keys: tuple[int, ...]


def select(table: Table, names: Sequence[str] | None) -> Selection:
    """Selects columns by name, in any case; the result is in the table's order. None selects all.

    Raises:
        NotFound: the table has no column of this name.
    """
    known = [column.name.lower() for column in (*table.columns, *table.partition_keys)]
    chosen = set(known) if names is None else {name.lower() for name in names}
    if unknown := sorted(chosen.difference(known)):
        raise NotFound(f"{table} has no column {unknown[0]!r}; it has {', '.join(known)}")
    count = len(table.columns)
    return Selection(
        columns=tuple(place for place in range(count) if known[place] in chosen),
        keys=tuple(place for place in range(len(table.partition_keys)) if known[count + place] in chosen),
    )


def arrow_schema(
    table: Table, selection: Selection | None = None, *, row_ids: bool = False, timestamps: str = NANOSECONDS
) -> pa.Schema:
    """Returns the schema of a scan: ``row__id`` if ``row_ids``, the columns, then the partition columns.

    Raises:
        NotSupported: Arrow has no equivalent of a column's type (a uniontype).
        BadSetting: ``timestamps`` is not ``ns``, ``us`` or ``parts``.
    """
    if timestamps not in (*PER_SECOND, IN_PARTS):
        raise BadSetting(f"timestamps={timestamps!r}: expected 'ns', 'us', or 'parts'; see Table.scan")
    chosen = selection or select(table, None)
    columns = [table.columns[place] for place in chosen.columns]
    columns += [table.partition_keys[place] for place in chosen.keys]
    fields = [pa.field(column.name, _with_unit(column_type(table, column), timestamps)) for column in columns]
    return pa.schema([pa.field(ROW_ID, ROW_ID_TYPE, nullable=False), *fields] if row_ids else fields)


def column_type(table: Table, column: Column) -> ArrowType:
    """Returns the Arrow type of a column.

    Raises:
        NotSupported: Arrow has no equivalent of its type.
    """
    try:
        return arrow_type(parse_hive_type(column.type))
    except NotLossless as error:
        raise NotSupported(
            f"{table}: column {column.name} is a {column.type}, which has no equivalent in Arrow; name the other columns in "
            "selected_fields"
        ) from error


def _with_unit(kind: ArrowType, unit: str) -> ArrowType:
    """Returns ``kind`` with its timestamps, at any depth, in ``unit``."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp(unit, kind.tz) if unit in PER_SECOND else PARTS
    if pa.types.is_list(kind):
        return pa.list_(_with_unit(kind.value_type, unit))
    if pa.types.is_map(kind):
        return pa.map_(_with_unit(kind.key_type, unit), _with_unit(kind.item_type, unit))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _with_unit(field.type, unit)) for field in kind])
    return kind


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
