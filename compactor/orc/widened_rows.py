"""Decoded rows of one type as rows of a wider one."""

from __future__ import annotations

import pyarrow as pa

from compactor.base.errors import NotLossless
from compactor.orc.codecs.arrow_types import Array, ArrowType
from compactor.orc.codecs.codec import Codec, relabelled
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.types import TypeKind, Types, same_shape
from compactor.orc.format.widening import widens


def widen_rows(batch: pa.RecordBatch, found: Types, wanted: Types, codec: Codec, name: str) -> pa.RecordBatch:
    """Returns ``batch``, rows of types ``found``, as rows of ``wanted``: by position, missing trailing fields as NULL.

    ``name`` is the file's, for the error.

    Raises:
        NotLossless: some value of ``found`` might not be one of ``wanted``.
    """
    schema = codec.schema(wanted)
    if same_shape(found, wanted):
        return pa.RecordBatch.from_arrays(
            [relabelled(column, field.type) for column, field in zip(batch.columns, schema, strict=True)], schema=schema
        )
    if not widens(found, wanted):
        raise NotLossless(
            f"file {name}: rows of {schema_text(found)} do not fit {schema_text(wanted)} without loss; "
            "rewrite the table with INSERT OVERWRITE, or change its columns back"
        )
    return pa.RecordBatch.from_arrays(
        [
            widened(column, found, old, wanted, new, field.type)
            for column, old, new, field in zip(
                batch.columns, found[0].children, wanted[0].children, schema, strict=True
            )
        ],
        schema=schema,
    )


def widened(array: Array, found: Types, old: int, wanted: Types, new: int, kind: ArrowType) -> Array:
    """Returns values of column ``old`` of ``found`` as those of column ``new`` of ``wanted``, which is ``kind`` in Arrow; it
    must widen to it (``column_widens``)."""
    a, b = found[old], wanted[new]
    if b.kind is TypeKind.STRUCT:
        parts = [
            widened(array.field(place), found, child, wanted, b.children[place], kind.field(place).type)
            for place, child in enumerate(a.children)
        ]
        parts += [pa.nulls(len(array), kind.field(place).type) for place in range(len(parts), kind.num_fields)]
        if not parts:
            return relabelled(array, kind)
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if b.kind is TypeKind.LIST:
        values = widened(array.values, found, a.children[0], wanted, b.children[0], kind.value_type)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])
    if b.kind is TypeKind.MAP:
        keys = widened(array.keys, found, a.children[0], wanted, b.children[0], kind.key_type)
        items = widened(array.items, found, a.children[1], wanted, b.children[1], kind.item_type)
        pairs = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [pairs])
    if a.kind is TypeKind.CHAR and a.maximum_length < b.maximum_length:
        return _padded(array, b.maximum_length)
    return array if array.type.equals(kind) else array.cast(kind)


def _padded(array: Array, length: int) -> Array:
    """Pads the texts of a char that grew: Hive's readers compare a padded literal with the statistics, nothing more."""
    from pyarrow import compute  # which takes as long to import as all the rest that units need

    try:
        return compute.utf8_rpad(array, width=length)
    except MemoryError:
        raise
    except pa.ArrowException as error:
        raise NotLossless(f"a text of char({length}) is not UTF-8 ({error}); its rows cannot be re-encoded") from error
