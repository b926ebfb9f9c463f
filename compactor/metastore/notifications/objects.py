"""Tables and partitions as a client of Hive's metastore gets them, with all that its Thrift objects have.

Without privileges, which events never have, and without the values by which a table is skewed, since no transactional table
is written by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema:
    """A column, or a partition key."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SerDeInfo:
    """The class that reads and writes rows."""

    name: str | None
    library: str | None
    parameters: Mapping[str, str]
    description: str | None = None
    serializer: str | None = None
    deserializer: str | None = None
    type: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageDescriptor:
    """Where rows are and how they are read; ``sort_columns`` are names with 1 for ascending, 0 for descending."""

    columns: tuple[FieldSchema, ...]
    location: str | None
    input_format: str | None
    output_format: str | None
    is_compressed: bool
    buckets: int
    serde: SerDeInfo
    bucket_columns: tuple[str, ...]
    sort_columns: tuple[tuple[str, int], ...]
    parameters: Mapping[str, str]
    in_subdirectories: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableObject:
    """A table; times are in seconds since 1970."""

    id: int
    database: str
    name: str
    owner: str | None
    owner_type: str | None  #: USER, GROUP or ROLE
    created: int
    accessed: int
    retention: int
    storage: StorageDescriptor
    partition_keys: tuple[FieldSchema, ...]
    parameters: Mapping[str, str]
    view_original: str | None
    view_expanded: str | None
    type: str
    is_rewritable: bool
    write_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObject:
    """A partition; times are in seconds since 1970."""

    name: str  #: PART_NAME, which its Thrift object lacks
    values: tuple[str, ...]
    database: str
    table: str
    created: int
    accessed: int
    storage: StorageDescriptor
    parameters: Mapping[str, str]
    write_id: int
