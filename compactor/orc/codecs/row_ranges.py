"""Reads ranges of a stripe's rows by its row index, without reading and decompressing other blocks.

If an entry has too few positions, the ORC C++ library reads beyond its memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyorc

from compactor.orc.codecs.codec import Unfit, decoding_failed, name_file_in_errors
from compactor.orc.codecs.pyorc_codec import CONVERTERS, Values, raw_type
from compactor.orc.codecs.stripe_view import UtcFile, batch_rows
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import UNQUOTED
from compactor.orc.format.length_checks import check_lengths
from compactor.orc.format.plain_streams import plain_streams
from compactor.orc.format.stripe_footer import (
    DICTIONARY,
    DICTIONARY_V2,
    LENGTH,
    PRESENT,
    ROW_INDEX,
    read_indexes,
    read_stripe_footer,
)
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TEXT_KINDS, TypeKind, Types, subtree
from compactor.orc.io.source import Source

#: The numbers of a position after its place in the file: one in a run, two for bits, none for bytes.
_RUN, _BITS, _BYTES = 1, 2, 0
_STREAMS: dict[TypeKind, tuple[int, ...]] = {
    TypeKind.BOOLEAN: (_BITS,),
    TypeKind.BYTE: (_RUN,),
    TypeKind.SHORT: (_RUN,),
    TypeKind.INT: (_RUN,),
    TypeKind.LONG: (_RUN,),
    TypeKind.DATE: (_RUN,),
    TypeKind.FLOAT: (_BYTES,),
    TypeKind.DOUBLE: (_BYTES,),
    TypeKind.BINARY: (_BYTES, _RUN),
    TypeKind.DECIMAL: (_BYTES, _RUN),
    TypeKind.TIMESTAMP: (_RUN, _RUN),
    TypeKind.TIMESTAMP_INSTANT: (_RUN, _RUN),
    TypeKind.LIST: (_RUN,),
    TypeKind.STRUCT: (),
}


def read_ranges(
    source: Source, tail: Tail, stripe: int, ranges: Sequence[range], inner: Sequence[int]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows in some ``ranges`` of a stripe in batches, each with the number of its first row.

    Batches have the columns ``inner`` (ids, within the row of an ACID file), with the types of ``pyorc_codec``.

    Raises:
        Unfit: reading by the row index is not safe, or would lose something; read the whole stripe.
        BadFile: the stripe cannot be decoded.
    """
    names = _names(tail.types, inner)
    _check_safe(source, tail, stripe, inner)
    with name_file_in_errors(tail):
        kinds = [raw_type(tail.types, column) for column in inner]
    schema = pa.schema([pa.field(f"f{place}", kind) for place, kind in enumerate(kinds)])
    size = max(16, batch_rows(tail, [stripe], None, inner) // 8)
    values = Values(tail, inner, kinds)
    try:
        reader = pyorc.Reader(
            UtcFile(source, tail, [stripe]), batch_size=min(size, 1024), column_names=names, converters=CONVERTERS
        )
        for row_range in ranges:
            reader.seek(row_range.start)
            for start in range(row_range.start, row_range.stop, size):
                rows = list(islice(reader, min(size, row_range.stop - start)))
                if tail.is_acid:
                    rows = [row[0] for row in rows]
                yield start, pa.RecordBatch.from_arrays(values.arrays(rows), schema=schema)
    except (pyorc.errors.ORCError, UnicodeDecodeError, ValueError, IndexError, OSError) as error:
        raise decoding_failed(tail, error) from error


def _names(types: Types, inner: Sequence[int]) -> list[str]:
    """Returns the names by which the library finds the columns, in the file's order."""
    row = types[types[0].children[-1]] if types.is_acid else types[0]
    prefix = f"{types[0].field_names[-1]}." if types.is_acid else ""
    names = [row.field_names[row.children.index(column)] for column in sorted(inner)]
    if not inner or not all(UNQUOTED.fullmatch(name) and row.field_names.count(name) == 1 for name in names):
        raise Unfit("columns are not found by their names")
    return [prefix + name for name in names]


def _check_safe(source: Source, tail: Tail, stripe: int, inner: Sequence[int]) -> None:
    """Checks row indexes and lengths, which the library trusts.

    Refuses zstd, whose damage it mistakes for data.
    """
    if tail.compression is Compression.ZSTD:
        raise Unfit("it is compressed with zstd")
    columns = [number for column in inner for number in range(column, column + len(subtree(tail.types, column)))]
    footer = read_stripe_footer(source, tail, stripe)
    if not can_seek(source, tail, stripe, footer, columns):
        raise Unfit("its row index does not lead to single rows")
    lengths = plain_streams(source, tail, stripe, footer, frozenset(columns), kinds=frozenset({LENGTH}))
    check_lengths(lengths, footer, tail, stripe)


def can_seek(source: Source, tail: Tail, stripe_index: int, footer: messages.Message, columns: Collection[int]) -> bool:
    """Returns true if the row indexes of ``columns`` (ids) have all positions that seeking needs.

    Raises:
        BadFile: an index cannot be read.
    """
    stripe, stride = tail.stripes[stripe_index], tail.row_index_stride
    if not stride or any(tail.types[number].kind not in (*_STREAMS, *TEXT_KINDS) for number in columns):
        return False
    groups = -(-stripe.rows // stride)
    present = {stream.column for stream in footer.streams if stream.kind == PRESENT}
    indexes = {
        number: index
        for kind, number, index in read_indexes(source, tail, stripe_index, footer, columns)
        if kind == ROW_INDEX
    }
    place = 1 if tail.compression is Compression.NONE else 2
    for number in columns:
        least = (place + _BITS if number in present else 0) + sum(
            place + more for more in _streams(tail, number, footer)
        )
        if least == 0:
            continue
        entries = indexes[number].entry if number in indexes else ()
        if len(entries) != groups or any(len(entry.positions) < least for entry in entries):
            return False
    return True


def _streams(tail: Tail, number: int, footer: messages.Message) -> tuple[int, ...]:
    kind = tail.types[number].kind
    if kind not in TEXT_KINDS:
        return _STREAMS[kind]
    return (_RUN,) if footer.columns[number].kind in (DICTIONARY, DICTIONARY_V2) else (_BYTES, _RUN)
