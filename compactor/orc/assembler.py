"""Assembles a new file from copied stripes of other files and a new tail (DESIGN 4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from isal import isal_zlib

from compactor.base.errors import NotLossless
from compactor.orc.codecs.index_mending import text_indexes_for_orc_1_5
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression, compress
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.statistics import text_statistics_for_orc_1_5
from compactor.orc.format.stripe_footer import (
    INDEX_STREAMS,
    ROW_INDEX,
    check_key_index,
    filter_streams,
    open_filters,
    read_stripe_footer,
    set_encoding,
)
from compactor.orc.format.tail import MAGIC, FilterStream, Stripe, Tail, empty_tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.format.types import Types, same_shape
from compactor.orc.io.source import CHUNK, Sink, Source, chunks
from compactor.orc.stripe_compatibility import is_copyable

JAVA = 0  #: the writer recorded for stripes of several writers: its oldest version promises the least
PIECE = 1024 * 1024  #: bytes that are read and added at a time: they stay in the processor's cache in between
_WAITING = 64  #: parts that may wait; then the writer waits, so that memory is bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A finished file."""

    length: int  #: in bytes
    rows: int
    stripes: int
    checksum: int | None  #: CRC-32 of the whole file, if requested and every byte was seen
    taken_over: int = 0  #: bytes that the file system or store took over unseen


@dataclass(slots=True, kw_only=True)
class _Run:
    """Neighbouring stripes of ``source`` that wait to be appended.

    ``whole`` if ``source`` has no other stripes.
    """

    source: Source
    offset: int
    length: int = 0
    stripes: list[Stripe] = field(default_factory=list)
    whole: bool = False

    @property
    def end(self) -> int:
        return self.offset + self.length

    def add(self, stripe: Stripe, of_file: int | None) -> None:
        """Adds the next stripe.

        Its file has ``of_file`` stripes; None if the file may have more than its tail lists.
        """
        self.stripes.append(stripe)
        self.length += stripe.length
        self.whole = len(self.stripes) == of_file

    def stripes_at(self, start: int) -> Iterator[Stripe]:
        """Yields the stripes with their offsets in a file that has the run at ``start``."""
        for stripe in self.stripes:
            yield stripe._replace(offset=start + stripe.offset - self.offset)


class Assembler:
    """Writes one file of stripes of the class of ``like``. The owner of ``sink`` aborts it on any error.

    The checksum may read the sources until ``close``. Leaving a ``with`` block releases them.

    ``types`` are the footer's types. They must equal those of ``like`` apart from names.
    """

    def __init__(self, sink: Sink, *, like: Tail, types: Types | None = None, checksum: bool = False) -> None:
        self._sink = sink
        self._like = like
        self._class = like.stripe_class
        self._types = like.types if types is None else types
        if not same_shape(self._types, like.types):
            raise NotLossless(
                f"file {like.name}: its stripes hold {schema_text(like.types)}, {schema_text(self._types)} is expected; "
                "re-encode them"
            )
        self._checksum = RunningChecksum() if checksum else None
        self._stripes: list[Stripe] = []
        self._statistics: list[tuple[messages.Message, ...]] = []
        self._writers: set[tuple[int, int]] = set()
        self._software: set[str] = set()
        self._block_size = like.compression_block_size
        self._filters = None if like.filters is None else like.filters.streams
        self._run: _Run | None = None
        self._position = self._taken_over = 0
        self._write(MAGIC)

    @property
    def rows(self) -> int:
        """The number of rows appended so far."""
        return sum(stripe.rows for stripe in self._all_stripes())

    @property
    def stripes(self) -> int:
        """The number of stripes appended so far."""
        return len(self._all_stripes())

    def _all_stripes(self) -> list[Stripe]:
        return [*self._stripes, *(self._run.stripes if self._run else ())]

    def append_file(self, source: Source, tail: Tail) -> None:
        """Appends all stripes of a file."""
        for number in range(len(tail.stripes)):
            self.copy(source, tail, number)

    def copy(self, source: Source, tail: Tail, stripe_index: int) -> None:
        """Appends one stripe of ``source``, which has the tail ``tail``.

        It gets the bloom filters of all stripes.

        Raises:
            NotLossless: the stripe is not of the target's class, or its file cannot be copied from.
            BadFile: the stripe's footer or the row index of its keys is damaged.
        """
        if tail.stripe_class != self._class:
            raise NotLossless(
                f"file {tail.name}: its stripes are {tail.stripe_class}, the target's {self._class}; re-encode them"
            )
        if not is_copyable(tail) or tail.stripe_statistics is None:
            raise NotLossless(
                f"file {tail.name}: writer version {tail.writer_version}, row index stride {tail.row_index_stride}, "
                f"complete statistics: {tail.complete_statistics}, encrypted: {tail.encrypted}; "
                "its stripes cannot be copied, re-encode them"
            )
        footer = read_stripe_footer(source, tail, stripe_index)
        check_key_index(source, tail, stripe_index, footer)
        stripe = tail.stripes[stripe_index]
        self._statistics.append(self._mend_statistics(tail.stripe_statistics[stripe_index], tail.types))
        self._writers.add((tail.writer, tail.writer_version))
        self._software.add(tail.software)
        self._block_size = max(self._block_size, tail.compression_block_size)
        own = filter_streams(footer)
        if self._filters is None:
            self._filters = own
        indexes = text_indexes_for_orc_1_5(source, tail, stripe_index, footer) if self._like.is_for_orc_1_5 else {}
        if own != self._filters or indexes:
            self._copy_with_indexes(source, tail, stripe, footer, self._filters, indexes)
            return
        if self._run is None or self._run.source is not source or self._run.end != stripe.offset:
            self._flush()
            self._run = _Run(source=source, offset=stripe.offset)
        self._run.add(stripe, len(tail.stripes) if tail.length == source.length else None)

    def _mend_statistics(self, statistics: tuple[messages.Message, ...], types: Types) -> tuple[messages.Message, ...]:
        if not self._like.is_for_orc_1_5:
            return statistics
        texts = set(types.text_columns)
        return tuple(
            text_statistics_for_orc_1_5(part) if column in texts else part for column, part in enumerate(statistics)
        )

    def _copy_with_indexes(
        self,
        source: Source,
        tail: Tail,
        stripe: Stripe,
        footer: messages.Message,
        filters: frozenset[FilterStream],
        indexes: Mapping[int, bytes],
    ) -> None:
        """Appends a stripe with changed indexes.

        Drops bloom filters that other stripes lack, adds open ones that it lacks itself, and replaces the row ``indexes``
        of some columns.
        """
        self._flush()
        start, own = self._position, filter_streams(footer)
        kept = {(stream.column, stream.kind) for stream in own & filters}
        streams: tuple[list[messages.Message], list[messages.Message]] = ([], [])  # of indexes, of data
        ranges: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        place = stripe.offset
        for stream in footer.streams:
            is_data = stream.kind not in INDEX_STREAMS
            if stream.kind == ROW_INDEX and (index := indexes.get(stream.column)) is not None:
                self._copy_ranges(source, ranges[False])
                ranges[False].clear()
                self._write(index)
                streams[False].append(messages.Stream(kind=ROW_INDEX, column=stream.column, length=len(index)))
            elif is_data or stream.kind == ROW_INDEX or (stream.column, stream.kind) in kept:
                streams[is_data].append(stream)
                ranges[is_data].append((place, stream.length))
            place += stream.length
        self._copy_ranges(source, ranges[False])
        groups = -(-stripe.rows // tail.row_index_stride)
        for lacking in sorted(filters - own):
            data = compress(open_filters(lacking.kind, groups), tail.compression, tail.compression_block_size)
            streams[False].append(messages.Stream(kind=lacking.kind, column=lacking.column, length=len(data)))
            self._write(data)
        index_length = self._position - start
        self._copy_ranges(source, ranges[True])
        data_length = self._position - start - index_length
        new = messages.StripeFooter()
        new.CopyFrom(footer)
        del new.streams[:]
        new.streams.extend([*streams[False], *streams[True]])
        for stream in filters:
            set_encoding(new, stream)
        end = compress(new.SerializeToString(), tail.compression, tail.compression_block_size)
        self._write(end)
        self._stripes.append(Stripe(start, index_length, data_length, len(end), stripe.rows))

    def _copy_ranges(self, source: Source, ranges: Sequence[tuple[int, int]]) -> None:
        """Copies ranges of ``source``, given by offset and length. Copies adjacent ranges together."""
        joined: list[tuple[int, int]] = []
        for offset, length in ranges:
            if joined and sum(joined[-1]) == offset:
                joined[-1] = (joined[-1][0], joined[-1][1] + length)
            else:
                joined.append((offset, length))
        for offset, length in joined:
            self._copy(source, offset, length)

    def _flush(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        start = self._sink.take_over(run.source, run.offset, run.length, whole=run.whole)
        if start is None:
            start = self._position
            self._copy(run.source, run.offset, run.length)
        else:
            self._position = self._sink.tell()  # padding may follow
            self._taken_over += run.length
            if self._checksum is not None:
                self._checksum.close()
                self._checksum = None  # reading bytes that were not copied would cost as much as copying them
        self._stripes += run.stripes_at(start)

    def _copy(self, source: Source, offset: int, length: int) -> None:
        if self._checksum is None or (length >= CHUNK and source.is_local):
            if self._checksum is not None:
                self._checksum.add_range(source, offset, length)
            self._sink.copy(source, offset, length)
            self._position += length
            return
        for part in chunks(source, offset, length):  # a remote file is read only once, a small one needs no thread
            self._write(part)

    def _write(self, data: bytes) -> None:
        self._sink.write(data)
        self._position += len(data)
        if self._checksum is not None:
            self._checksum.add(data)

    def __enter__(self) -> Assembler:
        return self

    def __exit__(self, *_: object) -> None:
        if self._checksum is not None:
            self._checksum.close()

    def close(self, user_metadata: Mapping[str, bytes]) -> WrittenFile:
        """Writes the tail and completes the sink."""
        self._flush()
        tail = replace(
            self._like,
            writer=writers.pop() if len(writers := {writer for writer, _ in self._writers}) == 1 else JAVA,
            writer_version=min((version for _, version in self._writers), default=self._like.writer_version),
            software=self._software.pop() if len(self._software) == 1 else "",
            compression_block_size=self._block_size,
            types=self._types,
            stripes=tuple(self._stripes),
            stripe_statistics=tuple(self._statistics),
            user_metadata=user_metadata,
            rows=self.rows,
            content_length=self._position,
        )
        self._write(tail_bytes(tail))
        self._sink.close()
        checksum = None if self._checksum is None else self._checksum.value()
        return WrittenFile(
            length=self._position,
            rows=self.rows,
            stripes=self.stripes,
            checksum=checksum,
            taken_over=self._taken_over,
        )


def write_empty(
    sink: Sink,
    types: Types,
    *,
    compression: Compression = Compression.ZLIB,
    like: Tail | None = None,
    user_metadata: Mapping[str, bytes] | None = None,
    checksum: bool = False,
) -> WrittenFile:
    """Writes a file without rows, so that Trino does not show old rows for an empty directory."""
    target = replace(like, types=types) if like else empty_tail(types, compression=compression)
    return Assembler(sink, like=target, checksum=checksum).close(user_metadata or {})


class RunningChecksum:
    """The CRC-32 of parts that are added one after another.

    While the kernel copies ranges of files, a separate thread reads them again. Reading them from the page cache and adding
    them up takes as long as copying, and ISA-L releases the interpreter's lock. The thread starts with the first range. To
    abandon the checksum, ``close`` it before the sources.
    """

    def __init__(self) -> None:
        self._value = 0
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()
        self.is_closed = False

    def add(self, data: bytes) -> None:
        """Adds bytes in memory."""
        if self._thread is None:
            self._take(data)
        else:
            self._later(self._thread, self._take, data)

    def add_range(self, source: Source, offset: int, length: int) -> None:
        """Adds ``length`` bytes of ``source``, which must stay open until ``value`` or ``close``."""
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="checksum")
        self._later(self._thread, self._read, source, offset, length)

    def value(self) -> int:
        """Returns the checksum of all parts.

        Raises:
            BadFile: a source is shorter than its range.
        """
        while self._waiting:
            self._waiting.popleft().result()
        self.close()
        return self._value

    def close(self) -> None:
        """Releases the sources, even if they are not read completely."""
        self.is_closed = True
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def _later(self, thread: ThreadPoolExecutor, what: Callable[..., None], *arguments: Any) -> None:
        if len(self._waiting) == _WAITING:
            self._waiting.popleft().result()
        self._waiting.append(thread.submit(what, *arguments))

    def _take(self, data: bytes) -> None:
        self._value = isal_zlib.crc32(data, self._value)

    def _read(self, source: Source, offset: int, length: int) -> None:
        end = offset + length
        while offset < end and not self.is_closed:
            data = source.read(offset, min(PIECE, end - offset))
            self._take(data)
            offset += len(data)
