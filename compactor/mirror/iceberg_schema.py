"""The Iceberg schema of a mirrored table, and how it follows changes of the table's columns.

Field ids are assigned once, and live in the Iceberg table. Columns are matched by position and name: a file of an ACID table
knows its columns by position only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from compactor.base.errors import MirrorStopped, NotLossless, NotSupported
from compactor.metastore.catalog.values import Column, Table
from compactor.orc.format.hive_types import parse_hive_type, schema_text, valid_name
from compactor.orc.format.types import TypeKind, Types
from compactor.orc.format.widening import column_widens
from compactor.tables.schema import PARTS

FIRST_PARTITION_FIELD = 1000  #: ids of partition fields count from here
_PLAIN: dict[TypeKind, IcebergType] = {
    TypeKind.BOOLEAN: BooleanType(),
    TypeKind.BYTE: IntegerType(),
    TypeKind.SHORT: IntegerType(),
    TypeKind.INT: IntegerType(),
    TypeKind.LONG: LongType(),
    TypeKind.FLOAT: FloatType(),
    TypeKind.DOUBLE: DoubleType(),
    TypeKind.STRING: StringType(),
    TypeKind.VARCHAR: StringType(),
    TypeKind.CHAR: StringType(),
    TypeKind.BINARY: BinaryType(),
    TypeKind.DATE: DateType(),
    TypeKind.TIMESTAMP: TimestampType(),
    TypeKind.TIMESTAMP_INSTANT: TimestamptzType(),
}
_NO_PARTITION = (FloatType, DoubleType, BinaryType, TimestamptzType, BooleanType)


def iceberg_schema(table: Table) -> Schema:
    """Returns the schema of a new mirror of ``table``: its columns, then its partition columns.

    Raises:
        NotSupported: a column has a type that a mirror cannot have.
    """
    ids = itertools.count(1)
    columns = (*table.columns, *table.partition_keys)
    names = [valid_name(column.name).lower() for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise NotSupported(f"{table}: two columns are called {name}; an Iceberg table needs one name for each")
    top = [next(ids) for _ in columns]
    kinds = [_convert(table, column, ids) for column in columns]
    fields = [
        NestedField(number, name, kind, required=False, doc=schema_text(parse_hive_type(column.type)))
        for number, name, kind, column in zip(top, names, kinds, columns, strict=True)
    ]
    try:
        return Schema(*fields)
    except ValueError as error:
        raise NotSupported(
            f"{table}: Iceberg needs one name for each column and field, in lower case, with dots between a column and its "
            f"fields: {error}"
        ) from error


def partition_spec(table: Table, schema: Schema) -> PartitionSpec:
    """Returns the identity partitions of a mirror of ``table``.

    Raises:
        NotSupported: Iceberg's readers do not agree about values of a partition column's type.
    """
    fields = []
    for place, key in enumerate(table.partition_keys):
        field = schema.find_field(valid_name(key.name).lower())
        if isinstance(field.field_type, _NO_PARTITION):
            raise NotSupported(
                f"{table}: partition column {key.name} is a {key.type}; a mirror has partitions of integers, decimals, "
                "texts, dates and timestamps only"
            )
        fields.append(PartitionField(field.field_id, FIRST_PARTITION_FIELD + place, IdentityTransform(), field.name))
    return PartitionSpec(*fields)


def _convert(table: Table, column: Column, ids: Iterator[int]) -> IcebergType:
    try:
        types = parse_hive_type(column.type)
    except NotLossless as error:
        raise NotSupported(f"{table}: column {column.name}: {error}") from error
    return _convert_type(table, column, types, 0, ids)


def _convert_type(table: Table, column: Column, types: Types, place: int, ids: Iterator[int]) -> IcebergType:
    item = types[place]
    if item.kind in _PLAIN:
        return _PLAIN[item.kind]
    if item.kind is TypeKind.DECIMAL:
        return DecimalType(item.precision, item.scale)
    if item.kind is TypeKind.UNION:
        raise NotSupported(
            f"{table}: column {column.name} is a {column.type}; Iceberg has no union, so it has no mirror"
        )
    numbers = [next(ids) for _ in item.children]
    children = [_convert_type(table, column, types, child, ids) for child in item.children]
    if item.kind is TypeKind.LIST:
        return ListType(numbers[0], children[0], element_required=False)
    if item.kind is TypeKind.MAP:
        return MapType(numbers[0], children[0], numbers[1], children[1], value_required=False)
    return StructType(
        *(
            NestedField(
                number, valid_name(name).lower(), kind, required=False, doc=_describe(schema_text(types, child))
            )
            for number, name, child, kind in zip(numbers, item.field_names, item.children, children, strict=True)
        )
    )


def _describe(hive_type: str) -> str | None:
    """Returns a part's type as the comment of its field; None for nested types."""
    return None if "<" in hive_type else hive_type.lower()


def evolve_schema(table: Table, current: Schema, last_id: int) -> Schema | None:
    """Returns the schema of the mirror after the columns of ``table`` have changed; None if they have not.

    Columns and fields of structs may be added at the end, and types may be widened as Iceberg widens them.

    Args:
        last_id: the largest field id that the mirror has ever had.

    Raises:
        MirrorStopped: a column was renamed, removed, moved, or has a type that old files cannot be read as.
    """
    proposed = iceberg_schema(table)
    keys = {valid_name(key.name).lower() for key in table.partition_keys}
    ids = itertools.count(last_id + 1)
    known = [field for field in current.fields if field.name not in keys]
    columns = [field for field in proposed.fields if field.name not in keys]
    known_keys = [field for field in current.fields if field.name in keys]
    proposed_keys = [field for field in proposed.fields if field.name in keys]
    merged = [
        *_merge_fields(table, known, columns, "", ids),
        *_merge_fields(table, known_keys, proposed_keys, "", ids),
    ]
    hive_types = {field.name: field.doc for field in proposed.fields}
    described = [_describe_again(table, field, hive_types[field.name]) for field in merged]
    schema = Schema(*described, schema_id=current.schema_id)
    return None if schema.fields == current.fields else schema


def _describe_again(table: Table, field: NestedField, hive_type: str | None) -> NestedField:
    """Returns a column with its present Hive type as comment: Iceberg has one type for several of Hive's.

    Raises:
        MirrorStopped: the Hive type is narrower than the one in the comment.
    """
    if field.doc is None or hive_type is None or field.doc == hive_type:
        return field
    if not column_widens(parse_hive_type(field.doc), 0, parse_hive_type(hive_type), 0):
        raise _stopped(
            table,
            f"column {field.name} was {field.doc} and is now {hive_type}, which may not hold all values of old files",
        )
    return field.model_copy(update={"doc": hive_type})


def _merge_fields(
    table: Table, current: list[NestedField], proposed: list[NestedField], path: str, ids: Iterator[int]
) -> list[NestedField]:
    names, new_names = [field.name for field in current], [field.name for field in proposed]
    if new_names[: len(names)] != names:
        place = next(at for at, name in enumerate(names) if new_names[at : at + 1] != [name])
        now = f"is now {path}{new_names[place]}" if place < len(new_names) else "is gone"
        raise _stopped(table, f"column {path}{names[place]} {now}; a mirror keeps names and places of columns")
    merged = []
    for old, new in zip(current, proposed, strict=False):
        kind = _merge_types(table, old, new.field_type, f"{path}{old.name}", ids)
        merged.append(old if kind == old.field_type else old.model_copy(update={"field_type": kind}))
    for new in proposed[len(current) :]:
        number = next(ids)
        merged.append(new.model_copy(update={"field_id": number, "field_type": _renumber(new.field_type, ids)}))
    return merged


def _merge_types(table: Table, field: NestedField, new: IcebergType, path: str, ids: Iterator[int]) -> IcebergType:
    old = field.field_type
    if isinstance(old, StructType) and isinstance(new, StructType):
        return StructType(*_merge_fields(table, list(old.fields), list(new.fields), f"{path}.", ids))
    if isinstance(old, ListType) and isinstance(new, ListType):
        element = _merge_types(table, old.element_field, new.element_type, f"{path}.element", ids)
        return ListType(old.element_id, element, element_required=False)
    if isinstance(old, MapType) and isinstance(new, MapType):
        key = _merge_types(table, old.key_field, new.key_type, f"{path}.key", ids)
        value = _merge_types(table, old.value_field, new.value_type, f"{path}.value", ids)
        return MapType(old.key_id, key, old.value_id, value, value_required=False)
    if old == new:
        return old
    if isinstance(old, IntegerType) and isinstance(new, LongType):
        if field.doc is None:  # no reader was seen to widen elements of lists and maps in ORC
            raise _stopped(
                table, f"column {path} was int and is now long, which readers widen in columns and structs only"
            )
        return new
    if isinstance(old, FloatType) and isinstance(new, DoubleType):
        return new
    match old, new:
        case DecimalType(), DecimalType() if old.scale == new.scale and old.precision < new.precision:
            return new
    raise _stopped(table, f"column {path} was {old} and is now {new}, as which Iceberg does not read old files")


def _renumber(kind: IcebergType, ids: Iterator[int]) -> IcebergType:
    if isinstance(kind, ListType):
        return ListType(next(ids), _renumber(kind.element_type, ids), element_required=False)
    if isinstance(kind, MapType):
        key, value = next(ids), next(ids)
        key_type, value_type = _renumber(kind.key_type, ids), _renumber(kind.value_type, ids)
        return MapType(key, key_type, value, value_type, value_required=False)
    if isinstance(kind, StructType):
        numbers = [next(ids) for _ in kind.fields]
        return StructType(
            *(
                field.model_copy(update={"field_id": number, "field_type": _renumber(field.field_type, ids)})
                for number, field in zip(numbers, kind.fields, strict=True)
            )
        )
    return kind


def _stopped(table: Table, why: str) -> MirrorStopped:
    return MirrorStopped(f"{table}: {why}; `compactor mirror rebuild {table}` begins a new copy")


def partition_record(table: Table, partition: str | None, constants: dict[str, pa.Scalar]) -> Record:
    """Returns the partition of files with these values of the partition columns.

    Raises:
        NotSupported: a value has no equal in Iceberg.
    """
    return Record(*(_single_value(table, partition, key, constants[key.name]) for key in table.partition_keys))


def _single_value(table: Table, partition: str | None, key: Column, value: pa.Scalar) -> object:
    if not value.is_valid:
        return None
    if value.type.equals(PARTS):
        seconds, nanos = value["seconds"].as_py(), value["nanos"].as_py()
        if nanos % 1000:
            raise NotSupported(
                f"{table}: partition {partition} has a time for {key.name} that is finer than a microsecond, which Iceberg "
                "does not hold"
            )
        return int(seconds * 10**6 + nanos // 1000)
    if pa.types.is_date32(value.type):
        return int(value.value)
    plain = value.as_py()
    if isinstance(plain, str) and parse_hive_type(key.type)[0].kind is TypeKind.CHAR:
        return plain.rstrip(" ")
    if isinstance(plain, Decimal):
        return plain.quantize(Decimal(1).scaleb(-value.type.scale))
    return plain
