"""Rows divided by the partitions that their values name, as Hive names them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from compactor.acid.partition_names import DEFAULT_PARTITION, part_name
from compactor.base.errors import NotSupported
from compactor.tables.filters.partition_constants import char_length
from compactor.tables.writing.shape import Shape

_ROW = ":row"  #: a column of our own; no name of a column has the sign in Hive
#: Hive's types whose values as texts are the same in all writers.
_NAMED = ("tinyint", "smallint", "int", "bigint", "string", "varchar", "char", "date", "boolean")


def partition_of_rows(table: Shape, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yields the name of each partition among conformed rows, with its rows without the partition columns.

    A table without partitions has one, without a name. NULL and the empty text are in the default partition.

    Raises:
        NotSupported: a partition column has a type whose values different writers name differently.
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


def partition_of_values(table: Shape, values: pa.Table) -> str:
    """Returns the name of the partition of one row of conformed partition columns."""
    texts = [_texts(table, place, values.column(place))[0].as_py() for place in range(len(table.partition_keys))]
    return part_name([key.name for key in table.partition_keys], texts)


def _texts(table: Shape, place: int, values: pa.ChunkedArray) -> pa.ChunkedArray:
    key = table.partition_keys[place]
    if key.type.partition("(")[0].strip().lower() not in _NAMED:
        raise NotSupported(
            f"{table}: partition column {key.name} is a {key.type}, whose values writers name differently; rows are not "
            "written into such partitions here"
        )
    texts = values.cast(pa.string())
    if (width := char_length(key.type)) is not None:
        texts = pc.utf8_rpad(texts, width)  # as Hive names them, one of blanks alone among them
    return pc.if_else(pc.equal(pc.fill_null(texts, ""), ""), DEFAULT_PARTITION, texts)
