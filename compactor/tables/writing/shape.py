"""The description of a table that its writers need, small enough to send to other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class NamedType(Protocol):
    """A column's name and Hive type."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...


class Shape(Protocol):
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
    """A table that can be sent to other processes; see ``Shape``."""

    name: str
    columns: tuple[TravellingColumn, ...]
    partition_keys: tuple[TravellingColumn, ...]
    buckets: int
    bucket_columns: tuple[str, ...]
    parameters: Mapping[str, str] = field(repr=False)
    row_type: str

    @classmethod
    def from_table(cls, table: Shape) -> TravellingShape:
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
