"""Writes plain files with the rows of ACID files, without decoding them (PROTOCOL 15.7).

A stripe of an ACID file without its five key columns is a stripe of a plain file: its other streams stay as they are, and
only column numbers in its footer change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from compactor.base.errors import NotLossless
from compactor.orc.format import messages
from compactor.orc.format.compression import compress
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.stripe_footer import INDEX_STREAMS, PRESENT, ROW_INDEX, read_stripe_footer
from compactor.orc.format.tail import JULIAN, MAGIC, Stripe, Tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.format.types import INTEGERS, TypeKind, Types, same_shape
from compactor.orc.io.source import Sink, Source
from compactor.orc.stripe_compatibility import is_copyable

_JAVA = 0  #: the writer recorded for stripes of several writers
_NO_METADATA: Mapping[str, bytes] = MappingProxyType({})


@dataclass(slots=True, kw_only=True)
class PlainFileWriter:
    """Writes one plain file of ``types`` from stripes of other files.

    The stripes have the compression, file version and row index stride of ``like``. Days in them must not depend on a
    calendar: either all are after 1582-10-15, or they count in the proleptic Gregorian calendar. The owner of ``sink``
    aborts it on any error.
    """

    sink: Sink
    types: Types
    like: Tail
    _stripes: list[Stripe] = field(default_factory=list)
    _statistics: list[tuple[messages.Message, ...]] = field(default_factory=list)
    _writers: set[tuple[int, int, str]] = field(default_factory=set)
    _block_size: int = 0

    def __post_init__(self) -> None:
        self.sink.write(MAGIC)

    def copy(self, source: Source, tail: Tail, stripe_index: int) -> None:
        """Appends one stripe of an ACID file or a plain file.

        Raises:
            NotLossless: its streams do not suit ``types``, or its file cannot be copied from.
            BadFile: the stripe's footer is damaged.
        """
        self._must_suit(tail)
        root = tail.types[0].children[-1] if tail.is_acid else 0
        footer = read_stripe_footer(source, tail, stripe_index)
        stripe = tail.stripes[stripe_index]
        indexes, data = _Section(), _Section()
        place = stripe.offset
        dropped = self._streams_of_rows(footer, tail, stripe_index, root)
        for stream in footer.streams:
            if stream.column >= root and (stream.column, stream.kind) not in dropped:
                (indexes if stream.kind in INDEX_STREAMS else data).add(stream, place, root)
            place += stream.length
        start = self._copy_ranges(source, [*indexes.ranges, *data.ranges])
        new = messages.StripeFooter(
            streams=[*indexes.streams, *data.streams],
            columns=footer.columns[root:],
        )
        if footer.HasField("writer_timezone"):
            new.writer_timezone = footer.writer_timezone
        end = compress(new.SerializeToString(), tail.compression, tail.compression_block_size)
        self.sink.write(end)
        self._stripes.append(Stripe(start, indexes.length, data.length, len(end), stripe.rows))
        assert tail.stripe_statistics is not None
        self._statistics.append(tail.stripe_statistics[stripe_index][root:])
        self._writers.add((tail.writer, tail.writer_version, tail.software))
        self._block_size = max(self._block_size, tail.compression_block_size)

    def _copy_ranges(self, source: Source, ranges: Sequence[tuple[int, int]]) -> int:
        """Appends the ranges of a stripe one after another, and returns where the first begins.

        The file system or store takes over the longest, if it can.
        """
        longest = max(range(len(ranges)), key=lambda place: ranges[place][1], default=0)
        before = sum(length for _, length in ranges[:longest])
        if ranges:
            self.sink.align(*ranges[longest], before)
        start = self.sink.tell()
        for place, (offset, length) in enumerate(ranges):
            position = self.sink.tell()
            taken = self.sink.take_over(source, offset, length) if place == longest else None
            if taken is None:
                self.sink.copy(source, offset, length)
            elif taken != position:
                raise NotLossless(
                    f"file {source.name}: {length} bytes at {offset} were taken over at {taken} of the new file, not at "
                    f"{position}; nothing was committed, please report this"
                )
        return start

    def _streams_of_rows(
        self, footer: messages.Message, tail: Tail, stripe_index: int, root: int
    ) -> frozenset[tuple[int, int]]:
        """Returns the streams that say which rows of an ACID file are NULL, with the index into them.

        They go, because the root of a plain file has none.

        Raises:
            NotLossless: some row is NULL, and then the streams of the columns have fewer values than the stripe has rows.
        """
        if not any(stream.column == root and stream.kind == PRESENT for stream in footer.streams):
            return frozenset()
        assert tail.stripe_statistics is not None
        statistics = tail.stripe_statistics[stripe_index][root]
        if statistics.has_null or statistics.number_of_values != tail.stripes[stripe_index].rows:
            raise NotLossless(
                f"file {tail.name}, stripe {stripe_index}: some of its rows are NULL as a whole; re-encode them"
            )
        return frozenset({(root, PRESENT), (root, ROW_INDEX)})

    def _must_suit(self, tail: Tail) -> None:
        if not is_copyable(tail):
            raise NotLossless(
                f"file {tail.name}: writer version {tail.writer_version}, row index stride {tail.row_index_stride}, "
                f"complete statistics: {tail.complete_statistics}, encrypted: {tail.encrypted}; its stripes cannot be "
                "copied, re-encode them"
            )
        row = tail.types.row
        is_narrower = any(
            old.kind in INTEGERS and old.kind > new.kind for old, new in zip(row, self.types, strict=False)
        )
        if is_narrower or not same_shape(_stream_types(row), _stream_types(self.types)):
            raise NotLossless(
                f"file {tail.name}: its rows are {schema_text(row)}, {schema_text(self.types)} is expected; "
                "re-encode them"
            )
        own = tail.compression, tail.file_version, tail.row_index_stride
        expected = self.like.compression, self.like.file_version, self.like.row_index_stride
        if own != expected:
            raise NotLossless(
                f"file {tail.name}: its compression, file version and row index stride are {own}, {expected} are expected; "
                "re-encode it"
            )

    def close(self) -> Tail:
        """Writes the tail, completes the sink, and returns the tail."""
        numbers = {(writer, version) for writer, version, _ in self._writers}
        names = {software for _, _, software in self._writers}
        writers = {writer for writer, _ in numbers}
        tail = replace(
            self.like,
            writer=writers.pop() if len(writers) == 1 else _JAVA,
            writer_version=min((version for _, version in numbers), default=self.like.writer_version),
            software=names.pop() if len(names) == 1 else "",
            compression_block_size=self._block_size or self.like.compression_block_size,
            types=self.types,
            stripes=tuple(self._stripes),
            stripe_statistics=tuple(self._statistics),
            user_metadata=_NO_METADATA,
            rows=sum(stripe.rows for stripe in self._stripes),
            content_length=self.sink.tell(),
            # Readers of Iceberg take days as they are stored unless a footer claims the Gregorian calendar: ORC Java
            # would convert those to the Julian one.
            calendar=JULIAN,
            filters=None,
        )
        self.sink.write(tail_bytes(tail))
        self.sink.close()
        return tail


def _stream_types(types: Types) -> Types:
    """Returns types that differ only if their streams do.

    Those of all integers of several bytes are alike.
    """
    return Types(
        replace(item, kind=TypeKind.LONG) if item.kind in (TypeKind.SHORT, TypeKind.INT) else item
        for item in types.for_encoders
    )


@dataclass(slots=True)
class _Section:
    """The indexes or the data of a stripe: streams with their new columns, and where their bytes are."""

    streams: list[messages.Message] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    length: int = 0

    def add(self, stream: messages.Message, place: int, root: int) -> None:
        self.streams.append(messages.Stream(kind=stream.kind, column=stream.column - root, length=stream.length))
        self.length += stream.length
        if self.ranges and sum(self.ranges[-1]) == place:
            self.ranges[-1] = (self.ranges[-1][0], self.ranges[-1][1] + stream.length)
        else:
            self.ranges.append((place, stream.length))
