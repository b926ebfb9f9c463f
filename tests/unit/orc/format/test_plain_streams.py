"""Decompressed streams: all bytes of the columns read, and errors that name the damaged stream."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadFile
from compactor.orc.format import messages
from compactor.orc.format import plain_streams as plain
from compactor.orc.format.compression import Compression, compress
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.plain_streams import plain_streams
from compactor.orc.format.stripe_footer import DATA, DICTIONARY_DATA, LENGTH, ROW_INDEX
from compactor.orc.format.tail import Stripe, Tail, empty_tail
from compactor.orc.io.source import BytesSource
from compactor.orc.stripe_compatibility import WRITABLE
from compactor.settings.file_limits import FileLimits

BLOCK = 64
BEFORE = b"before"
_STREAMS = st.lists(
    st.tuples(st.sampled_from([DATA, LENGTH, ROW_INDEX]), st.one_of(st.binary(max_size=300), st.just(b"ab" * 500))),
    max_size=5,
)


class Counting(BytesSource):
    """A file that records the ranges read from it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[int] = []

    def read(self, offset: int, length: int) -> bytes:
        self.reads.append(length)
        return super().read(offset, length)


def stripe_of(
    contents: list[tuple[int, bytes]], compression: Compression, *, less: int = 0
) -> tuple[Counting, Tail, messages.Message]:
    """Returns a stripe with a column for each of these kinds and contents; lengths in the footer are ``less`` shorter."""
    packed = [(kind, compress(data, compression, BLOCK)) for kind, data in contents]
    footer = messages.StripeFooter()
    for column, (kind, data) in enumerate(packed):
        footer.streams.add(kind=kind, column=column, length=len(data) - less)
    data = b"".join(data for _, data in packed)
    stripe = Stripe(offset=len(BEFORE), index_length=0, data_length=len(data), footer_length=0, rows=1)
    like = empty_tail(parse_hive_type("struct<a:int>"), compression=compression, compression_block_size=BLOCK, name="f")
    return Counting(BEFORE + data + b"after"), replace(like, stripes=(stripe,)), footer


@given(
    contents=_STREAMS,
    compression=st.sampled_from(sorted(WRITABLE)),
    room=st.sampled_from([0, 100, 1 << 20]),
    bounds=st.tuples(st.integers(0, 64), st.integers(0, 64)).map(sorted),
)
def test_streams_hold_the_bytes_that_were_compressed(
    contents: list[tuple[int, bytes]], compression: Compression, room: int, bounds: list[int]
) -> None:
    source, tail, footer = stripe_of(contents, compression)
    found = plain_streams(source, tail, 0, footer, range(1, 4), room=room)
    wanted = [(column, *item) for column, item in enumerate(contents) if 1 <= column < 4 and item[0] != ROW_INDEX]
    assert [(stream.column, stream.kind, stream.read()) for stream in found] == wanted
    assert [stream.length for stream in found] == [len(data) for _, _, data in wanted]
    start, end = bounds
    for stream in found:
        for part in stream.parts:
            whole = part.read(0, part.length)
            part.forget()
            assert part.read(min(start, part.length), min(end, part.length)) == whole[start:end]


def test_memory_is_limited_to_the_room_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 2.4."""
    monkeypatch.setattr(plain, "SMALL_BYTES", 10)
    source, tail, footer = stripe_of([(DATA, b"ab" * 500), (LENGTH, b"cd" * 500)], Compression.ZLIB)
    first, second = plain_streams(source, tail, 0, footer, range(2), room=BLOCK * 20)
    assert (first.kept, second.kept, second.read()) == (1000, BLOCK * 4, b"cd" * 500)
    assert second.kept == BLOCK * 4
    for part in second.parts:
        part.read(0, part.length)
        part.forget()
    assert (second.kept, second.read()) == (0, b"cd" * 500)


def test_a_small_stripe_is_read_at_once_and_a_large_one_no_further_than_its_streams() -> None:
    source, tail, footer = stripe_of([(DATA, b"ab" * 500), (LENGTH, b"cd" * 500)], Compression.ZLIB)
    plain_streams(source, tail, 0, footer, range(2), room=1 << 20)
    assert source.reads == [tail.stripes[0].data_length]
    noise = bytes(n * n % 251 for n in range(plain.SMALL_BYTES))
    source, tail, footer = stripe_of([(DATA, b"ab"), (DATA, noise)], Compression.ZLIB)
    plain_streams(source, tail, 0, footer, [0], room=1 << 20)
    assert source.reads == [footer.streams[0].length]


@pytest.mark.parametrize("compression", sorted(WRITABLE - {Compression.NONE}))
def test_a_cut_chunk_is_damage_of_its_stream(compression: Compression) -> None:
    source, tail, footer = stripe_of([(DATA, b"ab" * 500)], compression, less=1)
    with pytest.raises(BadFile, match="file f, stripe 0: a compressed chunk of its stream 1 of column 0 is cut off"):
        plain_streams(source, tail, 0, footer, [0])


def test_a_dictionary_too_large_for_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plain._LONGEST, DICTIONARY_DATA, 999)
    source, tail, footer = stripe_of([(DATA, b"ab" * 500), (DICTIONARY_DATA, b"ab" * 500)], Compression.ZLIB)
    with pytest.raises(
        BadFile, match="file f, stripe 0: the dictionary of column 1 has 1000 bytes or more, at most 999"
    ):
        plain_streams(source, tail, 0, footer, range(2))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZLIB])
def test_a_stripe_has_no_more_bytes_than_it_may(compression: Compression) -> None:
    source, tail, footer = stripe_of([(DATA, b"ab" * 500), (DATA, b"ab" * 500)], compression)
    source.limits = FileLimits(stripe_bytes=2000)
    assert len(plain_streams(source, tail, 0, footer, range(2))) == 2
    source.limits = FileLimits(stripe_bytes=1999)
    with pytest.raises(BadFile, match=r"f, stripe 0: its streams have .* at most 1999.*compactor\.stripe\.bytes"):
        plain_streams(source, tail, 0, footer, range(2))


def test_lengths_are_read_at_once_and_so_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plain._LONGEST, LENGTH, 999)
    source, tail, footer = stripe_of([(DATA, b"ab" * 500), (LENGTH, b"ab" * 500)], Compression.ZLIB)
    with pytest.raises(BadFile, match=r"f, stripe 0: the length stream of column 1 has .* bytes or more, at most 999"):
        plain_streams(source, tail, 0, footer, range(2))


def test_chunks_of_nothing_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MAX_CHUNKS", 16)
    source, tail, footer = stripe_of([(DATA, b"ab" * 500)], Compression.ZLIB)
    assert plain_streams(source, tail, 0, footer, [0])
    source, tail, footer = stripe_of([(DATA, b"ab" * 513)], Compression.ZLIB)
    with pytest.raises(BadFile, match="f, stripe 0: its streams have more than 16 compressed chunks"):
        plain_streams(source, tail, 0, footer, [0])
