"""The arguments of a scan, and the columns that it needs."""

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
from compactor.tables.schema import IN_PARTS, NANOSECONDS, Selection, arrow_schema, column_type, select


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The arguments of ``Table.scan``; see there."""

    row_filter: str | None = None
    selected_fields: tuple[str, ...] | None = None
    row_ids: bool = False
    timestamps: str = NANOSECONDS

    def schema(self, table: Table) -> pa.Schema:
        """Returns the schema of the rows.

        Raises:
            NotFound, NotSupported, BadSetting: as ``arrow_schema`` and ``select`` do.
        """
        return arrow_schema(table, self.selection(table), row_ids=self.row_ids, timestamps=self.timestamps)

    def selection(self, table: Table) -> Selection:
        return select(table, self.selected_fields)

    def condition(self, table: Table) -> Condition | None:
        """Returns what the filter asks of the columns of ``table``.

        Raises:
            BadExpression: the filter's text is bad.
        """
        if self.row_filter is None:
            return None
        kinds = {column.name: _kind_of(column) for column in (*table.columns, *table.partition_keys)}
        times = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
        return bind(
            self.row_filter,
            comparable_schema(table, self.timestamps),
            chars=[name for name, kind in kinds.items() if kind is TypeKind.CHAR],
            parts=[name for name, kind in kinds.items() if kind in times and self.timestamps == IN_PARTS],
        )


def comparable_schema(table: Table, timestamps: str) -> pa.Schema:
    """Returns the schema of all columns that Arrow has types for."""
    names = [column.name for column in (*table.columns, *table.partition_keys) if _has_type(table, column)]
    return arrow_schema(table, select(table, names), timestamps=timestamps)


def places_of(table: Table, names: Sequence[str]) -> tuple[int, ...]:
    """Returns the positions in the row of the columns with these names; partition columns have none."""
    return tuple(place for place, column in enumerate(table.columns) if column.name in names)


def _has_type(table: Table, column: Column) -> bool:
    try:
        column_type(table, column)
    except NotSupported:
        return False
    return True


def _kind_of(column: Column) -> TypeKind:
    return parse_hive_type(column.type)[0].kind
