from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest

from compactor.orc.codecs.codec import Unfit
from compactor.orc.codecs.pyorc_codec import TIMESTAMP
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail
from compactor.tables.schema import PARTS
from compactor.tables.time_forms import (
    is_hybrid,
    to_encodable,
    to_gregorian_dates,
    to_gregorian_days,
    to_gregorian_seconds,
    to_hybrid_calendar,
    to_hybrid_days,
)
from tests.support.acid_files import TYPES
from tests.support.expected import _julian

EARLY = [datetime(1, 1, 1), None, datetime(1969, 12, 31, 23, 59, 59, 500000)]
ENCODED = [{"seconds": -62135596800, "nanos": 0}, None, {"seconds": -1, "nanos": 500_000_000}]
FIRST, LAST_JULIAN, FIRST_GREGORIAN = -719_162, -141_438, -141_427  #: 0001-01-01, 1582-10-04, 1582-10-15


def test_timestamps_get_the_codecs_form_at_any_depth() -> None:
    item = pa.struct([pa.field("k", pa.map_(pa.string(), pa.timestamp("us")))])
    given = pa.array([[{"k": [("a", day)]}] for day in EARLY], pa.list_(item))
    kind = pa.list_(pa.struct([pa.field("k", pa.map_(pa.string(), TIMESTAMP))]))
    assert to_encodable(given, kind).to_pylist() == [[{"k": [("a", part)]}] for part in ENCODED]
    assert to_encodable(pa.array(EARLY), TIMESTAMP).to_pylist() == ENCODED


def test_nanoseconds_are_for_the_other_codec_where_they_do_not_reach() -> None:
    assert to_encodable(pa.array(EARLY[1:]), pa.timestamp("ns")).type == pa.timestamp("ns")
    with pytest.raises(Unfit):
        to_encodable(pa.array(EARLY), pa.timestamp("ns"))


def test_nothing_else_changes() -> None:
    array = pa.array([[1], None])
    assert to_encodable(array, array.type) is array


def test_every_julian_day_becomes_the_same_date() -> None:
    days = np.arange(-719_164, -141_427, 97)
    for day, found in zip(days.tolist(), to_gregorian_days(days).tolist(), strict=True):
        assert date.fromordinal(719_163 + found).isoformat() == _julian(day)


def test_later_days_and_nulls_stay() -> None:
    dates = pa.array([-141_428, None, -141_427, 0], pa.int32()).cast(pa.date32())
    assert to_gregorian_dates(dates).cast(pa.int32()).to_pylist() == [-141_438, None, -141_427, 0]
    modern = pa.array([date(2026, 1, 1), None])
    assert to_gregorian_dates(modern) is modern
    assert to_gregorian_seconds(np.array([-141_428 * 86_400 + 5, 7])).tolist() == [-141_438 * 86_400 + 5, 7]


def test_who_counts_in_the_julian_calendar() -> None:
    java = empty_tail(TYPES)
    assert is_hybrid(java)
    assert is_hybrid(replace(java, calendar=1, writer=4))
    assert not is_hybrid(replace(java, calendar=2))
    assert not is_hybrid(replace(java, writer=4))


def test_every_day_is_read_as_it_was_written() -> None:
    days = np.concatenate([np.arange(FIRST, LAST_JULIAN + 1), np.arange(FIRST_GREGORIAN, 100)])
    assert to_gregorian_days(to_hybrid_days(days)).tolist() == days.tolist()
    assert to_hybrid_days(np.array([FIRST, LAST_JULIAN])).tolist() == [-719_164, -141_428]


def test_early_days_at_any_depth_are_counted_in_the_julian_calendar() -> None:
    types = parse_hive_type("struct<a:array<struct<d:date,m:map<int,timestamp>>>>")
    inner = pa.struct([pa.field("d", pa.date32()), pa.field("m", pa.map_(pa.int32(), pa.timestamp("us")))])
    rows = [[{"d": date(1, 1, 1), "m": [(1, datetime(1, 1, 1, 12))]}, None], None, [{"d": None, "m": None}]]
    made = to_hybrid_calendar(pa.array(rows, pa.list_(inner)), types, types[0].children[0])
    days = made.values.flatten()[0].cast(pa.int32()).to_pylist()
    assert days == [-719_164, None, None]
    assert made.values.flatten()[1].to_pylist() == [
        [(1, {"seconds": -719_164 * 86_400 + 43_200, "nanos": 0})],
        None,
        None,
    ]
    assert made.is_null().to_pylist() == [False, True, False]


def test_later_values_stay_what_they_are() -> None:
    types = parse_hive_type("struct<d:date,t:timestamp,i:int>")
    for array, column in (
        (pa.array([date(1582, 10, 15), None]), 1),
        (pa.array([datetime(2026, 1, 1)]), 2),
        (pa.array([1]), 3),
    ):
        assert to_hybrid_calendar(array, types, column) is array


def test_parts_are_counted_so_too() -> None:
    types = parse_hive_type("struct<t:timestamp>")
    given = pa.array([{"seconds": FIRST * 86_400, "nanos": 7}, None], PARTS)
    assert to_hybrid_calendar(given, types, 1).to_pylist() == [{"seconds": -719_164 * 86_400, "nanos": 7}, None]
