"""Fine times, and days and times before the Gregorian calendar, are found in what is encoded (PROTOCOL 2.7)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.stripe_footer import ROW_INDEX, filter_streams, read_indexes, read_stripe_footer
from compactor.orc.format.tail import JULIAN, PROLEPTIC_GREGORIAN, empty_tail
from compactor.orc.io.source import LocalSource
from compactor.orc.reencode import encode_acid
from compactor.tables.time_forms import to_hybrid_days
from tests.judges import PYORC as PYORC_JUDGE
from tests.judges import Predicate, orc_1_5, orc_2_3, trino_476
from tests.judges.values import date_days, time_nanos

ROW = "struct<t:timestamp>"
DATED = "struct<d:date,s:struct<e:date>,l:array<date>>"
GROUP = 1000
FINE = "2020-07-01 12:00:00.123456000"
VALUES: dict[str, list[str | None]] = {
    "microseconds": [FINE],
    "microseconds and NULL": [None, FINE],
    "microseconds behind milliseconds": ["2020-07-01 12:00:00.123000000", FINE],
    "milliseconds": ["2020-07-01 12:00:00.123000000"],
    "before 1970": ["1969-12-31 23:59:58.000001000"],
    "before 1582": ["1500-01-01 00:00:00.000000000", "1500-03-01 00:00:00.500000000"],
}


WAYS = {
    "arrow": (ARROW, Compression.ZLIB),
    "arrow, snappy": (ARROW, Compression.SNAPPY),
    "pyorc": (PYORC, Compression.NONE),
}


def _encodable(text: str | None, codec: Codec) -> Any:
    if text is None:
        return None
    nanos = time_nanos(text)
    if codec is ARROW:
        return pa.scalar(nanos, pa.timestamp("ns"))
    seconds, rest = divmod(nanos, 1_000_000_000)
    return {"seconds": seconds, "nanos": rest}


def _stored_day(text: str | None, calendar: int) -> int | None:
    if text is None:
        return None
    day = date_days(text)
    return day if calendar == PROLEPTIC_GREGORIAN else int(to_hybrid_days(np.array([day]))[0])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VALUES)
def test_encoded_times_are_found(name: str, way: str, tmp_path: Path) -> None:
    codec, compression = WAYS[way]
    if codec is ARROW and "before" in name:
        codec = PYORC  # as the product does
    values = VALUES[name]
    types = parse_hive_type(ROW)
    batch = pa.RecordBatch.from_pylist([{"t": _encodable(value, codec)} for value in values], codec.schema(types))
    path = tmp_path / "file"
    encode_acid([batch], path, like=empty_tail(types, compression=compression), types=types, codec=codec)
    literals = [*filter(None, values), "2020-07-01 12:00:00.123000000", "2020-07-01 12:00:00.124000000"]
    predicates = [
        Predicate("t", operator, (literal,), negated)
        for operator, literal, negated in product(("=", "<", "<=", "in"), literals, (False, True))
    ]
    for judge in (orc_1_5(), orc_2_3()):
        everything, *answers = judge.answers(path, [None, *predicates])
        assert len(everything) == len(values)
        for predicate, answer in zip(predicates, answers, strict=True):
            assert [row for row in everything if predicate.matches(row, ROW)] == answer, (judge.name, predicate)


DAYS: dict[str, list[str | None]] = {
    "before 1582": ["1000-02-28"],
    "before and after": ["1000-02-28", "1970-01-01", None],
    "the last Julian day": ["1582-10-04"],
    "the first Gregorian day": ["1582-10-15"],
    "Julian days that lag behind": ["0200-02-20"],
    "the first day": ["0001-01-01"],
    "Julian days in the second row group": [*["1999-12-31"] * GROUP, "1000-02-28", "1600-01-01"],
}
CALENDARS = {"arrow": 0, "arrow, snappy": JULIAN, "pyorc": PROLEPTIC_GREGORIAN}


@pytest.mark.parametrize(("way", "calendar"), CALENDARS.items())
@pytest.mark.parametrize("days", DAYS.values(), ids=DAYS)
def test_encoded_days_are_found(days: list[str | None], way: str, calendar: int, tmp_path: Path) -> None:
    """ORC Java 1.5 finds no day before 1582 by bounds, if it converts days to the Gregorian calendar."""
    codec, compression = WAYS[way]
    types = parse_hive_type(DATED)
    schema = codec.schema(types)
    stored = pa.array([_stored_day(day, calendar) for day in days], pa.int32()).cast(schema.field("d").type)
    items = pa.ListArray.from_arrays(pa.array(range(len(days) + 1), pa.int32()), stored)
    nested = pa.StructArray.from_arrays([stored], fields=list(schema.field("s").type))
    batch = pa.RecordBatch.from_arrays([stored, nested, items.cast(schema.field("l").type)], schema=schema)
    like = empty_tail(types, compression=compression, calendar=calendar, row_index_stride=GROUP)
    path = tmp_path / "file"
    tail = encode_acid([batch], path, like=like, types=types, codec=codec, filtered=(1, 3))
    with LocalSource(path) as source:
        footer = read_stripe_footer(source, tail, 0)
        assert {stream.column for stream in filter_streams(footer)} == {1, 3}
        (*_, index), *_ = read_indexes(source, tail, 0, footer, {5}, kinds=(ROW_INDEX,))
    is_known = min(filter(None, days)) >= "1582-10-15"
    for statistics in (tail.statistics, *(tail.stripe_statistics or ())):
        assert [statistics[column].HasField("date_statistics") for column in (1, 3, 5)] == [is_known] * 3
    groups = [days[start : start + GROUP] for start in range(0, len(days), GROUP)]
    assert [entry.statistics.HasField("date_statistics") for entry in index.entry] == [
        min(filter(None, group)) >= "1582-10-15" for group in groups
    ]
    literals = sorted({*filter(None, days), "0001-01-01", "1000-02-27", "1582-10-04", "1582-10-15", "9999-12-31"})
    if len(days) > GROUP:
        literals = ["1000-02-28", "1600-01-01"]
    predicates = [
        Predicate(column, operator, (literal,), negated)
        for column, operator, literal, negated in product(("d", "s.e"), ("=", "<", "<=", "in"), literals, (False, True))
    ]
    predicates += [Predicate("d", "between", bounds) for bounds in product(literals, literals)]
    for judge in (orc_1_5(), orc_2_3(), trino_476(), PYORC_JUDGE):
        everything, *answers = judge.answers(path, [None, *predicates])
        if judge in (orc_1_5(), orc_2_3()):
            assert [row[0] for row in everything] == days
        for predicate, answer in zip(predicates, answers, strict=True):
            assert [row for row in everything if predicate.matches(row, DATED)] == answer, (judge.name, predicate)
