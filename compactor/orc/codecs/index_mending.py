"""Changes the indexes and statistics of an encoded file so that no reader loses rows by them.

They become those of the writer's zone (PROTOCOL 2.6). The bounds and bloom filters of floats then hold for NaN and both
zeros, and the bounds of days and times for readers that know no digits below a millisecond or convert to another calendar
(PROTOCOL 2.7). The data do not change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from compactor.base.errors import NotSupported
from compactor.orc.codecs.bloom_filters import admit_both_zeros
from compactor.orc.format import messages
from compactor.orc.format.compression import compress
from compactor.orc.format.java_zones import UTC_NAME, JavaZone, is_utc, java_zone
from compactor.orc.format.statistics import FLOAT_KINDS, MENDED_KINDS, mend_statistics, text_statistics_for_orc_1_5
from compactor.orc.format.stripe_footer import INDEX_STREAMS, ROW_INDEX, read_indexes, read_stripe_footer, zone_named
from compactor.orc.format.tail import MAGIC, Stripe, Tail, read_tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.format.types import TypeKind
from compactor.orc.io.source import LocalSink, LocalSource, Source

DAY = 86_400_000  #: milliseconds
_JAVA, _CPP = 0, 1  #: writers
_ORC_203 = 8  #: the version of the Java writer since which it cuts long texts
_EARLY = 4 * DAY  #: before this time, in milliseconds since 1970, no two databases of zones agree everywhere


def mend_indexes(path: str | os.PathLike[str], zone: str = UTC_NAME) -> None:
    """Mends a local file that was just encoded, and makes ``zone`` the writer's zone of all its stripes.

    Timestamps keep their raw seconds. Their statistics become those of the wall clock, as readers expect, and their bloom
    filters let every value pass.
    """
    part = f"{path}.mended"
    try:
        with LocalSource(path) as source:
            mending = _Mending(source, read_tail(source), zone)
            if not mending.is_needed():
                return
            mending.write(part)
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)


def text_indexes_for_orc_1_5(
    source: Source, tail: Tail, stripe_index: int, footer: messages.Message
) -> dict[int, bytes]:
    """Returns new stored row indexes for the columns of a stripe by which ORC Java 1.5 would lose rows.

    See ``text_statistics_for_orc_1_5``.

    Raises:
        BadFile: an index cannot be read.
    """
    new_indexes: dict[int, bytes] = {}
    if _has_exact_texts(tail):
        return new_indexes
    parts = tail.stripe_statistics[stripe_index] if tail.stripe_statistics else ()
    columns = {column for column in tail.types.text_columns if not parts or parts[column].number_of_values}
    for _, column, index in read_indexes(source, tail, stripe_index, footer, columns, kinds=(ROW_INDEX,)):
        changed = False
        for entry in index.entry:
            statistics = text_statistics_for_orc_1_5(entry.statistics)
            if statistics is not entry.statistics:
                entry.statistics.CopyFrom(statistics)
                changed = True
        if changed:
            new_indexes[column] = compress(index.SerializeToString(), tail.compression, tail.compression_block_size)
    return new_indexes


def _has_exact_texts(tail: Tail) -> bool:
    """Returns true if the writer of a file never cut bounds of texts."""
    return tail.writer == _CPP or (tail.writer == _JAVA and tail.writer_version < _ORC_203)


class _Mending:
    """The changes to one file."""

    def __init__(self, source: LocalSource, tail: Tail, zone: str) -> None:
        self._source, self._tail = source, tail
        self._footers = [read_stripe_footer(source, tail, number) for number in range(len(tail.stripes))]
        self._names_zone = not is_utc(zone) and any(zone_named(footer) != zone for footer in self._footers)
        self._zone = zone
        self._rules = _zone_rules(zone) if self._names_zone else None
        self._mended = frozenset(number for number, item in enumerate(tail.types) if item.kind in MENDED_KINDS)
        self._times = frozenset(
            number for number, item in enumerate(tail.types) if self._names_zone and item.kind is TypeKind.TIMESTAMP
        )

    def is_needed(self) -> bool:
        """Returns true if some reader would lose rows by the unchanged file."""
        return self._names_zone or any(
            changed for number in range(len(self._footers)) for *_, changed in self._indexes(number)
        )

    def write(self, path: str) -> None:
        """Writes the mended file to ``path``."""
        tail = self._tail
        sink = LocalSink(path)
        try:
            sink.write(MAGIC)
            stripes = tuple(self._stripe(number, sink) for number in range(len(self._footers)))
            statistics = tail.stripe_statistics and tuple(
                tuple(self._statistics(part, column) for column, part in enumerate(parts))
                for parts in tail.stripe_statistics
            )
            content = sink.tell()
            sink.write(tail_bytes(replace(tail, stripes=stripes, stripe_statistics=statistics, content_length=content)))
            sink.close()
        except BaseException:
            sink.abort()
            raise

    def _stripe(self, number: int, sink: LocalSink) -> Stripe:
        """Copies one stripe with its new indexes and a new footer."""
        tail, stripe = self._tail, self._tail.stripes[number]
        footer = messages.StripeFooter()
        footer.CopyFrom(self._footers[number])
        if self._names_zone:
            footer.writer_timezone = self._zone.encode()
        indexes = {(kind, column): index for kind, column, index, changed in self._indexes(number) if changed}
        start, place, index_length = sink.tell(), stripe.offset, 0
        for stream in footer.streams:
            if stream.kind not in INDEX_STREAMS:
                break  # data follow all indexes
            new = indexes.get((stream.kind, stream.column))
            if new is None:
                sink.copy(self._source, place, stream.length)
                place += stream.length
            else:
                place += stream.length
                data = compress(new.SerializeToString(), tail.compression, tail.compression_block_size)
                sink.write(data)
                stream.length = len(data)
            index_length += stream.length
        sink.copy(self._source, place, stripe.data_length)
        end = compress(footer.SerializeToString(), tail.compression, tail.compression_block_size)
        sink.write(end)
        return stripe._replace(offset=start, index_length=index_length, footer_length=len(end))

    def _indexes(self, number: int) -> Iterator[tuple[int, int, messages.Message, bool]]:
        """Yields kind, column and content of each index of a stripe that may change, and true if it changes."""
        for kind, column, index in read_indexes(self._source, self._tail, number, self._footers[number], self._mended):
            changed = column in self._times
            if kind == ROW_INDEX:
                for entry in index.entry:
                    old = entry.statistics.SerializeToString()
                    entry.statistics.CopyFrom(self._statistics(entry.statistics, column))
                    changed = changed or entry.statistics.SerializeToString() != old
            else:
                has_old_days = self._has_old_days(number, column)
                changed = changed or has_old_days
                for bloom in index.bloom_filter:
                    if column in self._times or has_old_days:
                        bloom.bitset[:] = [2**64 - 1] * len(bloom.bitset)
                        if bloom.utf8bitset:
                            bloom.utf8bitset = b"\xff" * len(bloom.utf8bitset)
                    elif self._tail.types[column].kind in FLOAT_KINDS:
                        changed = admit_both_zeros(bloom) or changed
            yield kind, column, index, changed

    def _has_old_days(self, number: int, column: int) -> bool:
        """Returns true if a column of a stripe has dates about which calendars may disagree."""
        stripes = self._tail.stripe_statistics
        if self._tail.types[column].kind is not TypeKind.DATE or stripes is None:
            return False
        statistics = self._statistics(stripes[number][column], column)
        return statistics.number_of_values > 0 and not statistics.HasField("date_statistics")

    def _statistics(self, statistics: messages.Message, column: int) -> messages.Message:
        if column in self._times:
            statistics = _to_wall_clock(statistics, self._rules)
        return mend_statistics(statistics, self._tail.types[column].kind)


def _zone_rules(name: str) -> JavaZone | None:
    """Returns a zone's rules; None if only Java has them. Statistics then lose their times."""
    try:
        return java_zone(name)
    except NotSupported:
        return None


def _to_wall_clock(statistics: messages.Message, zone: JavaZone | None) -> messages.Message:
    """Turns statistics of times that were encoded as if in UTC into those of the clocks of ``zone``.

    The result is only bounds: the zone's offset may have changed between the first and the last time, and databases of
    zones differ before 1970.
    """
    times = statistics.timestamp_statistics
    shifted = messages.ColumnStatistics()
    shifted.CopyFrom(statistics)
    if zone is None or not times.HasField("minimum_utc") or not times.HasField("maximum_utc"):
        shifted.ClearField("timestamp_statistics")
        return shifted
    low, high = times.minimum_utc - zone.base * 1000, times.maximum_utc - zone.base * 1000
    least, most = zone.extreme_offsets(low // 1000 - 1, high // 1000 + 1)
    bounds = shifted.timestamp_statistics
    bounds.ClearField("minimum")
    bounds.ClearField("maximum")
    bounds.minimum_utc, bounds.maximum_utc = low + least * 1000, high + most * 1000
    if bounds.minimum_utc < _EARLY:
        bounds.minimum_utc -= DAY
        bounds.ClearField("minimum_nanos")
    if bounds.maximum_utc < _EARLY:
        bounds.maximum_utc += DAY
        bounds.ClearField("maximum_nanos")
    return shifted
