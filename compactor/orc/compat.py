"""Which stripes may stand in one file (PROTOCOL 2.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compactor.orc.compression import Compression
from compactor.orc.tail import Tail
from compactor.orc.types import CALENDAR_KINDS, Types, shape

DEFAULT_STRIDE = 10_000  #: rows per entry of a row index, Hive's default
ORC_135 = 6  #: the first writer version whose timestamp statistics are in UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeClass:
    """What stripes of one file must have in common.

    ``types`` is without the names that readers do not go by; ``calendar`` is None where no column depends on it. An
    unset one is a class of its own: Hive writes 1 in all versions, Trino none, and what none means is the reader's
    guess.
    """

    types: Types
    file_version: tuple[int, ...]
    compression: Compression
    row_index_stride: int
    calendar: int | None


def stripe_class(tail: Tail) -> StripeClass:
    """The class of a file's stripes."""
    dated = any(item.kind in CALENDAR_KINDS for item in tail.types)
    return StripeClass(
        types=shape(tail.types),
        file_version=tail.file_version,
        compression=tail.compression,
        row_index_stride=tail.row_index_stride,
        calendar=tail.calendar if dated else None,
    )


def copyable(tail: Tail) -> bool:
    """Whether stripes of this file may be copied into a file of their class at all.

    Not so: encrypted columns (keys lie in the footer), writers before ORC-135 (statistics of timestamps mean another
    thing), files without row index or without statistics for every stripe (readers would take the file's for all).
    """
    return (
        not tail.encrypted and tail.writer_version >= ORC_135 and tail.row_index_stride > 0 and tail.complete_statistics
    )


def target_of(tail: Tail) -> Tail:
    """``tail`` as a target to encode for: with a row index where its own file has none (PROTOCOL 2.2)."""
    return tail if tail.row_index_stride > 0 else replace(tail, row_index_stride=DEFAULT_STRIDE)
