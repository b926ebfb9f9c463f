"""Converts decoded rows of one type to rows of a wider type."""

from __future__ import annotations

import pyarrow as pa

from compactor.base.errors import NotLossless
from compactor.orc.codecs.arrow_types import Array, ArrowType
from compactor.orc.codecs.codec import Codec, relabel
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.types import TypeKind, Types, same_shape
from compactor.orc.format.widening import widens


def widen_rows(batch: pa.RecordBatch, old_types: Types, new_types: Types, codec: Codec, name: str) -> pa.RecordBatch:
    """Converts ``batch`` from ``old_types`` to ``new_types``, by position.

    Missing trailing fields become NULL.

    ``name`` is the file's, for the error.

    Raises:
        NotLossless: some value of ``old_types`` might not be a value of ``new_types``.
    """
    schema = codec.schema(new_types)
    if same_shape(old_types, new_types):
        return pa.RecordBatch.from_arrays(
            [relabel(column, field.type) for column, field in zip(batch.columns, schema, strict=True)], schema=schema
        )
    if not widens(old_types, new_types):
        raise NotLossless(
            f"file {name}: rows of {schema_text(old_types)} do not fit {schema_text(new_types)} without loss; "
            "rewrite the table with INSERT OVERWRITE, or change its columns back"
        )
    return pa.RecordBatch.from_arrays(
        [
            widen(column, old_types, old, new_types, new, field.type)
            for column, old, new, field in zip(
                batch.columns, old_types[0].children, new_types[0].children, schema, strict=True
            )
        ],
        schema=schema,
    )


def widen(array: Array, old_types: Types, old: int, new_types: Types, new: int, kind: ArrowType) -> Array:
    """Converts values of column ``old`` of ``old_types`` to column ``new`` of ``new_types``.

    ``kind`` is the new column's type in Arrow.

    The first must widen to the second (``column_widens``).
    """
    a, b = old_types[old], new_types[new]
    if b.kind is TypeKind.STRUCT:
        parts = [
            widen(array.field(place), old_types, child, new_types, b.children[place], kind.field(place).type)
            for place, child in enumerate(a.children)
        ]
        parts += [pa.nulls(len(array), kind.field(place).type) for place in range(len(parts), kind.num_fields)]
        if not parts:
            return relabel(array, kind)
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if b.kind is TypeKind.LIST:
        values = widen(array.values, old_types, a.children[0], new_types, b.children[0], kind.value_type)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])
    if b.kind is TypeKind.MAP:
        keys = widen(array.keys, old_types, a.children[0], new_types, b.children[0], kind.key_type)
        items = widen(array.items, old_types, a.children[1], new_types, b.children[1], kind.item_type)
        pairs = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [pairs])
    if a.kind is TypeKind.CHAR and a.maximum_length < b.maximum_length:
        return _pad(array, b.maximum_length)
    return array if array.type.equals(kind) else array.cast(kind)


def _pad(array: Array, length: int) -> Array:
    """Pads the texts of a char that grew.

    Hive's readers compare a padded literal with the statistics.
    """
    from pyarrow import compute  # which takes as long to import as all the rest that units need

    try:
        return compute.utf8_rpad(array, width=length)
    except MemoryError:
        raise
    except pa.ArrowException as error:
        raise NotLossless(f"a text of char({length}) is not UTF-8 ({error}); its rows cannot be re-encoded") from error
