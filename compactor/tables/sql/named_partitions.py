"""Partitions as statements name them: by values of some or all of their keys."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pyarrow as pa

from compactor.acid.partition_names import DEFAULT_PARTITION, part_name
from compactor.base.errors import NotConforming, NotFound, Refused
from compactor.locking.statement_rules import Spec
from compactor.metastore.catalog.read import Catalog
from compactor.metastore.catalog.values import Column, Partition, Table
from compactor.tables.schema import column_type
from compactor.tables.writing.append import WriteOptions, find_static_partition
from compactor.tables.writing.conform import Door


def key_values(table: Table, spec: Spec | None) -> dict[str, object]:
    """Returns the values in ``spec``, each converted to the type of its key.

    Raises:
        NotFound: the table has no such partition key.
        NotConforming: a value does not fit the type of its key.
        Refused: a key is named twice.
    """
    keys = {key.name.lower(): key for key in table.partition_keys}
    values: dict[str, object] = {}
    for name, text in spec or ():
        if name not in keys:
            raise NotFound(f"{table} has no partition key {name!r}; it has {', '.join(keys) or 'none'}")
        if name in values:
            raise Refused(f"{table}: partition key {name} is named twice")
        if text is not None:
            values[name] = None if text == DEFAULT_PARTITION else _parse_value(table, keys[name], text)
    return values


def partition_name(table: Table, spec: Spec) -> str:
    """Returns the name of the partition for which ``spec`` has the value of every key; it need not exist.

    Raises:
        Refused: ``spec`` leaves out a key, or the table is not partitioned.
    """
    values = key_values(table, spec)
    name = find_static_partition(table, WriteOptions(partition=values)) if table.is_partitioned else None
    if name is None:
        keys = ", ".join(key.name for key in table.partition_keys)
        raise Refused(
            f"{table}: the statement names one partition by the values of all its keys; they are {keys or 'none'}"
        )
    return name


def stored_name(catalog: Catalog, table: Table, spec: Spec) -> str:
    """Returns the stored name of an existing partition.

    Raises:
        Refused: ``spec`` leaves out a key.
        NotFound: there is no such partition.
    """
    name = partition_name(table, spec)
    plain = dict(spec)
    keys = [key.name.lower() for key in table.partition_keys]
    as_written = part_name(keys, [plain[key] or "" for key in keys])
    names = {part.name for part in catalog.partitions(table, sorted({name, as_written}))}
    return catalog.resolve_partition(table, as_written if as_written in names else name)


def find_partitions(catalog: Catalog, table: Table, spec: Spec | None) -> list[Partition]:
    """Returns the partitions that have the values of ``spec``; without a spec, all.

    Raises:
        NotFound: the table has no such partition key.
        Refused: the table is not partitioned.
    """
    if not table.is_partitioned:
        named = "" if spec is None else ", but the statement names a partition"
        raise Refused(f"table {table} is not partitioned{named}")
    texts = {key: _text(value) for key, value in key_values(table, spec).items()}
    plain: Mapping[str, str | None] = dict(spec or ())
    keys = [key.name.lower() for key in table.partition_keys]

    def has(part: Partition) -> bool:
        pairs = zip(keys, part.values, strict=True)
        return all(value in (texts[key], plain[key]) for key, value in pairs if key in texts)

    return [part for part in catalog.partitions(table) if has(part)]


def _parse_value(table: Table, key: Column, text: str) -> object:
    """Converts a text to the type of its key.

    A string is cut to its maximum length; a char is padded with blanks.
    """
    kind = column_type(table, key)
    if pa.types.is_string(kind):
        door = Door(table=str(table), columns=((key.name, key.type),))
        return door.conform(pa.table({key.name: [text]})).column(0)[0].as_py()
    try:
        if pa.types.is_decimal(kind):  # for a text too large for 128 bits, Arrow silently drops the upper bits
            return pa.array([Decimal(text)], kind)[0].as_py()
        return pa.array([text]).cast(kind)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ArithmeticError) as error:
        raise NotConforming(
            f"{table}: partition key {key.name} is a {key.type}, which {text!r} is not: {error}"
        ) from error


def _text(value: object) -> str:
    if value is None:
        return DEFAULT_PARTITION
    return str(value).lower() if isinstance(value, bool) else str(value)
