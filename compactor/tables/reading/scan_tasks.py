"""The plan of a scan: explicit files with their lengths. Nothing else is read. Plain values that can be serialized."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from compactor.acid.write_ids import ValidWriteIdList
from compactor.rows.inputs import Input
from compactor.tables.filters.conditions import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """The files of one file number in one table or partition; delete events of a number apply only to rows of that number.

    ``number`` need not be the bucket in the rows' ROW__IDs; deletes of these rows go by ``number``. ``constants`` are the
    values of the partition columns, by name. With a ``span``, ``inserts`` is a single file, and only its stripes that begin
    within these bytes are read.
    """

    location: str
    number: int
    inserts: tuple[Input, ...]
    deletes: tuple[Input, ...]
    partition: str | None = None
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    span: tuple[int, int] | None = None

    @property
    def length(self) -> int:
        """Bytes of all files; with a span, of the span and the files with delete events."""
        rows = sum(file.length for file in self.inserts) if self.span is None else self.span[1] - self.span[0]
        return rows + sum(file.length for file in self.deletes)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files; files with rows come first."""
        return tuple(os.path.join(self.location, file.path) for file in (*self.inserts, *self.deletes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """Everything that a scan reads, under one snapshot.

    ``schema`` is the schema of the rows. ``names`` are the table's columns without partition columns. ``columns`` are the
    positions of the returned columns, and ``filter_columns`` of the others that ``condition`` needs. ``comparable`` has the
    types of all columns by name. ``default_zone`` is the zone of stripes that name none; None if it is not set.
    """

    table: str
    txn: int
    write_ids: ValidWriteIdList
    row_type: str
    names: tuple[str, ...]
    schema: pa.Schema
    comparable: pa.Schema
    columns: tuple[int, ...]
    filter_columns: tuple[int, ...] = ()
    condition: Condition | None = None
    row_ids: bool = False
    default_zone: str | None = None
    tasks: tuple[ScanTask, ...] = ()
