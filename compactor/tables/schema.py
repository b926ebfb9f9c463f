"""A table's columns in Arrow: one schema for a scan, whatever types its files were written with."""

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
IN_PARTS = "parts"  #: which loses nothing
PER_SECOND = {NANOSECONDS: 10**9, "us": 10**6}  #: units of timestamps
PARTS = pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())])  #: a timestamp without any loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The columns that a scan returns: positions of the table's columns and of its partition keys, each in their order."""

    columns: tuple[int, ...]
    keys: tuple[int, ...]


def select(table: Table, names: Sequence[str] | None) -> Selection:
    """Returns the selection of the columns with these names in any case, in the table's order; None selects all.

    Raises:
        NotFound: the table has no column of such a name.
    """
    every = [column.name.lower() for column in (*table.columns, *table.partition_keys)]
    wanted = set(every) if names is None else {name.lower() for name in names}
    if unknown := sorted(wanted.difference(every)):
        raise NotFound(f"{table} has no column {unknown[0]!r}; it has {', '.join(every)}")
    count = len(table.columns)
    return Selection(
        columns=tuple(place for place in range(count) if every[place] in wanted),
        keys=tuple(place for place in range(len(table.partition_keys)) if every[count + place] in wanted),
    )


def arrow_schema(
    table: Table, selection: Selection | None = None, *, row_ids: bool = False, timestamps: str = NANOSECONDS
) -> pa.Schema:
    """Returns the schema of a scan: ``row__id`` if asked for, the columns, then the partition columns.

    Raises:
        NotSupported: a column has a type that Arrow has no equal of (a uniontype).
        BadSetting: ``timestamps`` is none of ``ns``, ``us`` and ``parts``.
    """
    if timestamps not in (*PER_SECOND, IN_PARTS):
        raise BadSetting(f"timestamps={timestamps!r}: wanted 'ns', 'us', or 'parts'; see Table.scan")
    chosen = selection or select(table, None)
    columns = [table.columns[place] for place in chosen.columns]
    columns += [table.partition_keys[place] for place in chosen.keys]
    fields = [pa.field(column.name, _with_unit(column_type(table, column), timestamps)) for column in columns]
    return pa.schema([pa.field(ROW_ID, ROW_ID_TYPE, nullable=False), *fields] if row_ids else fields)


def column_type(table: Table, column: Column) -> ArrowType:
    """Returns the Arrow type of one column.

    Raises:
        NotSupported: there is none.
    """
    try:
        return arrow_type(parse_hive_type(column.type))
    except NotLossless as error:
        raise NotSupported(
            f"{table}: column {column.name} is a {column.type}, which Arrow has no equal type of; name the other columns in "
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
