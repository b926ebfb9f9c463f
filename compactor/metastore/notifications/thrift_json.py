"""Tables and partitions as Hive's Thrift objects, in ``TJSONProtocol``, as events have them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.metastore.schema.tables import CATALOG


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
    """Where rows are and how they are read.

    ``sort_columns`` are names with 1 for ascending, 0 for descending.
    """

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


_OWNERS = {"USER": 1, "ROLE": 2, "GROUP": 3}  #: ``PrincipalType``
#: ``SkewedInfo`` of a table that is not skewed.
_NOT_SKEWED = {"1": {"lst": ["str", 0]}, "2": {"lst": ["lst", 0]}, "3": {"map": ["lst", "str", 0, {}]}}


def table_text(table: TableObject) -> str:
    """Returns the text of a ``Table``."""
    return _text_of(
        {
            1: _text(table.name),
            2: _text(table.database),
            3: _text(table.owner),
            4: _i32(table.created),
            5: _i32(table.accessed),
            6: _i32(table.retention),
            7: {"rec": _storage(table.storage)},
            8: _fields(table.partition_keys),
            9: _map(table.parameters),
            10: _text(table.view_original),
            11: _text(table.view_expanded),
            12: _text(table.type),
            15: _flag(table.is_rewritable),
            17: _text(CATALOG),
            18: _i32(_OWNERS.get(table.owner_type or "USER")),
            19: _i64(table.write_id),
            25: _i64(table.id),
        }
    )


def partition_text(partition: PartitionObject) -> str:
    """Returns the text of a ``Partition``."""
    return _text_of(
        {
            1: _texts(partition.values),
            2: _text(partition.database),
            3: _text(partition.table),
            4: _i32(partition.created),
            5: _i32(partition.accessed),
            6: {"rec": _storage(partition.storage)},
            7: _map(partition.parameters),
            9: _text(CATALOG),
            10: _i64(partition.write_id),
        }
    )


def _storage(storage: StorageDescriptor) -> dict[str, Any]:
    return _struct(
        {
            1: _fields(storage.columns),
            2: _text(storage.location),
            3: _text(storage.input_format),
            4: _text(storage.output_format),
            5: _flag(storage.is_compressed),
            6: _i32(storage.buckets),
            7: {"rec": _serde(storage.serde)},
            8: _texts(storage.bucket_columns),
            9: _records([_struct({1: _text(name), 2: _i32(order)}) for name, order in storage.sort_columns]),
            10: _map(storage.parameters),
            11: {"rec": _NOT_SKEWED},
            12: _flag(storage.in_subdirectories),
        }
    )


def _serde(serde: SerDeInfo) -> dict[str, Any]:
    return _struct(
        {
            1: _text(serde.name),
            2: _text(serde.library),
            3: _map(serde.parameters),
            4: _text(serde.description),
            5: _text(serde.serializer),
            6: _text(serde.deserializer),
            7: _i32(serde.type),
        }
    )


def _fields(columns: Sequence[FieldSchema]) -> dict[str, Any]:
    return _records([_struct({1: _text(c.name), 2: _text(c.type), 3: _text(c.comment)}) for c in columns])


def _text_of(fields: Mapping[int, Any]) -> str:
    return json.dumps(_struct(fields), ensure_ascii=False, separators=(",", ":"))


def _struct(fields: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): value for number, value in fields.items() if value is not None}


def _text(value: str | None) -> dict[str, str] | None:
    return None if value is None else {"str": value}


def _i32(value: int | None) -> dict[str, int] | None:
    return None if value is None else {"i32": value}


def _i64(value: int) -> dict[str, int]:
    return {"i64": value}


def _flag(value: bool) -> dict[str, int]:
    return {"tf": int(value)}


def _texts(values: Sequence[str]) -> dict[str, Any]:
    return {"lst": ["str", len(values), *values]}


def _records(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"lst": ["rec", len(values), *values]}


def _map(values: Mapping[str, str]) -> dict[str, Any]:
    return {"map": ["str", "str", len(values), dict(values)]}
