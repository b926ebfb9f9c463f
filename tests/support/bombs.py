"""Small files that describe far more than they hold: what a stranger may put into a table's directory."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyorc
from pyarrow import parquet

from compactor.orc.format import messages
from compactor.orc.format.compression import Compression, compress
from compactor.orc.format.stripe_footer import DATA, DICTIONARY_DATA, DICTIONARY_V2, LENGTH
from compactor.orc.format.types import OrcType, TypeKind, Types, acid_types, struct_of
from compactor.orc.format.varint import varint
from compactor.rewrite.insert_only import parquet_footer
from compactor.rewrite.insert_only.parquet_footer import MAGIC as PARQUET
from tests.support.orc_files import acid_source
from tests.torture.anatomy import Parts, put_together, take_apart

BLOCK = 8 * 1024 * 1024 - 1  #: bytes of the largest compression block
FIRST_FILE = 1 << 29  #: the bucket property of file 0, statement 0


def rows_parts(row: str, values: list[Any], *, block: int = 0) -> Parts:
    """Returns the parts of an ACID file with these rows, of which one stream or another is then replaced."""
    parts = take_apart(acid_source(row, values).read(0, acid_source(row, values).length))
    if block:
        parts.script.compression_block_size = block
    return parts


def texts(count: int = 2) -> Parts:
    """Returns a file of ``count`` rows ``(1, 'text')``."""
    return rows_parts("struct<a:int,b:string>", [(1, "text")] * count)


def replaced(parts: Parts, column: int, kind: int, data: bytes) -> None:
    """Replaces a stream of the only stripe by packed ``data``."""
    (stripe,) = parts.stripes
    (place,) = (n for n, s in enumerate(stripe.footer.streams) if (s.column, s.kind) == (column, kind))
    stripe.streams[place] = data
    stripe.footer.streams[place].length = len(data)


def with_rows(parts: Parts, rows: int) -> None:
    """Lets the file say that its only stripe has ``rows`` rows, as do its statistics."""
    parts.footer.number_of_rows = parts.footer.stripes[0].number_of_rows = rows
    for columns in (parts.footer.statistics, parts.metadata.stripe_stats[0].col_stats):
        for column in columns:
            column.number_of_values = rows


def zeros(length: int) -> bytes:
    """Returns chunks of zlib that inflate to ``length`` bytes of nothing, a thousandth as long."""
    return repeated(b"\0", length)


def repeated(pattern: bytes, count: int) -> bytes:
    """Returns chunks of zlib that inflate to ``pattern``, ``count`` times."""
    per = BLOCK // len(pattern)
    whole, left = divmod(count, per)
    return b"".join([_chunk(pattern * per)] * whole + ([_chunk(pattern * left)] if left else []))


def _chunk(plain: bytes) -> bytes:
    made = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = made.compress(plain) + made.flush()
    return (len(packed) << 1).to_bytes(3, "little") + packed


def tail_only(footer: bytes, metadata: bytes = b"", **script: Any) -> bytes:
    """Returns a file of nothing but a tail, of packed ``footer`` and ``metadata``."""
    said = {"compression": Compression.ZLIB, "compression_block_size": BLOCK, "version": [0, 12], "writer_version": 6}
    end = messages.PostScript(
        footer_length=len(footer), metadata_length=len(metadata), magic=b"ORC", **(said | script)
    ).SerializeToString()
    return b"ORC" + metadata + footer + end + bytes([len(end)])


def _footer(types: Types, **more: Any) -> bytes:
    said = {"header_length": 3, "content_length": 3, "number_of_rows": 0, "row_index_stride": 10_000}
    return bytes(messages.Footer(types=types.messages, **(said | more)).SerializeToString())


INT = OrcType(kind=TypeKind.INT)
FLAT = acid_types(struct_of([("a", Types((INT,)))]))


def footer_that_inflates() -> bytes:
    """A footer whose unknown last field is 4 GB of zeros."""
    length = 4 << 30
    plain = _footer(FLAT) + b"\xfa\x7d" + varint(length)  # field 2015, bytes
    return tail_only(compress(plain, Compression.ZLIB, BLOCK) + zeros(length))


def metadata_that_inflates() -> bytes:
    return tail_only(compress(_footer(FLAT), Compression.ZLIB, BLOCK), zeros(6 << 30))


def many_stripes() -> bytes:
    """Ten million stripes of nothing at the same place."""
    stripe = messages.Footer(stripes=[messages.StripeInformation(offset=3)]).SerializeToString()
    return tail_only(compress(_footer(FLAT), Compression.ZLIB, BLOCK) + repeated(stripe, 10_000_000))


def many_statistics() -> bytes:
    """Thirty million columns in a stripe's statistics."""
    count = 31_000_000
    plain = b"\x0a" + varint(2 * count)
    metadata = compress(plain, Compression.ZLIB, BLOCK) + repeated(b"\x0a\0", count)
    return tail_only(compress(_footer(FLAT), Compression.ZLIB, BLOCK), metadata)


def many_file_statistics() -> bytes:
    return tail_only(compress(_footer(FLAT), Compression.ZLIB, BLOCK) + repeated(b"\x3a\0", 30_000_000))


def many_columns(count: int = 300_000) -> bytes:
    """A struct of as many integers."""
    root = messages.Type(kind=TypeKind.STRUCT, subtypes=range(1, count + 1), field_names=[b"a"] * count)
    column = messages.Footer(types=[messages.Type(kind=TypeKind.INT).SerializeToString()]).SerializeToString()
    plain = bytes(messages.Footer(types=[root.SerializeToString()]).SerializeToString()) + column * count
    return tail_only(compress(plain, Compression.ZLIB, BLOCK))


def deep_types(depth: int = 20_000) -> bytes:
    """Lists in lists."""
    row = Types((*(OrcType(kind=TypeKind.LIST, children=(n + 1,)) for n in range(depth)), INT))
    return rewritten(acid_types(struct_of([("a", row)])))


def types_in_a_circle(count: int = 30_000) -> bytes:
    """A struct of nothing but itself, thirty thousand times: each step of a walk over it finds as many more."""
    return rewritten(Types([OrcType(kind=TypeKind.STRUCT, children=(0,) * (count - 1)), *[INT] * (count - 1)]))


def rewritten(types: Types) -> bytes:
    """Returns a file of one stripe without streams that says to hold a row of ``types``."""
    parts = texts()
    parts.footer.ClearField("types")
    parts.footer.types.extend(types.messages)
    (stripe,) = parts.stripes
    stripe.streams, stripe.footer = [], messages.StripeFooter()
    for _ in types:
        stripe.footer.columns.add(kind=0)
    return put_together(parts)


def long_stripe_footer() -> bytes:
    """A stripe's footer of 4 GB."""
    parts = texts()
    data = put_together(parts)
    length = 2 << 30
    start = parts.footer.stripes[0]
    end = start.offset + start.index_length + start.data_length
    plain = parts.stripes[0].footer.SerializeToString() + b"\xfa\x7d" + varint(length)
    packed = compress(plain, Compression.ZLIB, BLOCK) + zeros(length)
    start.footer_length = len(packed)
    parts.script.compression_block_size = BLOCK
    tail = compress(parts.metadata.SerializeToString(), Compression.ZLIB, BLOCK)
    footer = compress(parts.footer.SerializeToString(), Compression.ZLIB, BLOCK)
    script = messages.PostScript.FromString(parts.script.SerializeToString())
    script.footer_length, script.metadata_length = len(footer), len(tail)
    last = script.SerializeToString()
    return data[:end] + packed + tail + footer + last + bytes([len(last)])


def long_lengths() -> bytes:
    """Lengths of two texts, in 6 GB."""
    parts = rows_parts("struct<a:int,b:string>", [(1, "text"), (1, "next")], block=BLOCK)
    replaced(parts, 8, LENGTH, zeros(6 << 30))
    return put_together(parts)


def empty_chunks() -> bytes:
    """A stream of eight million chunks of nothing, in 24 MB."""
    parts = rows_parts("struct<a:int,b:string>", [(1, "text"), (1, "next")], block=BLOCK)
    (stripe,) = parts.stripes
    kind = next(s.kind for s in stripe.footer.streams if s.column == 8 and s.kind in (DATA,))
    replaced(parts, 8, kind, b"\1\0\0" * 8_000_000 + stripe.streams[_place(parts, 8, kind)])
    return put_together(parts)


def _place(parts: Parts, column: int, kind: int) -> int:
    return next(n for n, s in enumerate(parts.stripes[0].footer.streams) if (s.column, s.kind) == (column, kind))


def long_dictionary(rows: int = 65_536, length: int = 1 << 20) -> bytes:
    """One text of a megabyte in a dictionary, and rows that all hold it; statistics say that texts are short."""
    parts = rows_parts("struct<a:int,b:string>", [(1, "text")] * rows, block=BLOCK)
    _as_dictionary(parts, 8, length, rows)
    return put_together(parts)


def _as_dictionary(parts: Parts, column: int, length: int, rows: int, entries: int = 1) -> None:
    (stripe,) = parts.stripes
    packed = {
        DATA: compress(_constant(0, rows), Compression.ZLIB, BLOCK),
        LENGTH: compress(_short(length), Compression.ZLIB, BLOCK),
        DICTIONARY_DATA: repeated(b"x", length),
    }
    keep = [n for n, s in enumerate(stripe.footer.streams) if s.column != column or s.kind not in packed]
    streams = [(stripe.footer.streams[n].kind, stripe.footer.streams[n].column, stripe.streams[n]) for n in keep]
    streams += [(kind, column, data) for kind, data in packed.items()]
    encodings = list(stripe.footer.columns)
    zone = stripe.footer.writer_timezone
    made = messages.StripeFooter(columns=encodings, writer_timezone=zone)
    for kind, of, data in streams:
        made.streams.add(kind=kind, column=of, length=len(data))
    made.columns[column].kind, made.columns[column].dictionary_size = DICTIONARY_V2, entries
    stripe.footer, stripe.streams = made, [data for _, _, data in streams]


def many_entries(entries: int = (1 << 32) - 1) -> bytes:
    """A dictionary of four billion empty texts."""
    parts = rows_parts("struct<a:int,b:string>", [(1, "text")] * 20, block=BLOCK)
    _as_dictionary(parts, 8, 1, 20, entries)
    # runs of 512 zeros: a delta of nothing
    replaced(parts, 8, LENGTH, repeated(b"\xc1\xff\0\0", entries // 512 + 1))
    return put_together(parts)


def _constant(value: int, count: int) -> bytes:
    """Returns runs of up to 512 equal values, not signed."""
    whole, left = divmod(count, 512)
    run = b"\xc1\xff" + varint(value) + b"\0"
    last = bytes([0xC0 | left - 1 >> 8, left - 1 & 255]) + varint(value) + b"\0" if left else b""
    return run * whole + last


def _short(value: int) -> bytes:
    """Returns one value in a direct run of 32 bits."""
    return bytes([0x40 | 27 << 1, 0]) + value.to_bytes(4, "big")


def many_rows(rows: int = 1 << 33) -> bytes:
    """A file without ACID columns that says to have eight billion rows."""
    file = io.BytesIO()
    with pyorc.Writer(file, "struct<a:int>") as writer:
        writer.write((1,))
    parts = take_apart(file.getvalue())
    with_rows(parts, rows)
    return put_together(parts)


def long_sum() -> bytes:
    """A decimal's statistics with sums that have a billion digits between them."""
    parts = rows_parts("struct<a:decimal(10,2)>", [(Decimal(1),)] * 2)
    for columns in (parts.footer.statistics, parts.metadata.stripe_stats[0].col_stats):
        columns[7].decimal_statistics.sum = b"1E+300000000"
    return put_together(parts)


def long_blocks(columns: int = 1500) -> bytes:
    """A row of texts in a file that says that its compression blocks are long: each stream gets one."""
    row = ",".join(f"c{n}:string" for n in range(columns))
    parts = rows_parts(f"struct<{row}>", [tuple("x" for _ in range(columns))] * 2, block=BLOCK)
    return put_together(parts)


def long_lists(elements: int = 1 << 27) -> bytes:
    """One list with a hundred million elements that are all the same."""
    parts = rows_parts("struct<a:array<bigint>>", [([1],)] * 2, block=BLOCK)
    replaced(parts, 7, LENGTH, compress(_short(elements) * 2, Compression.ZLIB, BLOCK))
    replaced(parts, 8, DATA, repeated(b"\xc1\xff\2\0", 2 * elements // 512))
    return put_together(parts)


def parquet_of_nothing(length: int = 20_000_000) -> bytes:
    """A footer that is one list of empty structs."""
    footer = b"\x29\xfc" + varint(length) + b"\0" * length + b"\0"
    return PARQUET + footer + len(footer).to_bytes(4, "little") + PARQUET


def parquet_with(change: Callable[[dict[int, Any]], None], rows: int = 10) -> bytes:
    """Returns a file of ten numbers with a changed footer."""
    out = io.BytesIO()
    parquet.write_table(pa.table({"a": pa.array(range(rows), pa.int32())}), out, compression="zstd")
    data = out.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    found = parquet_footer.parse_struct(data[-8 - length : -8], "f")
    change(found)
    footer = parquet_footer.serialize(found)
    return data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + PARQUET


def parquet_deep(depth: int = 40_000) -> bytes:
    """Structs in structs."""
    group = {4: (8, b"a"), 3: (5, 0), 5: (5, 1)}

    def change(footer: dict[int, Any]) -> None:
        root, leaf = footer[parquet_footer.SCHEMA][1][1]
        footer[parquet_footer.SCHEMA] = (9, (12, [root, *[group] * depth, leaf]))

    return parquet_with(change)


def parquet_of_many_rows(rows: int = 1 << 40) -> bytes:
    """A footer that says that its only row group has a trillion rows."""

    def change(footer: dict[int, Any]) -> None:
        footer[parquet_footer.ROWS] = (6, rows)
        footer[parquet_footer.ROW_GROUPS][1][1][0][3] = (6, rows)
        footer[parquet_footer.ROW_GROUPS][1][1][0][1][1][1][0][3][1][5] = (6, rows)

    return parquet_with(change)
