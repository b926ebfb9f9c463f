"""The values of partition columns: constants of a partition, and what they mean for a filter."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from compactor.acid.partition_names import DEFAULT_PARTITION
from compactor.base.errors import BadName
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import TypeKind
from compactor.tables.filters.conditions import Condition, FilterColumn, Value, ValueKind
from compactor.tables.filters.expressions import seconds_and_nanos
from compactor.tables.filters.outcomes import ColumnFacts, may_match, single_value_facts
from compactor.tables.schema import PARTS

if TYPE_CHECKING:
    from compactor.metastore.catalog.values import Column as Key
    from compactor.metastore.catalog.values import Partition, Table


def parse_constants(table: Table, partition: Partition, types: pa.Schema) -> dict[str, pa.Scalar]:
    """Returns the value of each partition column in ``types``.

    A char has its blanks, the default partition is NULL.

    Raises:
        BadName: a value does not fit its column's type.
    """
    return {
        key.name: _scalar(
            table, partition, None if text == DEFAULT_PARTITION else _pad_char(text, key), types.field(key.name)
        )
        for key, text in zip(table.partition_keys, partition.values, strict=True)
    }


def char_length(kind: str) -> int | None:
    """Returns the length of a char; None for other Hive types.

    In Hive, partition names have the trailing blanks of chars, as rows do. Other writers may leave them out.
    """
    item = parse_hive_type(kind)[0]
    return item.maximum_length if item.kind is TypeKind.CHAR else None


def _pad_char(text: str, key: Key) -> str:
    length = char_length(key.type)
    return text if length is None else text.ljust(length)


def _scalar(table: Table, partition: Partition, text: str | None, field: pa.Field) -> pa.Scalar:
    kind = field.type
    try:
        if kind.equals(PARTS) and text is not None:
            return pa.scalar(dict(zip(PARTS.names, seconds_and_nanos(text), strict=True)), kind)
        if pa.types.is_decimal(kind) and text is not None:
            return pa.scalar(Decimal(text), kind)
        return pa.scalar(text, pa.string()).cast(kind)
    except (pa.ArrowException, ArithmeticError, ValueError) as error:
        way_out = "scan with timestamps='parts', or " if pa.types.is_timestamp(kind) else ""
        raise BadName(
            f"{table}: partition {partition.name!r} has {text!r} for {field.name}, which is not a {kind} ({error}); "
            f"{way_out}rename or drop it"
        ) from error


def partition_facts(values: Mapping[str, pa.Scalar], columns: Mapping[str, FilterColumn]) -> dict[str, ColumnFacts]:
    """Returns facts about the partition columns among the condition's ``columns``, by name."""
    return {
        name: single_value_facts(_value(values[name], column)) for name, column in columns.items() if name in values
    }


def may_have(condition: Condition, values: Mapping[str, pa.Scalar], columns: Mapping[str, FilterColumn]) -> bool:
    """Tells whether a row of the partition may meet the condition."""
    return may_match(condition, partition_facts(values, columns))


def _value(scalar: pa.Scalar, column: FilterColumn) -> Value | None:
    if not scalar.is_valid:
        return None
    match column.kind:
        case ValueKind.TEXT:
            return str(scalar.as_py()).encode()
        case ValueKind.CHAR:
            return str(scalar.as_py()).rstrip(" ").encode()
        case ValueKind.DATE:
            return int(scalar.value)
        case ValueKind.TIMESTAMP if pa.types.is_struct(scalar.type):
            return int(scalar["seconds"].as_py()) * 10**9 + int(scalar["nanos"].as_py())
        case ValueKind.TIMESTAMP:
            return int(scalar.value) * (1 if scalar.type.unit == "ns" else 1000)
    value: Value = scalar.as_py()
    return value
