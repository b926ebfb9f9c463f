"""Chunks of a tail: compressed data is read back, and garbage is a bad file."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadFile, NotSupported
from compactor.orc.format.compression import Compression, compress, decompress
from compactor.orc.stripe_compatibility import WRITABLE
from compactor.settings.file_limits import FileLimits

_HANDLED = [Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
_DATA = st.one_of(st.binary(max_size=400), st.text("ab", max_size=3000).map(str.encode))


@given(data=_DATA, compression=st.sampled_from(_HANDLED), block=st.sampled_from([16, 100, 4096]))
def test_compression_round_trip(data: bytes, compression: Compression, block: int) -> None:
    assert decompress(compress(data, compression, block), compression, block, "f") == data


@given(data=_DATA)
def test_lz4_blocks_of_the_library_are_read(data: bytes) -> None:
    packed = pa.Codec("lz4_raw").compress(data, asbytes=True)
    chunk = (len(packed) << 1).to_bytes(3, "little") + packed
    assert decompress(chunk, Compression.LZ4, 4096, "f") == data


@given(data=st.binary(min_size=1, max_size=200), compression=st.sampled_from(list(Compression)))
def test_garbage_is_a_bad_file_or_some_bytes(data: bytes, compression: Compression) -> None:
    try:
        assert len(decompress(data, compression, 1 << 16, "f")) >= 0
    except BadFile as error:
        assert "file f:" in str(error)  # noqa: PT017 - either outcome is right


def test_a_cut_chunk_is_a_bad_file() -> None:
    with pytest.raises(BadFile, match="cut off"):
        decompress(compress(b"x" * 1000, Compression.ZLIB, 4096)[:-1], Compression.ZLIB, 4096, "f")


@pytest.mark.parametrize("codec", [c for c in _HANDLED if c is not Compression.NONE])
def test_a_chunk_that_ends_too_early_is_a_bad_file(codec: Compression) -> None:
    data = bytes(n * n % 251 for n in range(300)) * 3
    packed = compress(data, codec, 4096)[3:-1]
    with pytest.raises(BadFile, match=f"is not {codec.name} data"):
        decompress((len(packed) << 1).to_bytes(3, "little") + packed, codec, 4096, "f")


def test_a_chunk_larger_than_its_block_is_a_bad_file() -> None:
    with pytest.raises(BadFile, match="longer than the block"):
        decompress(compress(b"x" * 1000, Compression.ZLIB, 4096), Compression.ZLIB, 100, "f")


@pytest.mark.parametrize("codec", [Compression.LZO, Compression.BROTLI])
def test_codecs_that_are_not_read_are_refused_by_name(codec: Compression) -> None:
    with pytest.raises(NotSupported, match=rf"file f: compressed with {codec.name}.*orc\.compress"):
        decompress(b"\x06\x00\x00abc", codec, 1024, "f")
    assert decompress(b"\x07\x00\x00abc", codec, 1024, "f") == b"abc"  # a chunk that is stored uncompressed


@pytest.mark.parametrize("codec", sorted(WRITABLE - {Compression.NONE}))
def test_chunks_hold_no_more_than_a_footer_may(codec: Compression) -> None:
    """A thousandth of it is read, and no more than a chunk too much is ever in memory."""
    data = compress(b"x" * 10_000, codec, 1000)
    assert decompress(data, codec, 1000, "f", limits=FileLimits(footer_bytes=10_000)) == b"x" * 10_000
    with pytest.raises(
        BadFile, match=r"f: its tail has 10000 bytes or more, at most 9999.*compactor\.file\.footer\.bytes"
    ):
        decompress(data, codec, 1000, "f", limits=FileLimits(footer_bytes=9999))
