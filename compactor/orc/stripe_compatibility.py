"""Decides which stripes may share a file, by copying them or by encoding their rows (PROTOCOL 2.2)."""

from __future__ import annotations

from dataclasses import replace

from compactor.orc.format import messages
from compactor.orc.format.compression import Compression
from compactor.orc.format.tail import FIRST_GREGORIAN_DAY, Tail

DEFAULT_STRIDE = 10_000  #: rows per entry of a row index; Hive's default
FILE_VERSION = (0, 12)  #: of the files written here; 0.11 has only the first run-length encoding
WRITABLE = frozenset({Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD})
DAY = 86_400_000  #: milliseconds
ORC_135 = 6  #: the first writer version whose timestamp statistics are in UTC


def is_copyable(tail: Tail) -> bool:
    """Returns true if stripes of this file may be copied into another file of their class.

    A file may not be copied from if it has encrypted columns (keys are in the footer), if its writer is older than ORC-135
    (timestamp statistics have another meaning), or if it lacks a row index or statistics for every stripe (readers would
    apply the file's statistics to all stripes).
    """
    return (
        not tail.encrypted and tail.writer_version >= ORC_135 and tail.row_index_stride > 0 and tail.complete_statistics
    )


def is_writable(tail: Tail) -> bool:
    """Returns true if rows can be encoded in the class of this file."""
    return tail.compression in WRITABLE and tail.file_version == FILE_VERSION


def encodable_target(tail: Tail) -> Tail:
    """Returns ``tail`` changed to a class that can be encoded.

    It gets a row index if it has none (PROTOCOL 2.2), and a compression and file version that can be written.
    """
    if tail.row_index_stride == 0:
        tail = replace(tail, row_index_stride=DEFAULT_STRIDE)
    if tail.compression not in WRITABLE:
        tail = replace(tail, compression=Compression.ZLIB)
    return replace(tail, file_version=FILE_VERSION)


def calendars_agree(tail: Tail, like: Tail) -> bool:
    """Returns true if the days of ``tail`` may be in a file of ``like``.

    Both must have one calendar, or all calendars must agree on these days. If a file names no calendar, each reader guesses
    (Hive by ``orc.proleptic.gregorian.default``), so it counts as neither of the two.
    """
    return tail.calendar == like.calendar or all(_modern(tail, number) for number in tail.types.calendar_columns)


def has_early_days(tail: Tail, stripe_index: int) -> bool:
    """Returns true if a stripe may hold days before 1582-10-15, about which calendars disagree."""
    if not tail.complete_statistics or tail.stripe_statistics is None:
        return bool(tail.types.calendar_columns)
    statistics = tail.stripe_statistics[stripe_index]
    return not all(_is_modern(statistics[number]) for number in tail.types.calendar_columns)


def _modern(tail: Tail, column: int) -> bool:
    if not tail.complete_statistics or tail.stripe_statistics is None:
        return False
    return all(_is_modern(columns[column]) for columns in tail.stripe_statistics)


def _is_modern(part: messages.Message) -> bool:
    dates, times = part.date_statistics, part.timestamp_statistics
    if dates.HasField("minimum"):
        first = dates.minimum
    elif times.HasField("minimum_utc"):
        first = times.minimum_utc // DAY
    elif times.HasField("minimum"):
        first = times.minimum // DAY - 2  # in the writer's time zone
    else:
        return bool(part.number_of_values == 0)
    return bool(first > FIRST_GREGORIAN_DAY)
