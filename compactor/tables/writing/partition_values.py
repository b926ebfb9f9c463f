"""Divides rows by partition, and names the partitions like Hive."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from compactor.acid.partition_names import DEFAULT_PARTITION, part_name
from compactor.base.errors import NotSupported
from compactor.tables.filters.partition_constants import char_length
from compactor.tables.writing.shape import Shape

_ROW = ":row"  #: a column of our own; column names cannot have this sign in Hive
#: Hive types whose values all writers render in the same way.
_NAMED = ("tinyint", "smallint", "int", "bigint", "string", "varchar", "char", "date", "boolean")


def divide_by_partition(table: Shape, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yields the name of each partition among fitted rows, with its rows without the partition columns.

    A table without partitions has a single one named "". NULL and the empty text belong to the default partition.

    Raises:
        NotSupported: writers differ in how they render values of a partition column's type.
    """
    count = len(table.columns)
    plain = rows.select(range(count))
    if not table.partition_keys:
        yield "", plain
        return
    texts = [_texts(table, place, rows.column(count + place)) for place in range(len(table.partition_keys))]
    keys = [key.name for key in table.partition_keys]
    named = pa.table([*texts, pa.array(range(rows.num_rows), pa.int64())], names=[*keys, _ROW])
    for group in named.group_by(keys, use_threads=False).aggregate([(_ROW, "list")]).to_pylist():
        yield part_name(keys, [group[key] for key in keys]), plain.take(pa.array(group[f"{_ROW}_list"], pa.int64()))


def name_partition(table: Shape, values: pa.Table) -> str:
    """Returns the name of the partition for a row of fitted partition columns."""
    texts = [_texts(table, place, values.column(place))[0].as_py() for place in range(len(table.partition_keys))]
    return part_name([key.name for key in table.partition_keys], texts)


def _texts(table: Shape, place: int, values: pa.ChunkedArray) -> pa.ChunkedArray:
    key = table.partition_keys[place]
    if key.type.partition("(")[0].strip().lower() not in _NAMED:
        raise NotSupported(
            f"{table}: partition column {key.name} is a {key.type}, whose values writers render differently; we do not "
            "write into such partitions"
        )
    texts = values.cast(pa.string())
    if (width := char_length(key.type)) is not None:
        texts = pc.utf8_rpad(texts, width)  # as in Hive, also if the value is all blanks
    return pc.if_else(pc.equal(pc.fill_null(texts, ""), ""), DEFAULT_PARTITION, texts)
