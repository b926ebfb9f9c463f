"""Which stripes meet in one file (PROTOCOL 2.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.orc.compat import copyable, stripe_class, target_of
from compactor.orc.compression import Compression
from compactor.orc.source import LocalSource
from compactor.orc.tail import Tail, empty_tail
from compactor.orc.types import acid_types, parse_hive_type

Opened = Callable[[Path], tuple[LocalSource, Tail]]


def _tail(text: str = "struct<a:int>", **options: object) -> Tail:
    return replace(empty_tail(acid_types(parse_hive_type(text))), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"row_index_stride": 1000}, {"compression": Compression.ZSTD}, {"file_version": (0, 11)}],
    ids=["stride", "compression", "file version"],
)
def test_mixed_files_are_of_different_classes(change: dict[str, object]) -> None:
    """PROTOCOL 2.2: mixed strides lose rows silently under a predicate, or fail."""
    assert stripe_class(_tail(**change)) != stripe_class(_tail())
    assert len({stripe_class(_tail(**change)), stripe_class(_tail()), stripe_class(_tail())}) == 2


def test_what_may_differ() -> None:
    """PROTOCOL 2.2: names, block size and writer version may differ."""
    other = _tail("struct<_col0:int>", compression_block_size=1, writer_version=9, writer=4, software="x", calendar=1)
    assert stripe_class(other) == stripe_class(_tail())


def test_calendars_count_where_a_column_depends_on_one() -> None:
    """PROTOCOL 2.2: equal calendar."""
    texts = ["struct<d:date>", "struct<t:array<timestamp>>"]
    for text in texts:
        assert len({stripe_class(_tail(text, calendar=calendar)) for calendar in (0, 1, 2)}) == 3


@pytest.mark.parametrize(
    "change",
    [{"row_index_stride": 0}, {"writer_version": 5}, {"encrypted": True}, {"stripe_statistics": None}],
    ids=["no row index", "before ORC-135", "encrypted", "no statistics"],
)
def test_what_is_never_copied(change: dict[str, object]) -> None:
    """PROTOCOL 2.2: below ORC-135 and without row index is re-encoded."""
    assert copyable(_tail())
    assert not copyable(_tail(**change))


def test_old_minors_are_not_copied(opened: Opened) -> None:
    """PROTOCOL 2.1: statistics that say 0 rows are none; readers would drop the stripe."""
    found = 0
    for path in sorted(Path("tests/fixtures/hive-3.1").rglob("bucket_*")):
        _, tail = opened(path)
        assert copyable(tail) == (tail.row_index_stride > 0)
        found += tail.row_index_stride == 0
    assert found > 10


def test_a_target_always_has_a_row_index() -> None:
    """PROTOCOL 2.2: stripes without row index (stride 0, streaming) are always re-encoded."""
    assert target_of(_tail(row_index_stride=0)).row_index_stride == 10_000
    assert target_of(_tail(row_index_stride=500)) == _tail(row_index_stride=500)
