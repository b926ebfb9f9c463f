"""Decompresses the streams of a stripe for decoders.

This detects damaged chunks of any compression. The ORC C++ library mistakes an error of zstd for a length and continues with
arbitrary memory. It also inflates with zlib, which is slower than the library used here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, NoReturn, TypeAlias

from compactor.base.errors import BadFile
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression, chunk_header, decompress_chunk
from compactor.orc.format.stripe_footer import DATA_STREAMS, DICTIONARY_DATA, LENGTH
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import Source
from compactor.settings.file_limits import FileLimits

KEPT_BYTES = 128 * 1024 * 1024  #: of parts that wait in memory; others are decompressed again when they are read
SMALL_BYTES = (
    16 * 1024
)  #: parts up to this size are kept after reading: decoders first look at that much of a file's end
WINDOW_BYTES = 1024 * 1024  #: bytes of a file that are read at a time
MAX_DICTIONARY = 2**31 - 1  #: bytes; decoders read a dictionary at once and count it in 32 bits
MAX_LENGTHS = 2**29  #: bytes of lengths, which are read at once; a hundred million texts have less
MAX_CHUNKS = 2**20  #: of a stripe: 8 GB in the shortest blocks that writers make
Unpack: TypeAlias = Callable[[bytes], bytes]


class PlainPart:
    """Consecutive plain bytes: ``data``, or unpacked ``packed`` bytes at ``offset`` of ``source``."""

    __slots__ = ("_data", "_offset", "_packed", "_source", "_stays", "_unpack", "length")

    def __init__(
        self,
        length: int,
        data: bytes | None = None,
        *,
        source: Source | None = None,
        offset: int = 0,
        packed: int = 0,
        unpack: Unpack | None = None,
    ) -> None:
        self.length, self._data = length, data
        self._source, self._offset, self._packed, self._unpack = source, offset, packed, unpack
        self._stays = data is not None and (source is None or length <= SMALL_BYTES)

    @property
    def kept(self) -> int:
        """The number of bytes in memory."""
        return 0 if self._data is None else self.length

    def read(self, start: int, end: int) -> bytes:
        """Returns the bytes from ``start`` to before ``end``.

        The whole part may stay in memory until ``forget``.
        """
        if self._data is None:
            if self._unpack is None and self._source is not None:
                return self._source.read(self._offset + start, end - start)
            self._data = self.whole()
        return self._data[start:end]

    def whole(self) -> bytes:
        """Returns all bytes, without keeping more in memory than before."""
        if self._data is not None:
            return self._data
        assert self._source is not None
        if self._unpack is None:
            return self._source.read(self._offset, self.length)
        return self._unpack(self._source.read(self._offset, self._packed))

    def forget(self) -> None:
        """Releases bytes that were read and are unlikely to be read again."""
        if not self._stays:
            self._data = None


class PlainStream(NamedTuple):  # a tuple, since tiny files make many of them
    """A stream, with its kind and column from the stripe's footer."""

    kind: int
    column: int
    length: int
    parts: Sequence[PlainPart]

    @property
    def kept(self) -> int:
        """The number of bytes in memory."""
        return sum([part.kept for part in self.parts])

    def read(self) -> bytes:
        """Returns the whole stream."""
        return b"".join([part.whole() for part in self.parts])


def plain_streams(
    source: Source,
    tail: Tail,
    stripe_index: int,
    footer: messages.Message,
    columns: Container[int],
    *,
    kinds: Container[int] = DATA_STREAMS,
    room: int = 0,
) -> list[PlainStream]:
    """Returns the streams of ``columns`` (ids) and ``kinds``. Up to ``room`` bytes of them stay in memory.

    Raises:
        BadFile: a chunk cannot be decompressed, or is cut off; or there are more bytes or chunks than a stripe may have.
    """
    stripe = tail.stripes[stripe_index]
    where = f"{tail.name}, stripe {stripe_index}"
    ahead = _ReadAhead(source, stripe.offset + stripe.index_length + stripe.data_length)
    place, streams = stripe.offset, []
    budget = _StripeBudget(limits=source.limits, where=where, bytes=source.limits.stripe_bytes, chunks=MAX_CHUNKS)
    for stream in footer.streams:
        kind, length = stream.kind, stream.length
        if kind in kinds and (column := stream.column) in columns:
            if tail.compression is Compression.NONE:
                budget.stream = 0
                budget.take(length, kind, column)
                parts = [PlainPart(length, source=source, offset=place)]
            else:
                parts = _chunks(ahead, tail, (place, length), room, budget, (kind, column))
            plain = PlainStream(kind, column, sum([part.length for part in parts]), parts)
            room -= plain.kept
            streams.append(plain)
        place += length
    return streams


@dataclass(slots=True, kw_only=True)
class _StripeBudget:
    """The bytes and chunks that a stripe may still have."""

    limits: FileLimits
    where: str
    bytes: int
    chunks: int
    stream: int = 0  #: bytes of the stream so far

    def take(self, length: int, kind: int, column: int) -> None:
        """Deducts a chunk of ``length`` bytes; raises ``BadFile`` if the stripe has too many bytes or chunks."""
        self.bytes -= length
        self.chunks -= 1
        self.stream += length
        if self.bytes < 0:
            raise self.limits.too_long_stripe(self.where, self.limits.stripe_bytes - self.bytes)
        most = _LONGEST.get(kind)
        if most is not None and self.stream > most:
            self._report_damage(
                f"the {_KINDS[kind]} of column {column} has {self.stream} bytes or more, at most {most}"
            )
        if self.chunks < 0:
            self._report_damage(f"its streams have more than {MAX_CHUNKS} compressed chunks, at most as many")

    def _report_damage(self, what: str) -> NoReturn:
        raise BadFile(f"file {self.where}: {what} were expected; the file is damaged, restore it or move it away")


_LONGEST = {LENGTH: MAX_LENGTHS, DICTIONARY_DATA: MAX_DICTIONARY}
_KINDS = {LENGTH: "length stream", DICTIONARY_DATA: "dictionary"}


def _chunks(
    ahead: _ReadAhead, tail: Tail, extent: tuple[int, int], room: int, budget: _StripeBudget, stream: tuple[int, int]
) -> list[PlainPart]:
    """Returns the chunks of the stream at ``extent``. Decompresses each, at least to check it."""
    where, part = budget.where, "stream {} of column {}".format(*stream)
    unpack = partial(
        decompress_chunk, compression=tail.compression, block_size=tail.compression_block_size, name=where, part=part
    )
    parts = []
    budget.stream = 0
    place, end = extent[0], sum(extent)
    while place < end:
        size, is_plain = chunk_header(ahead.read(place, min(3, end - place), end), end - place, where, part)
        place += 3
        data = ahead.read(place, size, end)
        if not is_plain:
            data = unpack(data)
        budget.take(len(data), *stream)
        kept = data if len(data) <= room else None
        chunk = PlainPart(
            len(data), kept, source=ahead.source, offset=place, packed=size, unpack=None if is_plain else unpack
        )
        room -= chunk.kept
        parts.append(chunk)
        place += size
    return parts


class _ReadAhead:
    """The data of a stripe, read ahead: a small stripe as a whole, otherwise up to the end of a stream."""

    def __init__(self, source: Source, end: int) -> None:
        self.source, self._end = source, end
        self._start, self._data = 0, b""

    def read(self, offset: int, length: int, end: int) -> bytes:
        """Returns bytes of a stream that extends to ``end``."""
        at = offset - self._start
        if not 0 <= at <= len(self._data) - length:
            end = self._end if self._end - offset <= SMALL_BYTES else end
            self._data = self.source.read(offset, max(length, min(WINDOW_BYTES, end - offset)))
            self._start, at = offset, 0
        return self._data[at : at + length]
