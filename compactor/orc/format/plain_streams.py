"""The streams of a stripe without their compression, as decoders get them.

So damage of a chunk is heard here, whatever the codec. The ORC C++ library takes an error of zstd for a length, and goes on
with whatever its memory holds; and it inflates with zlib, which takes longer than what is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from compactor.errors import BadFile
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression, chunk_header, decompress_chunk
from compactor.orc.format.stripe_footer import DATA_STREAMS, DICTIONARY_DATA
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import Source

KEPT_BYTES = 128 * 1024 * 1024  #: of parts that wait to be read; others are decompressed once more when they are
SMALL_BYTES = 16 * 1024  #: of a part that stays when it was read: who opens a file looks at so much of its end first
WINDOW_BYTES = 1024 * 1024  #: of a file that are read at a time
MAX_DICTIONARY = 2**31 - 1  #: bytes; decoders read a dictionary at once and count it in 32 bits
Unpack: TypeAlias = Callable[[bytes], bytes]


class PlainPart:
    """Neighbouring plain bytes: given, or those that ``unpack`` makes of ``packed`` bytes at ``offset`` of ``source``."""

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
        """How many bytes are in memory."""
        return 0 if self._data is None else self.length

    def read(self, start: int, end: int) -> bytes:
        """The bytes from ``start`` to ``end``, within the length; more of them are kept until ``forget``."""
        if self._data is None:
            if self._unpack is None and self._source is not None:
                return self._source.read(self._offset + start, end - start)
            self._data = self.whole()
        return self._data[start:end]

    def whole(self) -> bytes:
        """All of them; no more are kept than before."""
        if self._data is not None:
            return self._data
        assert self._source is not None
        if self._unpack is None:
            return self._source.read(self._offset, self.length)
        return self._unpack(self._source.read(self._offset, self._packed))

    def forget(self) -> None:
        """They were read and will hardly be again."""
        if not self._stays:
            self._data = None


class PlainStream(NamedTuple):  # since tiny files make many
    """A stream, by kind and column as in the stripe's footer."""

    kind: int
    column: int
    length: int
    parts: Sequence[PlainPart]

    @property
    def kept(self) -> int:
        """How many bytes are in memory."""
        return sum([part.kept for part in self.parts])

    def read(self) -> bytes:
        """All of it."""
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
    """The streams of ``columns`` (ids) and ``kinds``, of which ``room`` bytes may stay in memory.

    Raises:
        BadFile: a chunk cannot be decompressed, or is cut off.
    """
    stripe = tail.stripes[stripe_index]
    where = f"{tail.name}, stripe {stripe_index}"
    ahead = _Ahead(source, stripe.offset + stripe.index_length + stripe.data_length)
    place, found = stripe.offset, []
    for stream in footer.streams:
        kind, column, length = stream.kind, stream.column, stream.length
        if kind in kinds and column in columns:
            if tail.compression is Compression.NONE:
                parts = [PlainPart(length, source=source, offset=place)]
            else:
                parts = _chunks(ahead, tail, place, length, room, where, f"stream {kind} of column {column}")
            made = PlainStream(kind, column, sum([part.length for part in parts]), parts)
            room -= made.kept
            if kind == DICTIONARY_DATA:
                _check_dictionary(made, where)
            found.append(made)
        place += length
    return found


def _check_dictionary(stream: PlainStream, where: str) -> None:
    if stream.length > MAX_DICTIONARY:
        raise BadFile(
            f"file {where}: the dictionary of column {stream.column} has {stream.length} bytes, at most {MAX_DICTIONARY} "
            "were expected; the file is damaged, restore it or move it away"
        )


def _chunks(ahead: _Ahead, tail: Tail, start: int, length: int, room: int, where: str, part: str) -> list[PlainPart]:
    """The chunks of a stream, each decompressed, if only to hear that this can be done."""
    unpack = partial(
        decompress_chunk, compression=tail.compression, block_size=tail.compression_block_size, name=where, part=part
    )
    found = []
    place, end = start, start + length
    while place < end:
        size, is_plain = chunk_header(ahead.read(place, min(3, end - place), end), end - place, where, part)
        place += 3
        data = ahead.read(place, size, end)
        if not is_plain:
            data = unpack(data)
        kept = data if len(data) <= room else None
        made = PlainPart(
            len(data), kept, source=ahead.source, offset=place, packed=size, unpack=None if is_plain else unpack
        )
        room -= made.kept
        found.append(made)
        place += size
    return found


class _Ahead:
    """The data of a stripe, read in its order some at a time: a small one at once, else no more than a stream."""

    def __init__(self, source: Source, end: int) -> None:
        self.source, self._end = source, end
        self._start, self._data = 0, b""

    def read(self, offset: int, length: int, end: int) -> bytes:
        """Bytes of a stream that goes on to ``end``."""
        at = offset - self._start
        if not 0 <= at <= len(self._data) - length:
            end = self._end if self._end - offset <= SMALL_BYTES else end
            self._data = self.source.read(offset, max(length, min(WINDOW_BYTES, end - offset)))
            self._start, at = offset, 0
        return self._data[at : at + length]
