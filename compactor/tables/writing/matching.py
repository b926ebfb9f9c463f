"""Rows matched by the values of their keys: those that a program gives, and those that a scan finds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import NotFound, NotSupported, Refused
from compactor.metastore.catalog.values import Table
from compactor.orc.format.hive_types import parse_hive_type
from compactor.tables.schema import PARTS
from compactor.tables.writing.encodable import encodable

# With a sign that no name of a column has in Hive.
PLACE = ":place"  #: of a key among those that are looked for
_ROW = ":row"


def key_columns(table: Table, names: Sequence[str], argument: str) -> list[str]:
    """Returns the names of the key's columns as the table has them.

    Raises:
        NotFound: the table has no such column.
        NotSupported: one is nested.
        Refused: there are none; ``argument`` is what they were given as.
    """
    known = {column.name.lower(): column.name for column in (*table.columns, *table.partition_keys)}
    if not names:
        raise Refused(f"{table}: {argument} is empty; name the columns that are the key")
    if unknown := [name for name in names if name.lower() not in known]:
        raise NotFound(f"{table} has no column {unknown[0]!r}; it has {', '.join(known)}")
    found = [known[name.lower()] for name in names]
    for column in (*table.columns, *table.partition_keys):
        if column.name in found and len(parse_hive_type(column.type)) > 1:
            raise NotSupported(f"{table}: column {column.name} is a {column.type}; {argument} takes no nested columns")
    return found


def has_null(keys: pa.Table) -> pa.ChunkedArray:
    """Returns for each key true if one of its values is NULL."""
    found = pa.chunked_array([pa.array(np.zeros(keys.num_rows, dtype=bool))])
    for column in keys.columns:
        found = pc.or_(found, pc.is_null(column))
    return found


def comparable(keys: pa.Table) -> pa.Table:
    """Returns ``keys`` with two columns in place of a timestamp, its seconds and its nanoseconds, and with one zero of the
    two that floating point has, and one NaN of its many."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(keys.column_names, keys.columns, strict=True):
        if not (pa.types.is_timestamp(column.type) or column.type.equals(PARTS)):
            columns[name] = _one_form(column) if pa.types.is_floating(column.type) else column
            continue
        parts = encodable(column.combine_chunks(), PARTS)
        for place, part in enumerate(PARTS.names):
            columns[f"{name}.{part}"] = pa.chunked_array([pc.struct_field(parts, [place])])
    return pa.table(columns)


def _one_form(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns numbers that are compared by their bits afterwards."""
    return pc.if_else(pc.is_nan(column), pa.scalar(math.nan, column.type), pc.add(column, pa.scalar(0, column.type)))


def matches(keys: pa.Table, known: pa.Table) -> pa.Array:
    """Returns for each of ``keys`` its place among the ``known`` ones, NULL without one.

    Args:
        known: the same columns, comparable, each key once, and ``PLACE``.
    """
    left = comparable(keys)
    names = left.column_names
    left = left.append_column(_ROW, pa.array(np.arange(keys.num_rows)))
    right = known.cast(pa.schema([*(left.schema.field(name) for name in names), known.schema.field(PLACE)]))
    joined = left.join(right, keys=names, join_type="left outer", use_threads=False).sort_by(_ROW)
    return joined.column(PLACE).combine_chunks()


def numbered(keys: pa.Table) -> pa.Table:
    """Returns each of the comparable ``keys`` once, with its ``PLACE``."""
    unique = keys.group_by(keys.column_names, use_threads=False).aggregate([])
    return unique.append_column(PLACE, pa.array(np.arange(unique.num_rows)))
