"""A scan as planned: explicit files with their lengths, which are all that is read. Plain values that may travel."""

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
    """The files of one file number in one table or partition; delete events of one number apply to its rows only.

    ``number`` need not be the bucket in the rows' ROW__IDs: deletes of these rows go by it. ``constants`` are the values of
    the partition columns, by name. With a ``span`` there is one file in ``inserts``, and the stripes that begin within these
    bytes of it are read.
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
        """Bytes of all files, or of the span and the files with delete events."""
        rows = sum(file.length for file in self.inserts) if self.span is None else self.span[1] - self.span[0]
        return rows + sum(file.length for file in self.deletes)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files, those with rows first."""
        return tuple(os.path.join(self.location, file.path) for file in (*self.inserts, *self.deletes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """All that a scan reads, under one snapshot.

    ``schema`` is that of the rows. ``names`` are those of the table's columns without partition columns; ``columns`` are the
    positions of those that are returned, ``filter_columns`` of those that ``condition`` needs besides; ``comparable`` has
    the types of all columns by name. ``default_zone`` is that of stripes that name none; None if nobody says it.
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
