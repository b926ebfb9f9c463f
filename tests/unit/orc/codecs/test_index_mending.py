"""Stripes that get their writer's zone after they were encoded as if their times were of UTC."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.orc.codecs import arrow_codec
from compactor.orc.codecs.index_mending import mend_indexes
from compactor.orc.format import messages
from compactor.orc.format.java_zones import java_zone
from compactor.orc.format.stripe_footer import ROW_INDEX, read_indexes, read_stripe_footer, zone_named
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.source import LocalSource

SECOND = 10**9


def write(path: Path, seconds: np.ndarray, compression: str, **options: int) -> pa.Table:
    table = pa.table({"k": pa.array(np.arange(len(seconds))), "t": pa.array(seconds * SECOND, pa.timestamp("ns"))})
    po.write_table(table, path, compression=compression, row_index_stride=1000, **options)
    return table


def random_seconds(rows: int, first: int = 0, last: int = 2_000_000_000) -> np.ndarray:
    return np.sort(np.random.default_rng(1).integers(first, last, rows))


def decoded(source: LocalSource, tail: Tail) -> pa.Table:
    return pa.Table.from_batches(arrow_codec.read_batches(source, tail))


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_raw_seconds_stay(compression: str, tmp_path: Path) -> None:
    """PROTOCOL 2.6: in several stripes and row groups."""
    path = tmp_path / "file"
    table = write(path, random_seconds(60_000), compression, stripe_size=64 * 1024, batch_size=1000)
    mend_indexes(path, "Europe/Paris")
    with LocalSource(path) as source:
        tail = read_tail(source)
        assert len(tail.stripes) > 1
        zones = {zone_named(read_stripe_footer(source, tail, number)) for number in range(len(tail.stripes))}
        assert zones == {"Europe/Paris"}
        assert decoded(source, tail).column(1).cast(pa.int64()).equals(table.column(1).cast(pa.int64()))
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_names_the_zone_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, random_seconds(10), "zlib")
    before = path.read_bytes()
    mend_indexes(path, "GMT")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "zone", ["Europe/Paris", "Asia/Singapore", "America/New_York", "Australia/Lord_Howe", "GMT+08:00"]
)
@pytest.mark.parametrize("first", ["1850-01-01", "1960-01-01", "2015-01-01", "2250-01-01"])
def test_statistics_are_bounds_of_the_wall_clock(zone: str, first: str, tmp_path: Path) -> None:
    """PROTOCOL 2.6: of the file, its stripes and their row groups; tight unless an offset changes, and since 1970."""
    path, start = tmp_path / "file", int(np.datetime64(first, "s").astype(np.int64))
    seconds = start + np.arange(10_000) * 1000  # row groups of eleven days
    write(path, seconds, "zlib")
    mend_indexes(path, zone)
    shown = java_zone(zone).wall_clock(seconds, np.zeros_like(seconds)) * 1000
    with LocalSource(path) as source:
        tail = read_tail(source)
        footer = read_stripe_footer(source, tail, 0)
        indexes = [index for kind, _, index in read_indexes(source, tail, 0, footer, {2}) if kind == ROW_INDEX]
        assert tail.stripe_statistics is not None
        _check(tail.statistics[2], shown, exact=False)
        _check(tail.stripe_statistics[0][2], shown, exact=False)
        for number, entry in enumerate(indexes[0].entry):
            part = slice(1000 * number, 1000 * (number + 1))
            gaps = np.unique(np.diff(shown[part]))
            _check(entry.statistics, shown[part], exact=len(gaps) == 1 and seconds[0] > 400_000)


def _check(statistics: messages.Message, shown: np.ndarray, *, exact: bool) -> None:
    times = statistics.timestamp_statistics
    assert not times.HasField("minimum")
    assert times.minimum_utc <= shown.min()
    assert shown.max() <= times.maximum_utc
    if exact:
        assert (times.minimum_utc, times.maximum_utc) == (shown[0], shown[-1])


def test_statistics_say_nothing_of_times_whose_rules_only_java_has(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, random_seconds(10), "zlib")
    mend_indexes(path, "SystemV/EST5EDT")
    with LocalSource(path) as source:
        statistics = read_tail(source).statistics[2]
    assert statistics.number_of_values == 10
    assert not statistics.HasField("timestamp_statistics")
