"""Compresses and decompresses ORC's chunks, which have three header bytes and up to one block of data."""

from __future__ import annotations

import enum
from typing import Any

import lz4.block
import pyarrow as pa
from isal import isal_zlib

from compactor.base.errors import BadFile, NotSupported
from compactor.settings.file_limits import FOOTER_BYTES, UNLIMITED, FileLimits, beyond


class Compression(enum.IntEnum):
    """The compression codecs of the specification, by their numbers in the file."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


_ZLIB = Compression.ZLIB
_UNREADABLE = (Compression.LZO, Compression.BROTLI)
_inflater = isal_zlib.decompressobj
_CODECS = {
    Compression.SNAPPY: pa.Codec("snappy"),
    Compression.ZSTD: pa.Codec("zstd"),
    Compression.LZ4: pa.Codec("lz4_raw"),
}
#: The errors that decoders raise for damaged data; in ISA-L's type stubs its error is a plain object.
_DAMAGE: Any = (isal_zlib.error, lz4.block.LZ4BlockError, pa.ArrowException, OSError, ValueError)
MAX_BLOCK = (1 << 23) - 1  #: a chunk's length has 23 bits
#: Levels of ISA-L. The last makes data as small as zlib's second level in a third of its time; the others take half of
#: that or less and mostly give the same size, but miss distant repetitions.
LEVELS = (1, 2, 3)
SMALL = LEVELS[-1]


def decompress(
    data: bytes,
    compression: Compression,
    block_size: int,
    name: str,
    *,
    part: str = "tail",
    limits: FileLimits = UNLIMITED,
) -> bytes:
    """Returns the plain bytes of a sequence of chunks.

    ``name`` is the file and ``part`` its part, for the error.

    Raises:
        NotSupported: the codec is LZO or Brotli.
        BadFile: a chunk is cut off, holds more than ``block_size`` bytes, or the codec rejects it; or there are more bytes
            than ``limits`` let a footer have.
    """
    if compression is Compression.NONE:
        return data
    length = len(data)
    if length > 3 and (data[2] << 16 | data[1] << 8 | data[0]) >> 1 == length - 3:  # one chunk, as nearly always
        plain = data[3:] if data[0] & 1 else decompress_chunk(data[3:], compression, block_size, name, part)
        if len(plain) > limits.footer_bytes:
            raise _too_long(len(plain), name, part, limits)
        return plain
    parts, place, total = [], 0, 0
    while place < len(data):
        size, is_plain = chunk_header(data[place : place + 3], len(data) - place, name, part)
        place += 3
        chunk = data[place : place + size]
        plain = chunk if is_plain else decompress_chunk(chunk, compression, block_size, name, part)
        total += len(plain)
        if total > limits.footer_bytes:
            raise _too_long(total, name, part, limits)
        if plain:
            parts.append(plain)
        place += size
    return b"".join(parts)


def _too_long(length: int, name: str, part: str, limits: FileLimits) -> BadFile:
    return beyond(name, f"its {part} has {length} bytes or more", limits.footer_bytes, FOOTER_BYTES)


def chunk_header(data: bytes, available: int, name: str, part: str) -> tuple[int, bool]:
    """Returns the number of bytes after a header, and true if they are stored uncompressed.

    ``available`` bytes are left, including the header.

    Raises:
        BadFile: there are fewer bytes.
    """
    header = int.from_bytes(data, "little")
    if available < 3 + (header >> 1):
        raise BadFile(
            f"file {name}: a compressed chunk of its {part} is cut off; the file is damaged, restore it or move it away"
        )
    return header >> 1, bool(header & 1)


def compress(data: bytes, compression: Compression, block_size: int) -> bytes:
    """Returns ``data`` as chunks. A chunk that would not become smaller is stored uncompressed."""
    return data if compression is Compression.NONE else b"".join(chunks(data, compression, block_size))


def chunks(data: bytes, compression: Compression, block_size: int, *, level: int = SMALL) -> list[bytes]:
    """Returns the chunks of ``compress`` as a list. ``level`` is one of ISA-L's levels, for zlib."""
    chunks_made = []
    for place in range(0, len(data), block_size):
        plain = data[place : place + block_size]
        packed = _encode(plain, compression, level)
        kept = len(packed) >= len(plain)
        chunk = plain if kept else packed
        chunks_made.append((len(chunk) << 1 | kept).to_bytes(3, "little") + chunk)
    return chunks_made


def decompress_chunk(chunk: bytes, compression: Compression, block_size: int, name: str, part: str) -> bytes:
    """Returns the plain bytes of a compressed chunk, given without its header; see ``decompress``."""
    if compression in _UNREADABLE:
        raise NotSupported(
            f"file {name}: compressed with {compression.name}, which cannot be read; set orc.compress of the table to "
            "ZLIB or ZSTD and run a major compaction of Hive once"
        )
    try:
        if compression is _ZLIB:  # as nearly always; a small file has dozens of chunks
            inflater = _inflater(-15)
            plain = inflater.decompress(chunk, block_size + 1)
            if not inflater.eof and len(plain) <= block_size:
                raise ValueError("it ends too early")
        else:
            plain = _decode(chunk, compression, block_size)
    except _DAMAGE as error:
        raise BadFile(
            f"file {name}: its {part} is not {compression.name} data ({error}); the file is damaged, restore it "
            "or move it away"
        ) from error
    if len(plain) > block_size:
        raise BadFile(f"file {name}: a chunk of its {part} is longer than the block of {block_size} bytes")
    return plain


def _decode(chunk: bytes, compression: Compression, block_size: int) -> bytes:
    if compression is Compression.SNAPPY:
        size = _snappy_size(chunk)
        if size > block_size:
            raise ValueError(f"{size} bytes declared, a block has {block_size}")
        return bytes(_CODECS[compression].decompress(chunk, decompressed_size=size, asbytes=True))
    if compression is Compression.ZSTD:
        with pa.input_stream(pa.py_buffer(chunk), compression="zstd") as stream:
            return bytes(stream.read(block_size + 1))
    if compression is Compression.LZ4:
        return bytes(lz4.block.decompress(chunk, uncompressed_size=block_size))
    raise ValueError(f"{compression.name} is not a codec of chunks")


def _encode(plain: bytes, compression: Compression, level: int) -> bytes:
    if compression is Compression.ZLIB:
        return isal_zlib.compress(plain, level, -15)
    codec = _CODECS.get(compression)
    return plain if codec is None else bytes(codec.compress(plain, asbytes=True))


def _snappy_size(chunk: bytes) -> int:
    """Returns the plain length, a varint, at the start of a raw snappy block."""
    size = 0
    for place, byte in enumerate(chunk[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return size
    raise ValueError("no length at the start of a block")
