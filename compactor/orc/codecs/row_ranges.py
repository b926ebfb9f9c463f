"""Ranges of a stripe's rows, found by its row index: only the blocks that hold them are read and decompressed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyorc

from compactor.orc.codecs.codec import Unfit, decoding_failed, naming_the_file
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
    """Yields rows of the columns ``inner`` (ids, within the row of an ACID file) in the ``ranges`` of a stripe's row
    numbers, in batches, each with the number of its first row. Types are those of ``pyorc_codec``.

    Raises:
        Unfit: reading by the row index is not safe, or would lose something; read the whole stripe.
        BadFile: the stripe cannot be decoded.
    """
    names = _names(tail.types, inner)
    _must_be_safe(source, tail, stripe, inner)
    with naming_the_file(tail):
        kinds = [raw_type(tail.types, column) for column in inner]
    schema = pa.schema([pa.field(f"f{place}", kind) for place, kind in enumerate(kinds)])
    size = max(16, batch_rows(tail, [stripe], None, inner) // 8)
    values = Values(tail, inner, kinds)
    try:
        reader = pyorc.Reader(
            UtcFile(source, tail, [stripe]), batch_size=min(size, 1024), column_names=names, converters=CONVERTERS
        )
        for wanted in ranges:
            reader.seek(wanted.start)
            for start in range(wanted.start, wanted.stop, size):
                rows = list(islice(reader, min(size, wanted.stop - start)))
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


def _must_be_safe(source: Source, tail: Tail, stripe: int, inner: Sequence[int]) -> None:
    """Checks what the library trusts: row indexes and lengths. It mistakes damage of zstd for data."""
    if tail.compression is Compression.ZSTD:
        raise Unfit("it is compressed with zstd")
    columns = [number for column in inner for number in range(column, column + len(subtree(tail.types, column)))]
    footer = read_stripe_footer(source, tail, stripe)
    if not can_seek(source, tail, stripe, footer, columns):
        raise Unfit("its row index does not lead to single rows")
    lengths = plain_streams(source, tail, stripe, footer, frozenset(columns), kinds=frozenset({LENGTH}))
    check_lengths(lengths, footer, tail, stripe)
