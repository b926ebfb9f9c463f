"""The values that the processes which write the rows of one statement exchange.

The driver sends them a ``SharedStatement`` or ``SharedChange`` and a description of the table. They return what they have
staged; see ``part_files``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from compactor.acid.names import DeltaKind
from compactor.base.ids import WriteId
from compactor.rewrite.plan.unit import Output
from compactor.tables.writing.row_change import Changed


class NamedType(Protocol):
    """A column's name and Hive type."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...


class TableShape(Protocol):
    """A table, as the metastore describes it or as a ``TravellingShape``; ``str`` returns its name."""

    @property
    def columns(self) -> Sequence[NamedType]: ...

    @property
    def partition_keys(self) -> Sequence[NamedType]: ...

    @property
    def buckets(self) -> int: ...

    @property
    def bucket_columns(self) -> Sequence[str]: ...

    @property
    def parameters(self) -> Mapping[str, str]: ...

    @property
    def row_type(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TravellingColumn:
    """A column that can be sent to other processes; see ``NamedType``."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TravellingShape:
    """A table that can be sent to other processes; see ``TableShape``."""

    name: str
    columns: tuple[TravellingColumn, ...]
    partition_keys: tuple[TravellingColumn, ...]
    buckets: int
    bucket_columns: tuple[str, ...]
    parameters: Mapping[str, str] = field(repr=False)
    row_type: str

    @classmethod
    def from_table(cls, table: TableShape) -> TravellingShape:
        return cls(
            name=str(table),
            columns=_columns(table.columns),
            partition_keys=_columns(table.partition_keys),
            buckets=table.buckets,
            bucket_columns=tuple(table.bucket_columns),
            parameters=dict(table.parameters),
            row_type=table.row_type,
        )

    def __str__(self) -> str:
        return self.name


def _columns(columns: Sequence[NamedType]) -> tuple[TravellingColumn, ...]:
    return tuple(TravellingColumn(name=column.name, type=column.type) for column in columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStatement:
    """A statement whose rows several processes write.

    They stage below ``attempts``, which only their user can read. ``is_gregorian`` is that of ``write_inserts``.
    """

    table: TravellingShape
    attempts: str
    write_id: WriteId
    is_gregorian: bool
    time_zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedChange:
    """A statement that changes rows in several processes.

    With ``is_checked``, a row may be matched only once.
    """

    rows: SharedStatement
    is_checked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """The rows or delete events that a writer has staged for one partition.

    The partition is "" for a table without partitions.

    ``directory`` holds the files ``outputs``.
    """

    partition: str
    statement_id: int
    directory: str
    outputs: tuple[Output, ...]
    kind: DeltaKind = DeltaKind.INSERT

    @property
    def rows(self) -> int:
        return sum(output.rows for output in self.outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPart:
    """The parts that a writer has staged, and the numbers of changed rows in them."""

    parts: tuple[WrittenPart, ...]
    counts: Changed
