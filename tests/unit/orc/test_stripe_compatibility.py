"""Stripes that may share a file, and stripes that may not (PROTOCOL 2.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.orc.codecs import arrow_codec, pyorc_codec
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import Stripe, Tail, empty_tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import LocalSource
from compactor.orc.stripe_compatibility import (
    DAY,
    WRITABLE,
    calendars_agree,
    encodable_target,
    is_copyable,
    is_writable,
)

Opened = Callable[[Path], tuple[LocalSource, Tail]]


def _tail(text: str = "struct<a:int>", **options: object) -> Tail:
    return replace(empty_tail(acid_types(parse_hive_type(text))), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"types": acid_types(parse_hive_type("struct<a:bigint>"))},
        {"row_index_stride": 1000},
        {"compression": Compression.ZSTD},
        {"file_version": (0, 11)},
    ],
    ids=["types", "stride", "compression", "file version"],
)
def test_mixed_files_are_of_different_classes(change: dict[str, object]) -> None:
    """PROTOCOL 2.2: with mixed strides, reads under a predicate silently lose rows, or fail."""
    assert _tail(**change).stripe_class != _tail().stripe_class
    assert len({_tail(**change).stripe_class, _tail().stripe_class, _tail().stripe_class}) == 2


def test_properties_that_may_differ() -> None:
    """PROTOCOL 2.2: names, block size and writer version may differ."""
    other = _tail("struct<_col0:int>", compression_block_size=1, writer_version=9, writer=4, software="x", calendar=1)
    assert other.stripe_class == _tail().stripe_class


def test_calendars_count_where_a_column_depends_on_one() -> None:
    """PROTOCOL 2.2: the calendar must be equal."""
    texts = ["struct<d:date>", "struct<t:array<timestamp>>"]
    for text in texts:
        assert len({_tail(text, calendar=calendar).stripe_class for calendar in (0, 1, 2)}) == 3


@pytest.mark.parametrize(
    "change",
    [{"row_index_stride": 0}, {"writer_version": 5}, {"encrypted": True}, {"stripe_statistics": None}],
    ids=["no row index", "before ORC-135", "encrypted", "no statistics"],
)
def test_files_whose_stripes_are_never_copied(change: dict[str, object]) -> None:
    """PROTOCOL 2.2: stripes from before ORC-135 or without a row index are re-encoded."""
    assert is_copyable(_tail())
    assert not is_copyable(_tail(**change))


def test_old_minors_are_not_copied(opened: Opened) -> None:
    """PROTOCOL 2.1: statistics of 0 rows don't count; readers would drop the stripe."""
    found = 0
    for path in sorted(Path("tests/fixtures/hive-3.1").rglob("bucket_*")):
        _, tail = opened(path)
        assert is_copyable(tail) == (tail.row_index_stride > 0)
        found += tail.row_index_stride == 0
    assert found > 10


def test_a_target_always_has_a_row_index() -> None:
    """PROTOCOL 2.2: stripes without row index (stride 0, streaming) are always re-encoded."""
    assert encodable_target(_tail(row_index_stride=0)).row_index_stride == 10_000
    assert encodable_target(_tail(row_index_stride=500)) == _tail(row_index_stride=500)


def test_a_target_can_be_written() -> None:
    for codec in (arrow_codec, pyorc_codec):
        assert frozenset(codec.COMPRESSIONS) == WRITABLE
    for strange in (_tail(compression=Compression.BROTLI), _tail(file_version=(0, 11))):
        assert not is_writable(strange)
        assert is_writable(encodable_target(strange))
    assert encodable_target(_tail(compression=Compression.BROTLI)).compression is Compression.ZLIB


@pytest.mark.parametrize(
    ("field", "first", "is_modern"),
    [
        ("date_statistics.minimum", -141_426, True),
        ("date_statistics.minimum", -141_427, False),
        ("timestamp_statistics.minimum_utc", -141_426 * DAY, True),
        ("timestamp_statistics.minimum_utc", -141_426 * DAY - 1, False),
        ("timestamp_statistics.minimum", -141_424 * DAY, True),
        ("timestamp_statistics.minimum", -141_424 * DAY - 1, False),
        (None, 0, False),
    ],
)
def test_days_of_two_calendars_meet_where_both_agree(field: str | None, first: int, is_modern: bool) -> None:
    """PROTOCOL 2.2: an equal calendar, or no day before 1582-10-15; without statistics the days are unknown."""
    part = messages.ColumnStatistics(number_of_values=7)
    if field is not None:
        name, minimum = field.split(".")
        setattr(getattr(part, name), minimum, first)
    root = messages.ColumnStatistics(number_of_values=7)
    types = parse_hive_type("struct<d:date>")
    stripe = Stripe(offset=3, index_length=1, data_length=1, footer_length=1, rows=7)
    tail = replace(empty_tail(types, calendar=1), stripes=(stripe,), stripe_statistics=((root, part),), rows=7)
    assert calendars_agree(tail, replace(tail, calendar=1))
    assert calendars_agree(tail, replace(tail, calendar=2)) is is_modern
    assert calendars_agree(tail, replace(tail, calendar=0)) is is_modern
    assert not calendars_agree(replace(tail, stripe_statistics=None), replace(tail, calendar=2))
    assert calendars_agree(_tail("struct<a:int>", calendar=1), _tail("struct<d:date>", calendar=2))


def test_a_column_of_nothing_has_no_days() -> None:
    part = messages.ColumnStatistics(number_of_values=0, has_null=True)
    root = messages.ColumnStatistics(number_of_values=7)
    stripe = Stripe(offset=3, index_length=1, data_length=1, footer_length=1, rows=7)
    tail = replace(
        empty_tail(parse_hive_type("struct<d:date>")), stripes=(stripe,), stripe_statistics=((root, part),), rows=7
    )
    assert calendars_agree(tail, replace(tail, calendar=2))
