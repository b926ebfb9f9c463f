"""Reads ranges of a stripe's rows by its row index, without reading and decompressing other blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyorc

from compactor.orc.codecs.codec import Unfit, decoding_failed, name_file_in_errors
from compactor.orc.codecs.pyorc_codec import CONVERTERS, Values, raw_type
from compactor.orc.codecs.stripe_view import UtcFile, batch_rows
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import UNQUOTED
from compactor.orc.format.index_positions import can_seek
from compactor.orc.format.length_checks import check_lengths
from compactor.orc.format.plain_streams import plain_streams
from compactor.orc.format.stripe_footer import LENGTH, read_stripe_footer
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import Types, subtree
from compactor.orc.io.source import Source


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
