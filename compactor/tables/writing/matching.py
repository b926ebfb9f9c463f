"""Matches rows by the values of their keys: rows of a program with rows of a scan."""

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
from compactor.tables.writing.encodable import to_encodable

# These names have a sign that column names cannot have in Hive.
PLACE = ":place"  #: the position of a key among the known keys
_ROW = ":row"


def find_key_columns(table: Table, names: Sequence[str], argument: str) -> list[str]:
    """Returns the names of the key columns as the table spells them.

    Raises:
        NotFound: the table has no such column.
        NotSupported: a column is nested.
        Refused: no column is named; ``argument`` is the name of the user's argument.
    """
    known = {column.name.lower(): column.name for column in (*table.columns, *table.partition_keys)}
    if not names:
        raise Refused(f"{table}: {argument} is empty; name the columns that are the key")
    if unknown := [name for name in names if name.lower() not in known]:
        raise NotFound(f"{table} has no column {unknown[0]!r}; it has {', '.join(known)}")
    columns = [known[name.lower()] for name in names]
    for column in (*table.columns, *table.partition_keys):
        if column.name in columns and len(parse_hive_type(column.type)) > 1:
            raise NotSupported(
                f"{table}: column {column.name} is a {column.type}; {argument} cannot have nested columns"
            )
    return columns


def has_null(keys: pa.Table) -> pa.ChunkedArray:
    """Tells for each key whether one of its values is NULL."""
    nulls = pa.chunked_array([pa.array(np.zeros(keys.num_rows, dtype=bool))])
    for column in keys.columns:
        nulls = pc.or_(nulls, pc.is_null(column))
    return nulls


def make_comparable(keys: pa.Table) -> pa.Table:
    """Makes keys comparable by their bits.

    A timestamp becomes two columns, seconds and nanoseconds. Floating-point columns get one form of zero and of NaN.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(keys.column_names, keys.columns, strict=True):
        if not (pa.types.is_timestamp(column.type) or column.type.equals(PARTS)):
            columns[name] = _one_form(column) if pa.types.is_floating(column.type) else column
            continue
        parts = to_encodable(column.combine_chunks(), PARTS)
        for place, part in enumerate(PARTS.names):
            columns[f"{name}.{part}"] = pa.chunked_array([pc.struct_field(parts, [place])])
    return pa.table(columns)


def _one_form(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replaces -0.0 by 0.0, and all NaNs by one."""
    return pc.if_else(pc.is_nan(column), pa.scalar(math.nan, column.type), pc.add(column, pa.scalar(0, column.type)))


def match_keys(keys: pa.Table, known: pa.Table) -> pa.Array:
    """Returns for each of ``keys`` its position among the ``known`` ones, or NULL.

    Args:
        known: distinct comparable keys in the same columns, and ``PLACE``.
    """
    left = make_comparable(keys)
    names = left.column_names
    left = left.append_column(_ROW, pa.array(np.arange(keys.num_rows)))
    right = known.cast(pa.schema([*(left.schema.field(name) for name in names), known.schema.field(PLACE)]))
    joined = left.join(right, keys=names, join_type="left outer", use_threads=False).sort_by(_ROW)
    return joined.column(PLACE).combine_chunks()


def number_keys(keys: pa.Table) -> pa.Table:
    """Returns the distinct ones of comparable ``keys``, numbered by ``PLACE``."""
    unique = keys.group_by(keys.column_names, use_threads=False).aggregate([])
    return unique.append_column(PLACE, pa.array(np.arange(unique.num_rows)))
