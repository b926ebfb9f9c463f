"""Small ACID files of chosen events, one stripe each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from compactor.orc.codecs import arrow_codec
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import Tail, empty_tail, read_tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import LocalSource
from compactor.orc.reencode import encode_acid
from compactor.rows.keys import KEY, KeyBlock
from compactor.rows.new_file import OutputMetadata

ROW_TYPE = "struct<a:int>"
TYPES = acid_types(parse_hive_type(ROW_TYPE))
FIRST_FILE = 1 << 29  #: the bucket property of file 0, statement 0

Key = tuple[int, int, int]


def block(keys: Sequence[Key]) -> KeyBlock:
    """Returns the key block of these keys."""
    return np.array(list(keys), dtype=KEY)


def like(name: str = "<new>") -> Tail:
    """Returns an empty file of the class that ``write_events_file`` writes."""
    return empty_tail(TYPES, name=name)


def write_file(path: Path, keys: Sequence[Key], *, current: Sequence[int] | None = None, operation: int = 0) -> Path:
    """Writes events with these keys in this order; ``a`` is the row number. Without ``current``, a row's current
    transaction is its original one.
    """
    os.makedirs(path.parent, exist_ok=True)
    write_id, bucket, row_id = zip(*keys, strict=True) if keys else ((), (), ())
    schema = arrow_codec.schema(TYPES)
    row = schema.field(5).type
    rows = (
        pa.nulls(len(keys), row)
        if operation == 2
        else pa.StructArray.from_arrays([pa.array(row_id, pa.int32())], fields=list(row))
    )
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([operation] * len(keys), pa.int32()),
            pa.array(write_id, pa.int64()),
            pa.array(bucket, pa.int32()),
            pa.array(row_id, pa.int64()),
            pa.array(write_id if current is None else current, pa.int64()),
            rows,
        ],
        schema=schema,
    )
    encode_acid(
        [batch], str(path), like=like(str(path)), types=TYPES, metadata=OutputMetadata(deletes=operation == 2).compute
    )
    return path


def write_lying(path: Path, keys: Sequence[Key], said: Sequence[Key]) -> Path:
    """Like ``write_file``, but with the statistics of the keys ``said``."""
    write_file(path, said)
    with LocalSource(path) as source:
        told = read_tail(source)
    write_file(path, keys)
    with LocalSource(path) as source:
        tail = read_tail(source)
    lie = replace(tail, statistics=told.statistics, stripe_statistics=told.stripe_statistics)
    path.write_bytes(path.read_bytes()[: tail.stripes[-1].end] + tail_bytes(lie))
    return path


def dense(write_id: int, rows: int, *, first: int = 0, bucket: int = FIRST_FILE) -> list[Key]:
    """Returns keys as one statement hands them out."""
    return [(write_id, bucket, row) for row in range(first, first + rows)]


def write_events_mixed(path: Path, found: Sequence[tuple[int, Key, int]]) -> Path:
    """Writes a file of Hive 2: events of any operation with their keys and transactions, in this order; ``a`` of a row is
    its transaction.
    """
    os.makedirs(path.parent, exist_ok=True)
    schema = arrow_codec.schema(TYPES)
    row = schema.field(5).type
    values = pa.StructArray.from_arrays(
        [pa.array([current for _, _, current in found], pa.int32())],
        fields=list(row),
        mask=pa.array([operation == 2 for operation, _, _ in found], pa.bool_()),
    )
    columns = list(zip(*((operation, *key, current) for operation, key, current in found), strict=True))
    batch = pa.RecordBatch.from_arrays(
        [*(pa.array(column, schema.field(at).type) for at, column in enumerate(columns)), values], schema=schema
    )
    encode_acid([batch], str(path), like=like(str(path)), types=TYPES)
    return path
