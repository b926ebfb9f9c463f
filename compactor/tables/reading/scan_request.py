"""The arguments of a scan, and the schema, columns and condition that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from compactor.base.errors import NotSupported
from compactor.metastore.catalog.values import Column, Table
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import TypeKind
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import Condition
from compactor.tables.schema import IN_PARTS, NANOSECONDS, PARTS, Selection, arrow_schema, column_type, select


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The arguments of ``Table.scan``, which documents them."""

    row_filter: str | None = None
    selected_fields: tuple[str, ...] | None = None
    row_ids: bool = False
    timestamps: str = NANOSECONDS

    def schema(self, table: Table) -> pa.Schema:
        """Returns the schema of the rows.

        Raises:
            NotFound, NotSupported, BadSetting: as for ``arrow_schema`` and ``select``.
        """
        return arrow_schema(table, self.selection(table), row_ids=self.row_ids, timestamps=self.timestamps)

    def selection(self, table: Table) -> Selection:
        """Returns the columns to return."""
        return select(table, self.selected_fields)

    def condition(self, table: Table) -> Condition | None:
        """Binds the filter to the columns of ``table``; None without a filter.

        Raises:
            BadExpression: the filter does not follow the grammar.
        """
        if self.row_filter is None:
            return None
        schema = self.comparable(table)
        kinds = {column.name: _kind(column) for column in (*table.columns, *table.partition_keys)}
        times = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
        return bind(
            self.row_filter,
            schema,
            chars=[name for name, kind in kinds.items() if kind is TypeKind.CHAR],
            parts=[name for name, kind in kinds.items() if kind in times and schema.field(name).type.equals(PARTS)],
        )

    def comparable(self, table: Table) -> pa.Schema:
        """Returns the schema of all columns that have an Arrow type; conditions may compare them.

        Nanoseconds in 64 bits do not reach every timestamp, so a filter compares timestamps in parts instead.
        """
        schema = comparable_schema(table, self.timestamps)
        if self.timestamps != NANOSECONDS:
            return schema
        returned = set(self.schema(table).names)
        exact = comparable_schema(table, IN_PARTS)
        return pa.schema(
            [
                field if field.name in returned and pa.types.is_nested(field.type) else exact.field(field.name)
                for field in schema
            ]
        )


def comparable_schema(table: Table, timestamps: str) -> pa.Schema:
    """Returns the schema of all columns that have an Arrow type; conditions may compare them."""
    names = [column.name for column in (*table.columns, *table.partition_keys) if _has_type(table, column)]
    return arrow_schema(table, select(table, names), timestamps=timestamps)


def find_places(table: Table, names: Sequence[str]) -> tuple[int, ...]:
    """Returns the positions of the columns with these names; partition columns have none."""
    return tuple(place for place, column in enumerate(table.columns) if column.name in names)


def _has_type(table: Table, column: Column) -> bool:
    try:
        column_type(table, column)
    except NotSupported:
        return False
    return True


def _kind(column: Column) -> TypeKind:
    return parse_hive_type(column.type)[0].kind
