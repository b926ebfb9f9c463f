from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pyarrow as pa

from compactor.orc.format.hive_types import parse_hive_type
from compactor.tables.reading.calendars import to_gregorian_days, to_hybrid_days
from compactor.tables.schema import PARTS
from compactor.tables.writing.hybrid import to_hybrid_calendar

FIRST, LAST_JULIAN, FIRST_GREGORIAN = -719_162, -141_438, -141_427  #: 0001-01-01, 1582-10-04, 1582-10-15


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
