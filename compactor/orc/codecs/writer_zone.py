"""Gives stripes that were encoded as if their times were of UTC their writer's zone (PROTOCOL 2.6)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from compactor.errors import NotSupported
from compactor.orc.format import messages
from compactor.orc.format.compression import compress
from compactor.orc.format.java_zones import JavaZone, java_zone
from compactor.orc.format.stripe_footer import INDEX_STREAMS, ROW_INDEX, read_indexes, read_stripe_footer, zone_named
from compactor.orc.format.tail import MAGIC, Stripe, Tail, read_tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.format.types import TypeKind
from compactor.orc.io.source import LocalSink, LocalSource

DAY = 86_400_000  #: milliseconds
_EARLY = 4 * DAY  #: before this time, in milliseconds since 1970, no two databases of zones agree everywhere


def name_writer_zone(path: str | os.PathLike[str], name: str) -> None:
    """Makes ``name`` the writer's zone of all stripes of a local file that was just encoded. Its timestamps keep their raw
    seconds; statistics become those of the wall clock, as readers expect them, and bloom filters of timestamps let every
    value through.
    """
    part = f"{path}.zone"
    try:
        with LocalSource(path) as source:
            tail = read_tail(source)
            if all(zone_named(read_stripe_footer(source, tail, n)) == name for n in range(len(tail.stripes))):
                return
            _write(source, tail, part, name)
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)


def _write(source: LocalSource, tail: Tail, path: str, name: str) -> None:
    zone = _rules_of(name)
    times = frozenset(number for number, item in enumerate(tail.types) if item.kind is TypeKind.TIMESTAMP)
    sink = LocalSink(path)
    try:
        sink.write(MAGIC)
        stripes = tuple(_stripe(source, tail, n, sink, times, name, zone) for n in range(len(tail.stripes)))
        statistics = tail.stripe_statistics and tuple(
            tuple(shown_statistics(part, zone) if n in times else part for n, part in enumerate(parts))
            for parts in tail.stripe_statistics
        )
        content = sink.tell()
        sink.write(tail_bytes(replace(tail, stripes=stripes, stripe_statistics=statistics, content_length=content)))
        sink.close()
    except BaseException:
        sink.abort()
        raise


def _rules_of(name: str) -> JavaZone | None:
    """Returns a zone's rules, None if only Java has them: statistics then say nothing of times."""
    try:
        return java_zone(name)
    except NotSupported:
        return None


def _stripe(
    source: LocalSource,
    tail: Tail,
    number: int,
    sink: LocalSink,
    times: frozenset[int],
    name: str,
    zone: JavaZone | None,
) -> Stripe:
    """Copies one stripe with new indexes of the columns ``times``, and a new footer."""
    stripe, footer = tail.stripes[number], read_stripe_footer(source, tail, number)
    made = messages.StripeFooter()
    made.CopyFrom(footer)
    made.writer_timezone = name.encode()
    indexes = {
        (kind, column): _index(kind, index, zone)
        for kind, column, index in read_indexes(source, tail, number, footer, times)
    }
    start, place, index_length = sink.tell(), stripe.offset, 0
    for stream in made.streams:
        if stream.kind not in INDEX_STREAMS:
            break  # data follow all indexes
        new = indexes.get((stream.kind, stream.column))
        if new is None:
            sink.copy(source, place, stream.length)
            place += stream.length
        else:
            place += stream.length
            data = compress(new.SerializeToString(), tail.compression, tail.compression_block_size)
            sink.write(data)
            stream.length = len(data)
        index_length += stream.length
    sink.copy(source, place, stripe.data_length)
    end = compress(made.SerializeToString(), tail.compression, tail.compression_block_size)
    sink.write(end)
    return stripe._replace(offset=start, index_length=index_length, footer_length=len(end))


def _index(kind: int, index: messages.Message, zone: JavaZone | None) -> messages.Message:
    if kind == ROW_INDEX:
        for entry in index.entry:
            entry.statistics.CopyFrom(shown_statistics(entry.statistics, zone))
        return index
    for bloom in index.bloom_filter:
        bloom.bitset[:] = [2**64 - 1] * len(bloom.bitset)
        if bloom.utf8bitset:
            bloom.utf8bitset = b"\xff" * len(bloom.utf8bitset)
    return index


def shown_statistics(statistics: messages.Message, zone: JavaZone | None) -> messages.Message:
    """Returns the statistics of times that were encoded as if they were of UTC as those of what clocks of ``zone`` showed.

    They are bounds: between the first and the last time the zone's offset may have changed, and databases of zones differ
    in what they know of the time before 1970.
    """
    times = statistics.timestamp_statistics
    made = messages.ColumnStatistics()
    made.CopyFrom(statistics)
    if zone is None or not times.HasField("minimum_utc") or not times.HasField("maximum_utc"):
        made.ClearField("timestamp_statistics")
        return made
    low, high = times.minimum_utc - zone.base * 1000, times.maximum_utc - zone.base * 1000
    least, most = zone.extreme_offsets(low // 1000 - 1, high // 1000 + 1)
    bounds = made.timestamp_statistics
    bounds.ClearField("minimum")
    bounds.ClearField("maximum")
    bounds.minimum_utc, bounds.maximum_utc = low + least * 1000, high + most * 1000
    if bounds.minimum_utc < _EARLY:
        bounds.minimum_utc -= DAY
        bounds.ClearField("minimum_nanos")
    if bounds.maximum_utc < _EARLY:
        bounds.maximum_utc += DAY
        bounds.ClearField("maximum_nanos")
    return made
